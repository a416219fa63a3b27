//! `ebb blame` on sessions of the simulator: volumes that move between instances, where it is known who is slow.

use crate::common::{Home, status, stderr};
use serde_json::Value;
use std::fmt::Write;

/// Six volumes on two instances. Volumes and instances in these lists are slow.
fn experiment(on_a: &[usize], slow_volumes: &[usize], slow_a: bool) -> String {
    let rate = if slow_a { "25MB/s" } else { "120MB/s" };
    let mut text = format!("name = \"members\"\n[links.i-a]\nthroughput = \"{rate}\"\n");
    if on_a.len() < 6 {
        text += "[links.i-b]\nthroughput = \"120MB/s\"\n";
    }
    for volume in 0..6 {
        let link = if on_a.contains(&volume) { "i-a" } else { "i-b" };
        let rate = if slow_volumes.contains(&volume) { 20 } else { 50 };
        writeln!(
            text,
            "[volumes.vol{volume}]\nsize = \"64MiB\"\n[volumes.vol{volume}.shape]\nthroughput = \"{rate}MB/s\"\nlatency = \"1ms\"\n\
             link = \"{link}\"\ndrift = {{ sigma = 0.02, timescale = \"10s\" }}\n\
             [designs.vol{volume}]\nlayout = \"linear\"\nmembers = [\"vol{volume}\"]"
        )
        .unwrap();
    }
    text += "[designs.all]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"vol[0..5]\"]\n\
             [workloads.read]\nrw = \"read\"\nbs = \"64k\"\niodepth = 8\nruntime = \"500ms\"\n\
             [answer]\ntrials_min = 6\ntrials_max = 6\n";
    text
}

/// Runs an experiment on the simulator; the session's id.
fn run(home: &Home, text: &str, seed: usize) -> String {
    home.write("experiment.toml", text);
    let ran = home.json(&format!("run experiment.toml --on sim --seed {seed}"), &[0, 3]);
    ran["session"]["id"].as_str().unwrap().to_owned()
}

/// Four sessions between which volumes change places; their ids.
fn swaps(home: &Home, slow_volumes: &[usize], slow_a: bool) -> Vec<String> {
    let places = [[0, 1, 2], [0, 3, 4], [1, 3, 5], [2, 4, 5]];
    let session =
        |(seed, on_a): (usize, &[usize; 3])| run(home, &experiment(on_a, slow_volumes, slow_a), seed);
    places.iter().enumerate().map(session).collect()
}

fn accused(attribution: &Value, of: &str) -> Vec<String> {
    let all = attribution[of].as_array().unwrap();
    let accused = all.iter().filter(|one| one["accused"] == true);
    accused.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_slow_volume_is_named_wherever_it_is_and_what_replacing_it_gains() {
    let home = Home::new();
    let line = format!("blame {}", swaps(&home, &[3], false).join(" "));
    let found = home.json(&line, &[0]);
    assert_eq!(found["schema"], "ebbtide.attribution/1");
    assert_eq!(
        (accused(&found, "volumes"), accused(&found, "hosts")),
        (vec!["vol3".to_owned()], vec![]),
        "{found}"
    );
    let slow = found["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "vol3").unwrap();
    let figure = |key: &str| slow[key].as_f64().unwrap();
    assert!((0.36..0.44).contains(&figure("effect")), "{slow}");
    assert!(figure("ci_low") < figure("effect") && figure("effect") < figure("ci_high"), "{slow}");
    let gain = &found["gains"][0];
    assert_eq!((&gain["array"], &gain["replaced"][0]), (&"all".into(), &"vol3".into()));
    assert!((2.2..2.8).contains(&gain["ratio"].as_f64().unwrap()), "{gain}");
    for part in ["time", "residual"] {
        assert!(found[part].is_object(), "{part}: {found}");
    }
    let output = home.ebb(&line).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("vol3 is slow wherever measured: replace it. No host is at fault."), "{text}");
}

#[test]
fn a_slow_instance_is_named_and_its_volumes_are_cleared() {
    let home = Home::new();
    let found = home.json(&format!("blame {}", swaps(&home, &[], true).join(" ")), &[0]);
    assert_eq!(
        (accused(&found, "volumes"), accused(&found, "hosts")),
        (vec![], vec!["i-a".to_owned()]),
        "{found}"
    );
}

#[test]
fn nobody_is_accused_where_nobody_is_slow_and_no_host_where_volumes_never_moved() {
    let home = Home::new();
    let sessions = swaps(&home, &[], false);
    let found = home.json(&format!("blame {}", sessions.join(" ")), &[0]);
    assert_eq!((accused(&found, "volumes"), accused(&found, "hosts")), (vec![], vec![]), "{found}");
    let one = home.json(&format!("blame {}", sessions[0]), &[3]);
    let needs = one["needs"].as_array().unwrap();
    assert!(needs.iter().any(|need| need["measure"].as_str().unwrap().starts_with("attach vol")), "{one}");
}

#[test]
fn a_file_is_measured_member_by_member() {
    let home = Home::new();
    home.write("array.toml", &experiment(&[0, 1, 2, 3, 4, 5], &[4], false));
    let plan = home.json("blame array.toml --on sim --dry-run", &[0]);
    assert!(plan.to_string().contains("pair-vol2-vol3"), "{plan}");
    let found = home.json("blame array.toml --on sim --seed 1", &[0]);
    assert_eq!(accused(&found, "volumes"), ["vol4"], "{found}");
    let gains: Vec<&Value> = found["gains"].as_array().unwrap().iter().map(|gain| &gain["array"]).collect();
    assert_eq!(gains, ["pair-vol3-vol4", "pair-vol4-vol5", "together"], "{found}");
    assert_eq!(home.json("blame last", &[0])["volumes"], found["volumes"]);
    let list = home.json("list", &[0]);
    // One session cannot tell a bad day from a bad volume.
    let said = "vol4 was slow in the one session that measured it, which may have been a bad day: measure it again on another before";
    assert!(list.to_string().contains(said), "{list}");
    home.write(
        "single.toml",
        &crate::common::tiny("", crate::common::SHORT).replace("v[0..1]", "v0").replace(
            "[designs.right]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v[2..3]\"]\n",
            "",
        ),
    );
    for (wrong, said) in [
        ("blame array.toml last", "alone"),
        ("blame last --on sim", "--on"),
        ("blame array.toml --workload write --on sim", "write"),
        ("blame single.toml --on sim", "one volume"),
        ("blame nowhere.toml", "nowhere.toml"),
    ] {
        let output = home.ebb(wrong).output().unwrap();
        assert_eq!(status(&output), 2, "{wrong}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{wrong}: {}", stderr(&output));
    }
}

#[test]
fn sessions_of_another_store_are_named_with_it() {
    let (home, other) = (Home::new(), Home::new());
    let here = run(&home, &experiment(&[0, 1, 2], &[], false), 1);
    run(&other, &experiment(&[3, 4, 5], &[], false), 2);
    let stores = other.files_in("data").into_iter().filter(|path| path.is_file() && !path.ends_with("-wal"));
    let store = stores.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let found = home.json(&format!("blame {here} {}:last", store.display()), &[0, 3]);
    assert_eq!(found["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(found["volumes"][0]["visits"], 2, "{found}");
}

#[test]
fn wrong_usage_is_told_from_what_data_do_not_tell() {
    let home = Home::new();
    let id = run(&home, &experiment(&[0, 1, 2], &[], false), 1);
    for (wrong, said) in [
        ("blame nope".to_owned(), "nope"),
        (format!("blame {id} {id}"), "twice"),
        (format!("blame {id} --workload write"), "the sessions have read"),
        (format!("blame {id} --margin 10"), "5%"),
        ("blame /nowhere/store.db:last".to_owned(), "/nowhere/store.db"),
    ] {
        let output = home.ebb(&wrong).output().unwrap();
        assert_eq!(status(&output), 2, "{wrong}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{wrong}: {}", stderr(&output));
    }
}
