//! `ebb watch --log` on the published slow member.

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

const SLOW_MEMBER: &str = "\
Device:         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s avgrq-sz avgqu-sz   await  svctm  %util
md0               0.00     0.00    0.00  615.20     0.00    25.42    84.63     0.00    0.00   0.00   0.00
sdi1              0.00     0.06    0.00  307.41     0.00    12.71    84.67   148.55  483.20   3.25 100.02
sdi2              0.00     0.04    0.00  307.60     0.00    12.71    84.61    10.49   34.10   1.19  36.67
";

fn ebb(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("ebb").expect("the program is built");
    command.args(arguments).write_stdin(SLOW_MEMBER);
    command
}

#[test]
fn the_slow_member_is_named() {
    let output = ebb(&["watch", "--log", "-"]).output().expect("it runs");
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
}

#[test]
fn json_names_it_too() {
    let output = ebb(&["watch", "--log", "-", "--json"]).output().expect("it runs");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["explanation"]["groups"][0]["outliers"][0]["name"], "sdi1");
}

#[test]
fn what_cannot_be_explained_says_why() {
    ebb(&["watch", "--log", "-", "--members", "sdi1,sdz"]).assert().code(2).stderr(contains("`sdz`"));
    ebb(&["watch", "--log", "/no/such/log"]).assert().code(1).stderr(contains("/no/such/log"));
    let mut nothing = ebb(&["watch", "--log", "-"]);
    nothing
        .write_stdin("hello")
        .assert()
        .code(1)
        .stderr(contains("no report of iostat").and(contains("Device")));
}

#[test]
fn members_have_siblings() {
    for members in ["sdi1", "sdi1,sdi1"] {
        let mut alone = ebb(&["watch", "--log", "-", "--members", members]);
        alone.assert().code(2).stderr(contains("no siblings").and(contains(members)));
    }
    let mut twice = ebb(&["watch", "--log", "-", "--members", "sdi1,sdi2,sdi1"]);
    twice.assert().code(2).stderr(contains("`sdi1` is named twice"));
}

#[test]
fn the_first_report_is_left_out_unless_it_is_an_interval() {
    let two = format!("{SLOW_MEMBER}\n{SLOW_MEMBER}");
    let mut without = ebb(&["watch", "--log", "-"]);
    without
        .write_stdin(two.clone())
        .assert()
        .success()
        .stdout(contains("over 1 report.").and(contains("--all-reports")));
    let mut every = ebb(&["watch", "--log", "-", "--all-reports"]);
    every
        .write_stdin(two)
        .assert()
        .success()
        .stdout(contains("over 2 reports.").and(contains("in 2 of 2 reports")));
    ebb(&["watch", "--all-reports"]).assert().code(2).stderr(contains("--log"));
}

/// A mirror whose second disk waits 138 times as long, at too few requests and too short a queue to call it slow.
#[test]
fn what_spared_a_member_is_said() {
    let log = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n\
               md0 92.00 9000.00 7.50 0.00 0.00 0.00 0.70 60.00\n\
               vdb 74.00 5000.00 0.27 0.00 0.00 0.00 0.02 2.00\n\
               vdc 18.00 2000.00 37.16 0.00 0.00 0.00 0.67 60.00\n";
    let mut found = ebb(&["watch", "--log", "-"]);
    found
        .write_stdin(log)
        .assert()
        .success()
        .stdout(contains("md0 was active").and(contains("--members a,b")));
    let output =
        ebb(&["watch", "--log", "-", "--members", "vdb,vdc"]).write_stdin(log).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("vdc waits longer (await 37.2 ms against 0.27 ms"), "{text}");
    assert!(text.contains("18.0 requests are fewer than 30; its queue of 0.67 against 0.02"), "{text}");
    assert!(!text.contains("No member stands out"), "{text}");
}

/// Logs that iostat recorded on a guest with throttled disks.
fn recorded(name: &str, members: &[&str]) -> String {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/src/iostat/recorded/");
    let log = format!("{place}{name}");
    let mut arguments = vec!["watch", "--log", log.as_str()];
    let members = members.join(",");
    if !members.is_empty() {
        arguments.extend(["--members", members.as_str()]);
    }
    let output = ebb(&arguments).output().expect("it runs");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_full_disk_without_an_array_is_the_answer() {
    insta::assert_snapshot!(recorded("saturated.txt", &[]));
}

#[test]
fn idle_members_are_named_and_the_slow_one_too() {
    insta::assert_snapshot!(recorded("slow-and-idle.txt", &["vdg", "vdh", "vdl", "vdi", "vdj", "vdk"]));
}

#[test]
fn a_healthy_array_beside_a_root_has_its_own_members_only() {
    insta::assert_snapshot!(recorded("md0-and-root.txt", &[]));
}

/// What the log does not tell is said with what would.
#[test]
fn an_answer_says_what_was_skipped_and_what_to_look_at_next() {
    let head = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n";
    let row = |name: &str, wait: f64, queue: f64, util: f64| {
        format!("{name} 900.00 3600.00 {wait:.2} 0.00 0.00 0.00 {queue:.2} {util:.2}\n")
    };
    let explained = |log: String, said: &[&str], not_said: &str| {
        let output = ebb(&["watch", "--log", "-"]).write_stdin(log).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        said.iter().for_each(|said| assert!(text.contains(said), "{said}: {text}"));
        assert!(!text.contains(not_said), "{text}");
    };
    let fast = [row("sda", 0.5, 0.45, 36.0), row("sdb", 0.5, 0.45, 36.0)].concat();
    let marked = format!("{head}{fast}==> {}", row("sdc", 20.0, 18.0, 100.0));
    explained(
        marked,
        &[
            "text in front of 1 row is skipped, as `==>` before sdc",
            "sdc is the slow member",
            "iostat -xy 1 60",
        ],
        "Note: line",
    );
    let as_busy = format!("{head}{fast}{}", row("sdc", 5.0, 4.5, 36.0));
    explained(
        as_busy,
        &["it is busy no longer than they are", "What would tell: more reports"],
        "slow member",
    );
    let wrong = format!("{head}{}", row("sdc", 30.0, 27.0, 151.0));
    explained(wrong, &["%util is up to 151.0 for sdc", "sdc is saturated: 27.0 requests queued"], "100%");
    let on_md = format!(
        "{head}{fast}{}{}",
        row("md0", 0.5, 0.9, 0.0).replace("900.00 3600.00", "1800.00 7200.00"),
        row("vg0-db", 0.5, 0.9, 50.0).replace("900.00 3600.00", "1800.00 7200.00")
    );
    explained(on_md, &["vg0-db stands on md0", "the members of md0"], "linear");
    let limited = format!("{head}{}\n", row("sdc", 3.0, 2.7, 80.0)).repeat(4);
    explained(
        limited,
        &["900 requests/s in every report, which suggests a set limit", "io.max"],
        "saturated",
    );
}
