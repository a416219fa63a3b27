//! `ebb layout where` and `ebb layout compare` as a user runs them.

use assert_cmd::Command;
use serde_json::{Value, json};

fn ebb(line: &str) -> Command {
    let mut command = Command::cargo_bin("ebb").unwrap();
    command.args(line.split_whitespace());
    command
}

fn json_of(line: &str) -> Value {
    let output = ebb(line).arg("--json").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// (member, offset, length, copy or role) of every extent.
fn extents(line: &str) -> Vec<(u64, u64, u64, Value)> {
    let number = |e: &Value, key: &str| e[key].as_u64().unwrap();
    json_of(line)["extents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let role = e.get("copy").or_else(|| e.get("role")).unwrap().clone();
            (number(e, "member"), number(e, "offset"), number(e, "length"), role)
        })
        .collect()
}

#[test]
fn a_stripe_extent_is_on_one_member() {
    let line = "layout where --layout stripe --members 4 --chunk 256KiB --member-size 1GiB --offset 1MiB --length 4KiB";
    assert_eq!(extents(line), [(0, 262_144, 4096, json!(0))]);
}

#[test]
fn copies_and_parity_are_told_apart() {
    let raid10 = "layout where --layout raid10 --arrangement far --chunk 64KiB --members 3 --member-size 1MiB --offset 128KiB";
    assert_eq!(extents(raid10), [(2, 0, 4096, json!(0)), (0, 524_288, 4096, json!(1))]);
    let raid6 = "layout where --layout raid6 --chunk 64KiB --members 5 --member-size 1MiB --offset 192KiB";
    assert_eq!(
        extents(raid6),
        [
            (0, 65536, 4096, json!(0)),
            (3, 65536, 4096, json!("parity-p")),
            (4, 65536, 4096, json!("parity-q"))
        ]
    );
}

#[test]
fn unequal_members_by_list_or_by_repetition() {
    let list = "layout where --layout linear --member-size 1MiB,2MiB --offset 1MiB";
    let repeated = "layout where --layout linear --member-size 1MiB --member-size 2MiB --offset 1MiB";
    assert_eq!(extents(list), [(1, 0, 4096, json!(0))]);
    assert_eq!(extents(repeated), extents(list));
}

#[test]
fn the_reverse_finds_the_array_byte() {
    let base = "layout where --layout stripe --members 4 --chunk 256KiB --member-size 1000KiB";
    let found = json_of(&format!("{base} --member 0 --member-offset 256KiB"));
    assert_eq!(found["array_offset"], 1 << 20);
    let tail = json_of(&format!("{base} --member 0 --member-offset 999KiB"));
    assert_eq!((&tail["used"], tail.get("array_offset")), (&json!(false), None));
}

#[test]
fn a_design_of_an_experiment_file_names_its_members() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("e.toml");
    let text = r#"
name = "two"
[volumes.left]
size = "64MiB"
[volumes.right]
size = "64MiB"
[designs.one]
layout = "linear"
members = ["left", "right"]
[designs.both]
layout = "stripe"
chunk = "64KiB"
members = ["left", "right"]
[workloads.read]
rw = "randread"
runtime = "10s"
"#;
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let found = json_of(&format!("layout where {path}:both --offset 64KiB"));
    assert_eq!(found["extents"][0]["name"], "right", "{found}");
    let back = json_of(&format!("layout where {path}:both --member right --member-offset 0"));
    assert_eq!(back["array_offset"], 65536);
    let missing = ebb(&format!("layout where {path}:none")).assert().code(2);
    let stderr = String::from_utf8_lossy(&missing.get_output().stderr).into_owned();
    assert!(stderr.contains("no design `none`; it has one, both"), "{stderr}");
}

#[test]
fn what_cannot_be_says_what_to_write_and_exits_2() {
    let stripe = "layout where --layout stripe --members 4 --member-size 1MiB --chunk 64KiB";
    let cases = [
        ("layout where".to_owned(), "write --layout"),
        ("layout where --layout stripe --members 4".to_owned(), "--member-size 1GiB"),
        ("layout where --layout stripe --members 3 --member-size 1GiB,1GiB".to_owned(), "or 3 sizes"),
        (
            "layout where --layout raid6 --members 3 --member-size 1GiB".to_owned(),
            "raid6 needs at least 4 members",
        ),
        ("layout where --layout raid10 --copies 5 --members 4 --member-size 1GiB".to_owned(), "from 2 to 4"),
        (
            "layout where --layout raid5 --members 4 --member-size 1GiB --chunk 12KiB".to_owned(),
            "a power of two",
        ),
        (format!("{stripe} --offset 4MiB"), "at most that"),
        (format!("{stripe} --offset 18446744073709551615"), "at most that"),
        (format!("{stripe} --length 0"), "--length 1"),
        (format!("{stripe} --member 4 --member-offset 0"), "write one of 0, 1, 2, 3"),
        (
            "layout where --layout stripe --member-size 1000TiB --chunk 4k --length 1TiB".to_owned(),
            "write at most",
        ),
        ("layout compare --members 17 --member-size 1GiB".to_owned(), "at most 16"),
        ("layout compare".to_owned(), "--member-size 1GiB"),
        ("layout compare --members 0 --member-size 1GiB".to_owned(), "at least 1 members"),
    ];
    for (line, wanted) in cases {
        let assert = ebb(&line).assert().code(2);
        let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(stderr.contains(wanted), "`{line}` said {stderr:?}, not {wanted:?}");
        assert!(assert.get_output().stdout.is_empty());
    }
}

#[test]
fn the_picture_marks_the_extent() {
    let line = "layout where --layout raid5 --members 3 --member-size 1MiB --chunk 64KiB --offset 128KiB";
    let output = ebb(line).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("RAID5 of 3, chunk 64KiB, 2MiB"), "{text}");
    assert!(text.contains("parity P"), "{text}");
    assert!(text.contains("[c2]") || text.contains("[c3]"), "{text}");
}

#[test]
fn layouts_compares_the_levels() {
    let value = json_of("layout compare --members 4 --member-size 1GiB");
    let raid10: Vec<&Value> =
        value["layouts"].as_array().unwrap().iter().filter(|r| r["layout"] == "raid10").collect();
    assert_eq!(raid10[0]["capacity"], 2u64 << 30);
    assert_eq!((&raid10[0]["losses_guaranteed"], &raid10[0]["losses_best"]), (&json!(1), &json!(2)));
    let text =
        String::from_utf8(ebb("layout compare --members 3 --member-size 1GiB").output().unwrap().stdout)
            .unwrap();
    assert!(text.contains("raid5            2GiB"), "{text}");
    assert!(text.contains("raid6: not possible: raid6 needs at least 4 members"), "{text}");
}
