//! `ebb watch` on a real terminal: what it writes is recorded, and rendered to text by a terminal emulator.

use crate::common::{EBB, Home};
use std::io::{Read, Write};
use std::process::Stdio;
use vt100::Parser;

/// What leaves the alternate screen (xterm's `rmcup`): until then the picture stands.
const LEAVE: &[u8] = b"\x1b[?1049l";

/// Bytes that `ebb watch` writes to a terminal of this size while `keys` are pressed one after the other, each when the
/// picture has changed.
fn record(rows: u16, columns: u16, arguments: &str, keys: &[&str]) -> Vec<u8> {
    let run = format!("stty rows {rows} cols {columns}; exec {EBB} watch {arguments}");
    let home = Home::new();
    let mut child = home
        .on_a_terminal(&run)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = Vec::new();
    let mut keys = keys.iter();
    let mut chunk = [0; 4096];
    loop {
        let read = output.read(&mut chunk).unwrap();
        if read == 0 {
            break;
        }
        said.extend_from_slice(&chunk[..read]);
        if screen(rows, columns, &said).contents().contains("q quit")
            && let Some(key) = keys.next()
        {
            input.write_all(key.as_bytes()).unwrap();
        }
    }
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&said));
    said
}

fn screen(rows: u16, columns: u16, bytes: &[u8]) -> vt100::Screen {
    let mut parser = Parser::new(rows, columns, 0);
    parser.process(bytes);
    parser.screen().clone()
}

/// The last picture before the terminal was put back.
fn picture(rows: u16, columns: u16, bytes: &[u8]) -> vt100::Screen {
    let end = bytes.windows(LEAVE.len()).rposition(|window| window == LEAVE).unwrap();
    screen(rows, columns, &bytes[..end])
}

/// Whole devices that have a size, as the picture must show them with `--idle`.
fn disks() -> usize {
    let size = |name: &std::path::Path| std::fs::read_to_string(name.join("size")).unwrap_or_default();
    let found = std::fs::read_dir("/sys/block").unwrap().flatten();
    found.filter(|disk| size(&disk.path()).trim() != "0").count()
}

#[test]
fn a_terminal_of_any_size_shows_the_table_and_is_put_back() {
    for (rows, columns) in [(24, 80), (60, 200)] {
        let said = record(rows, columns, "--interval 100ms --count 4 --idle", &[]);
        let screen = picture(rows, columns, &said);
        let lines: Vec<String> = screen.rows(0, columns).collect();
        let text = lines.join("\n");
        assert!(screen.alternate_screen() && screen.hide_cursor(), "{text}");
        assert_eq!(lines.len(), usize::from(rows));
        assert!(lines[0].contains("ebb watch") && lines[0].contains("sorted by tree"), "{text}");
        assert!(
            lines[0].ends_with("UTC ") && lines[0].len() == usize::from(columns),
            "the title reaches the right edge:\n{text}"
        );
        // Above it are the processors and swapping.
        let top = lines.iter().position(|line| line.contains("DEVICE")).unwrap_or_default();
        for column in ["DEVICE", "r/s", "rMB/s", "r_await", "w/s", "wMB/s", "w_await", "aqu-sz", "%util"] {
            assert!(lines[top].contains(column), "{column} is not in\n{text}");
        }
        // Merges and request sizes need room.
        assert_eq!(lines[top].contains("rrqm/s"), columns == 200, "{text}");
        assert!(lines[usize::from(rows) - 1].contains("? help"), "{text}");
        // A row per device, with a figure under each heading: the right edge of a heading is that of its figures.
        let device = &lines[top + 1];
        let edge = lines[top].find("r/s").unwrap() + "r/s".len();
        let figure = device[..edge].split_whitespace().last().unwrap();
        assert!(figure.parse::<f64>().is_ok() && device[..edge].ends_with(figure), "{text}");
        let shown = lines[top + 1..]
            .iter()
            .take_while(|line| !line.trim().is_empty() && !line.contains("q quit"))
            .count();
        assert!(shown >= disks().min(usize::from(rows) - 6), "{shown} of {} devices in\n{text}", disks());
        // Afterwards the terminal is what it was.
        let left = self::screen(rows, columns, &said);
        assert!(!left.alternate_screen() && !left.hide_cursor());
        assert_eq!(left.contents().trim(), "");
    }
}

#[test]
fn keys_change_the_picture() {
    let said = record(24, 80, "--interval 200ms --idle", &["s", "u", " ", "q"]);
    let text = picture(24, 80, &said).contents();
    assert!(!text.contains("sorted by tree"), "s sorts by something else:\n{text}");
    assert!(text.contains("rMiB/s"), "u changes the unit:\n{text}");
    assert!(text.contains("FROZEN"), "space freezes it:\n{text}");
}
