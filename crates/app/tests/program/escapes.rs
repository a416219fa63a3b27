//! Names, file names, excerpts and what others' files say cannot drive the terminal: the real program, piped and on a
//! terminal.

use crate::common::{EBB, Home, status};
use ebbtide_host::testing;
use ebbtide_model::shown::is_control;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Sets a window's title, clears the screen in one C1 control, turns the text around.
const TITLE: &str = "\u{1b}]0;owned\u{7}";
const CLEAR: &str = "\u{9b}2J";
const TURN: &str = "\u{202e}";

fn hostile() -> String {
    format!("x{TITLE}{CLEAR}{TURN}\r\u{2028}y")
}

/// As a TOML string.
fn quoted(text: &str) -> String {
    let escaped =
        text.chars().map(|c| if c.is_ascii_control() { format!("\\u{:04x}", c as u32) } else { c.into() });
    format!("\"{}\"", escaped.collect::<String>())
}

/// One simulated volume; names may not hold controls, but they may turn text around, and descriptions may hold anything.
fn experiment() -> String {
    format!(
        "name = {}\ndescription = {}\n\
         [volumes.vol]\nsize = \"64MiB\"\nshape = {{ iops = 1000, latency = \"0.5ms\" }}\n\
         [designs.single]\nlayout = \"linear\"\nmembers = [\"vol\"]\n\
         [workloads.seqread]\nrw = \"read\"\nbs = \"128KiB\"\nruntime = \"50ms\"\n\
         [answer]\ntrials_min = 6\ntrials_max = 6\n",
        quoted(&format!("n{TURN}m")),
        quoted(&hostile()),
    )
}

/// What `arguments` print, piped and on a terminal: nothing of it drives a terminal but the program's own styles.
fn printed(home: &Home, arguments: &[&OsStr]) -> String {
    let output = home.command(EBB).args(arguments).output().unwrap();
    assert!((0..=3).contains(&status(&output)), "{arguments:?}: {output:?}");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!text.replace(['\n', '\t'], "").contains(is_control), "{arguments:?}: {text:?}");

    // util-linux's `script` gives it a terminal.
    let line: Vec<String> = arguments
        .iter()
        .map(|a| format!("\"$A{}\"", arguments.iter().position(|b| a == b).unwrap()))
        .collect();
    let mut command = home.on_a_terminal(&format!("{EBB} {}", line.join(" ")));
    for (index, argument) in arguments.iter().enumerate() {
        command.env(format!("A{index}"), argument);
    }
    let seen = command.env("TERM", "xterm-256color").output().unwrap();
    let seen = String::from_utf8(seen.stdout).unwrap();
    for raw in [TITLE, CLEAR, TURN, "\u{9b}", "\u{2028}", "\u{1b}]"] {
        assert!(!seen.contains(raw), "{arguments:?}: {raw:?} in {seen:?}");
    }
    text
}

fn words(line: &str) -> Vec<&OsStr> {
    line.split_whitespace().map(OsStr::new).collect()
}

#[test]
fn experiments_and_their_reports() {
    let home = Home::new();
    home.write("x.toml", &experiment());
    let checked = printed(&home, &words("check x.toml"));
    assert!(checked.contains("n\\u202em: x\\x1b]0;owned\\x07\\u009b2J\\u202e\\r\\u2028y"), "{checked}");
    let run = printed(&home, &words("run x.toml --on sim"));
    assert!(run.contains("\\u202e"), "{run}");
    for line in
        ["run x.toml --plan", "list", "show last", "show last --json", "show last --json", "show last --why"]
    {
        printed(&home, &words(line));
    }
    let list = printed(&home, &words("list"));
    assert!(list.contains("n\\u202em"), "{list}");
    // Text and HTML in files, for whoever reads them with `cat` or a browser.
    for name in ["r.txt", "r.html", "r.json"] {
        printed(&home, &words(&format!("show last -o {name}")));
        let text = std::fs::read_to_string(home.path(name)).unwrap();
        assert!(!text.replace(['\n', '\t'], "").contains(is_control), "{name}");
        // The text report names designs and workloads only.
        assert!(name == "r.txt" || text.contains("\\u202e"), "{name}");
    }
    // What programs read stays as it was written.
    let exact = home.ebb("show last --experiment").output().unwrap();
    assert_eq!(String::from_utf8(exact.stdout).unwrap(), experiment());
    printed(&home, &words("list --json"));
}

#[test]
fn file_names_and_excerpts() {
    let home = Home::new();
    let name = format!("{}\n.toml", hostile());
    home.write(&name, &format!("name = \"x\"\ndescripton = {}\n", hostile()));
    let told = printed(&home, &[OsStr::new("check"), OsStr::new(&name)]);
    assert!(told.contains("x\\x1b]0;owned\\x07") && told.contains("descripton = x\\x1b"), "{told}");
    let nowhere = OsStr::new(&name[1..]);
    for line in [
        "run",
        "bench",
        "bench --profile",
        "import",
        "verify",
        "watch --log",
        "catalog import",
        "layout where",
        "user-data",
        "bench --rw read --design",
        "catalog list --catalog",
        "plan",
    ] {
        let mut arguments = words(line);
        arguments.push(nowhere);
        let told = printed(&home, &arguments);
        assert!(told.contains("\\x1b]0;owned"), "{line}: {told}");
        // A name cannot forge a line of its own.
        assert!(!told.lines().any(|line| line.starts_with(".toml")), "{line}: {told}");
    }
    let told = printed(&home, &[OsStr::new("list"), OsStr::new("--store"), OsStr::new(&name)]);
    assert!(told.contains("\\x1b]0;owned") && told.contains("is not a store"), "{told}");
    assert!(!told.lines().any(|line| line.starts_with(".toml")), "{told}");
    // Arguments that the command line itself refuses, and file names that are no text.
    for arguments in [
        vec![nowhere],
        vec![OsStr::new("show"), OsStr::new("x"), nowhere],
        vec![OsStr::new("list"), OsStr::new("-n"), nowhere],
    ] {
        assert!(printed(&home, &arguments).contains("\\x1b]0;owned"), "{arguments:?}");
    }
    printed(&home, &[OsStr::new("run"), OsStr::from_bytes(b"\x1b]0;\xff\x9b2J")]);
}

#[test]
fn excerpts_keep_their_caret_below_what_it_is_about() {
    let home = Home::new();
    home.write("x.toml", "name = \"x\"\n\"a\u{202e}\" = 1\n");
    let told = printed(&home, &words("check x.toml"));
    let lines: Vec<&str> = told.lines().collect();
    let at = lines.iter().position(|line| line.contains("\"a\\u202e\"")).unwrap_or_else(|| panic!("{told}"));
    let (marked, caret) = (lines[at], lines[at + 1]);
    assert_eq!(marked.find("\"a\\u202e\""), caret.find('^'), "{told}");
    assert_eq!(caret.matches('^').count(), "\"a\\u202e\"".len(), "{told}");
}

#[test]
fn what_others_measured() {
    const FIO: &str = include_str!("../../../formats/src/import/recorded/fio-3.33.txt");
    const BONNIE: &str = include_str!("../../../formats/src/import/recorded/bonnie-2.00.csv");
    let home = Home::new();
    let name = format!("f{}", hostile());
    home.write(&name, &FIO.replace("\"seqread\"", &serde_json::to_string(&hostile()).unwrap()));
    home.write("b.csv", &BONNIE.replace(",vm,", &format!(",{TITLE}{CLEAR}{TURN},")));
    let told = printed(&home, &[OsStr::new("import"), OsStr::new(&name), OsStr::new("b.csv")]);
    assert!(told.contains("\\u202e"), "{told}");
    let list = home.json("list", &[0]);
    let ids: Vec<&str> =
        list["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    for id in &ids {
        for line in [
            format!("show {id}"),
            format!("show {id} --why"),
            format!("show {id}"),
            format!("show {id} --format csv"),
        ] {
            let output = home.ebb(&line).output().unwrap();
            assert_eq!(status(&output), 0, "{line}: {output:?}");
            if !line.contains("--format csv") {
                printed(&home, &words(&line));
            }
        }
    }
    printed(&home, &words(&format!("compare {}", ids.join(" "))));
}

#[test]
fn what_the_kernel_and_udev_say() {
    let root = testing::unpack(testing::ARRAYS);
    let at = |path: &str| root.path().join(path.trim_start_matches('/'));
    let replace = |path: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(at(path)).unwrap();
        assert!(text.contains(from), "{path}");
        std::fs::write(at(path), text.replace(from, to)).unwrap();
    };
    // The kernel writes ESC as \033 there, and anything else as it is.
    replace(
        "/proc/self/mountinfo",
        " / / rw,relatime - ext4",
        &format!(" / /m\\033[2J\\012{CLEAR}{TURN} rw - ext4"),
    );
    replace("/sys/devices/virtual/block/dm-0/dm/name", "vg0-data", &hostile().replace('\r', ""));
    for entry in std::fs::read_dir(at("/run/udev/data")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("ID_FS_LABEL=", &format!("ID_FS_LABEL={TITLE}{TURN}"))).unwrap();
    }
    let home = Home::new();
    let root = root.path().as_os_str();
    let told = printed(&home, &[OsStr::new("volumes"), OsStr::new("--root"), root]);
    assert!(told.contains("on /m\\x1b[2J\\n\\u009b2J\\u202e"), "{told}");
    assert!(told.contains("x\\x1b]0;owned\\x07\\u009b2J\\u202e"), "{told}");
    printed(&home, &[OsStr::new("volumes"), OsStr::new("--json"), OsStr::new("--root"), root]);
}

/// A store of somebody else's may say anything.
#[test]
fn a_store_from_elsewhere() {
    let home = Home::new();
    home.write("x.toml", &experiment());
    home.json("run x.toml --on sim", &[0, 3]);
    let long = format!("{}{}", hostile(), "i".repeat(70_000));
    let store = home.files_in("data").into_iter().find(|path| path.ends_with("store.sqlite")).unwrap();
    let store = rusqlite::Connection::open(store).unwrap();
    store.pragma_update(None, "foreign_keys", false).unwrap();
    store.execute("UPDATE sessions SET id = ?1, headline = ?2", (&long, hostile())).unwrap();
    store.execute("UPDATE trials SET session = ?1", (&long,)).unwrap();
    drop(store);
    let told = printed(&home, &words("list"));
    assert!(
        told.starts_with("SESSION  STARTED"),
        "one long id does not widen the others' column: {}",
        &told[..200]
    );
    assert!(told.contains("\\x1b]0;owned\\x07") && told.contains(&"i".repeat(70_000)));
    printed(&home, &words("show last"));
    assert_eq!(home.json("list", &[0])["sessions"][0]["id"], long.as_str(), "JSON is the same value");
}

/// A name with a line break would be a line of its own, and a long one hides what is wrong.
#[test]
fn what_is_quoted_of_an_argument_is_short_and_on_one_line() {
    let home = Home::new();
    let (odd, long) = ("a\nB\u{1b}[31m.x", "x".repeat(100_000));
    let commands: [&[&str]; 10] = [
        &["watch"],
        &["volumes"],
        &["attach"],
        &["undo"],
        &["undo", "--dry-run"],
        &["status"],
        &["completions"],
        &["cleanup", "--older-than"],
        &["bench", "f", "--rw"],
        &["lab"],
    ];
    for words in commands {
        for argument in [odd, &long] {
            let output = home.command(EBB).args(words).arg(argument).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!([1, 2].contains(&status(&output)), "{words:?}: {said}");
            assert!(said.len() < 6000, "{words:?}: {} bytes", said.len());
            assert!(!said.lines().any(|line| line.starts_with('B')), "{words:?}: {said}");
        }
    }
}
