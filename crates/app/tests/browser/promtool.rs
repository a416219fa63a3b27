//! What Prometheus' own checker says of the figures that are written and served, and of the rules for alerts in the documentation.

use super::serve::{Serving, store};
use assert_cmd::Command;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// Where `cargo xtask setup` puts the checker.
const PROMTOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/prometheus/usr/bin/promtool");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/monitor-alerts.yml");

/// Has it check `text` by the command `words`: neither errors nor complaints of its linter.
fn check(words: &[&str], text: &str) {
    assert!(Path::new(PROMTOOL).exists(), "{PROMTOOL} is missing; `cargo xtask setup` installs it");
    let output = Command::new(PROMTOOL).arg("check").args(words).write_stdin(text).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}\n{text}");
}

/// A new answer's head and body.
fn get(serving: &Serving, path: &str) -> (String, String) {
    let host = serving.1.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn promtool_has_no_complaint() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let (store, _) = store(directory.path());
    let (volume, file) = (directory.path().join("v"), directory.path().join("ebb.prom"));
    std::fs::write(&volume, vec![7; 4 << 20]).unwrap();
    let mut pass = Command::new(env!("CARGO_BIN_EXE_ebb"));
    pass.args(["monitor", "run", "--quiet", "--busy-too", "--store"]).arg(&store);
    pass.arg("--metrics").arg(&file).arg(&volume).assert().success();
    let written = std::fs::read_to_string(&file).unwrap();
    for figure in ["ebbtide_volume_seeks_per_second{", "ebbtide_volume_change_ratio{"] {
        assert!(written.contains(figure), "{written}");
    }
    check(&["metrics"], &written);
    let serving = Serving::start(&store);
    let (head, served) = get(&serving, "/metrics");
    assert!(
        head.starts_with("HTTP/1.1 200 ")
            && head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{head}"
    );
    check(&["metrics"], &served);
    assert_eq!(served, written, "one store, one text");
    check(&["rules", RULES], "");
}
