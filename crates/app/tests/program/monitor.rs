//! `ebb monitor`: passes over a file in the place of a volume, which needs no privilege.

use crate::common::{Home, status, stderr};
use std::process::{Child, Stdio};

/// A volume of 8 MiB that was written.
fn volume(home: &Home, name: &str) -> String {
    let content: Vec<u8> = (0..8u32 << 20).map(|byte| (byte >> 3) as u8).collect();
    std::fs::write(home.path("volumes").join(name), content).unwrap();
    format!("volumes/{name}")
}

#[test]
fn a_pass_reads_and_is_stored() {
    let home = Home::new();
    let (a, b) = (volume(&home, "a"), volume(&home, "b"));
    let before = std::fs::read(home.path(&a)).unwrap();
    let value = home.json(&format!("monitor run --busy-too {a} {b}"), &[0]);
    assert_eq!(value["schema"], "ebbtide.monitor/1");
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        let seen = &value["volumes"][index];
        assert!(seen["volume"].as_str().unwrap().ends_with(&format!("volumes/{name}")), "{value}");
        assert!(seen["measured"]["seeks"].as_f64().unwrap() > 0.0, "{value}");
        assert!(seen["measured"]["throughput"].as_f64().unwrap() > 0.0, "{value}");
        assert_eq!((&seen["skipped"], &seen["failed"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    }
    assert_eq!(std::fs::read(home.path(&a)).unwrap(), before, "nothing was written");

    let output = home.ebb(&format!("monitor run --busy-too {a}")).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("VOLUME") && text.lines().count() == 2, "{text}");

    let known = home.json("monitor status", &[0]);
    assert_eq!((&known["schema"], &known["paused"]), (&"ebbtide.monitored/1".into(), &false.into()));
    let kept: Vec<&serde_json::Value> =
        known["volumes"].as_array().unwrap().iter().map(|volume| &volume["passes_kept"]).collect();
    assert_eq!(kept, [2, 1], "{known}");
    let shown = String::from_utf8(home.ebb("monitor status").output().unwrap().stdout).unwrap();
    assert!(shown.contains("each pass for 35 days, medians of hours for 2 years"), "{shown}");
    assert!(shown.contains("not paused; a file "), "{shown}");

    let text = String::from_utf8(home.ebb("monitor changes").output().unwrap().stdout).unwrap();
    assert_eq!(text, "too short to tell: 2 volumes, known for less than a week\n");
}

#[test]
fn a_pause_file_keeps_it_from_reading() {
    let home = Home::new();
    let a = volume(&home, "a");
    let known = home.json("monitor status", &[0]);
    let file = known["pause_file"].as_str().unwrap();
    std::fs::create_dir_all(std::path::Path::new(file).parent().unwrap()).unwrap();
    std::fs::write(file, "").unwrap();
    let value = home.json(&format!("monitor run --busy-too {a}"), &[0]);
    assert_eq!(value["volumes"][0]["measured"], serde_json::json!({}));
    assert!(value["volumes"][0]["skipped"].as_str().unwrap().starts_with("paused: "), "{value}");
    assert_eq!(home.json("monitor status", &[0])["paused"], true);
}

#[test]
fn what_cannot_be_read_is_said() {
    let home = Home::new();
    let a = volume(&home, "a");
    home.write("small", "too little");
    for (name, said) in
        [("nowhere", "`ebb volumes`"), (".", "neither a block device nor a file"), ("/dev/null", "neither")]
    {
        let output = home.ebb(&format!("monitor run {name}")).output().unwrap();
        assert_eq!(status(&output), 2, "{output:?}");
        assert!(stderr(&output).contains(said), "{output:?}");
    }
    // The others are measured all the same.
    let value = home.json(&format!("monitor run --busy-too small {a}"), &[1]);
    assert!(value["volumes"][0]["failed"].as_str().unwrap().contains("less than 1 MiB"), "{value}");
    assert!(value["volumes"][1]["measured"]["seeks"].as_f64().unwrap() > 0.0, "{value}");
}

#[test]
fn figures_for_prometheus_are_replaced_as_a_whole() {
    let home = Home::new();
    let a = volume(&home, "a");
    let line = format!("monitor run --quiet --busy-too --metrics ebb.prom {a}");
    let mut before = String::new();
    for _ in 0..2 {
        let output = home.ebb(&line).output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        let text = std::fs::read_to_string(home.path("ebb.prom")).unwrap();
        assert!(text.ends_with("# EOF\n") && text.contains("\nebbtide_monitor_paused 0\n"), "{text}");
        assert!(text.contains("\nebbtide_volume_seeks_per_second{id=\"") && text != before, "{text}");
        before = text;
    }
    let readable = std::fs::metadata(home.path("ebb.prom")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&readable) & 0o777, 0o644);
    let output = home.ebb(&line.replace("ebb.prom", "nowhere/ebb.prom")).output().unwrap();
    assert_eq!(status(&output), 2, "{output:?}");
    // Nothing else is replaced: no volume, no other file, nothing behind a link.
    home.write("notes.prom", "of somebody else\n");
    std::os::unix::fs::symlink(home.path(&a), home.path("link.prom")).unwrap();
    let whole = std::fs::read(home.path(&a)).unwrap();
    for name in [a.as_str(), "figures.txt", "notes.prom", "link.prom"] {
        let output = home.ebb(&line.replace("ebb.prom", name)).output().unwrap();
        assert_eq!(status(&output), 2, "{name}: {output:?}");
    }
    assert_eq!(std::fs::read_to_string(home.path("notes.prom")).unwrap(), "of somebody else\n");
    assert!(std::fs::read(home.path(&a)).unwrap() == whole && !home.path("figures.txt").exists());
    home.write("empty.prom", "");
    assert_eq!(status(&home.ebb(&line.replace("ebb.prom", "empty.prom")).output().unwrap()), 0);
    // One of ebb's that somebody appended to since is theirs too.
    let appended = format!("{before}node_backup_last_success 1\n");
    home.write("ebb.prom", &appended);
    let output = home.ebb(&line).output().unwrap();
    assert_eq!(status(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("something else is in it, which would be lost: name another file"));
    assert_eq!(std::fs::read_to_string(home.path("ebb.prom")).unwrap(), appended);
}

#[test]
fn passes_that_overlap_are_all_kept() {
    let home = Home::new();
    let a = volume(&home, "a");
    let line = format!("monitor run --quiet --busy-too --metrics ebb.prom {a}");
    // The first ten make the store as well.
    for kept in [10, 20] {
        let mut pass = home.ebb(&line);
        pass.stdout(Stdio::null()).stderr(Stdio::piped());
        let passes: Vec<Child> = (0..10).map(|_| pass.spawn().unwrap()).collect();
        for pass in passes {
            let output = pass.wait_with_output().unwrap();
            assert!(status(&output) == 0 && output.stderr.is_empty(), "{output:?}");
        }
        let known = home.json("monitor status", &[0]);
        assert_eq!(known["volumes"][0]["passes_kept"], kept, "{known}");
        let text = std::fs::read_to_string(home.path("ebb.prom")).unwrap();
        assert!(text.starts_with("# ") && text.ends_with("# EOF\n"), "{text}");
    }
    let left: Vec<_> =
        std::fs::read_dir(home.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.iter().filter(|name| name.to_string_lossy().contains("ebb.prom")).count(), 1, "{left:?}");
}

#[test]
fn a_volume_that_is_gone_keeps_nobody_from_looking_at_the_others() {
    let home = Home::new();
    let a = volume(&home, "a");
    let value = home.json(&format!("monitor run --busy-too gone {a} {a}"), &[1]);
    let volumes = value["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 2, "{value}");
    assert!(volumes[0]["measured"]["seeks"].as_f64().unwrap() > 0.0, "{value}");
    assert!(volumes[1]["failed"].as_str().unwrap().contains("No such file"), "{value}");
    let none = home.ebb("monitor run --busy-too gone").output().unwrap();
    assert!(status(&none) == 2 && stderr(&none).contains("gone: No such file"), "{none:?}");
}

#[test]
fn an_installation_that_cannot_last_is_refused_before_anything_is_made() {
    let home = Home::new();
    let refused = |program: &str, line: &str, expected: i32, said: &str| {
        let output = home.command(program).args(line.split_whitespace()).output().unwrap();
        assert_eq!(status(&output), expected, "{line}: {output:?}");
        assert!(stderr(&output).contains(said), "{line}: {output:?}");
    };
    refused(crate::common::EBB, "monitor install --every 7min", 2, "15, 20 or 30 min");
    refused(crate::common::EBB, "monitor install --every soon", 2, "soon");
    refused(crate::common::EBB, "monitor install --dry-run --store s.sqlite", 2, "leave out --store");
    // Where everybody may put another program in its place.
    let exposed = home.path("ebb");
    if std::fs::hard_link(crate::common::EBB, &exposed).is_err() {
        std::fs::copy(crate::common::EBB, &exposed).unwrap();
    }
    refused(exposed.to_str().unwrap(), "monitor install --dry-run", 1, "below /var/tmp, which is cleared");
}

#[test]
fn a_pass_needs_no_home() {
    // As the installed service has none: nothing is made, so there is no journal of changes.
    let home = Home::new();
    let a = volume(&home, "a");
    let mut pass = home.ebb(&format!("monitor run --busy-too --store store.sqlite --pause-file pause {a}"));
    for variable in ["HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
        pass.env_remove(variable);
    }
    let output = pass.output().unwrap();
    assert!(status(&output) == 0 && !output.stdout.is_empty(), "{output:?}");
    // What a service cannot read is on standard error, which its journal keeps.
    home.write("small", "s");
    let output = home.ebb("monitor run --quiet --busy-too small").output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("small") && stderr(&output).contains("less than 1 MiB"), "{output:?}");
}
