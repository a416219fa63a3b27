//! A sweep from file to winner, as a user runs it, on the simulator.

use crate::common::{Home, status, stderr};
use serde_json::Value;

/// Two to four volumes, alone or in turn, a chunk or another, one operation or many: four members under many operations are the best, whatever the chunk.
fn sweep(vary: &str, answer: &str) -> String {
    format!(
        "name = \"small-sweep\"\n[volumes.v]\ncount = 4\nsize = \"1GiB\"\n[volumes.v.shape]\niops = 400\n\
         read_latency = {{ median = \"1ms\", p99 = \"4ms\" }}\ndrift = {{ sigma = 0.04, timescale = \"10s\" }}\n\
         [designs.array]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v[0..3]\"]\n\
         [workloads.load]\nrw = \"randread\"\nbs = \"4k\"\niodepth = 32\nruntime = \"500ms\"\n\
         [sweep]\ndesign = \"array\"\n[sweep.vary]\n{vary}\n[answer]\nbudget = \"1h\"\n{answer}\n"
    )
}

const MEMBERS: &str = "members = [2, 3, 4]\nworkload.iodepth = [1, 32]";

fn names<'a>(race: &'a Value, key: &str) -> Vec<&'a str> {
    race[key].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn the_best_wins_and_a_stored_session_says_the_same() {
    let home = Home::new();
    home.write("sweep.toml", &sweep(MEMBERS, "trials_max = 40"));
    let ran = home.json("run sweep.toml --on sim --seed 3 -o best.toml", &[0]);
    let race = &ran["race"];
    assert_eq!(race["winner"], "array/members=4,workload.iodepth=32", "{race}");
    assert_eq!(
        (&race["objective"], &race["decided"], names(race, "tied").len()),
        (&"iops".into(), &true.into(), 0)
    );
    let designs = race["designs"].as_array().unwrap();
    assert_eq!(designs.len(), 6);
    assert_eq!(designs[0]["design"], race["winner"]);
    assert!(designs[0]["dropped_in_round"].is_null());
    for lost in &designs[1..] {
        assert_eq!(lost["dropped_in_round"], lost["rounds"], "{lost}");
    }
    assert!(race["io_seconds"].as_f64().unwrap() < race["grid_io_seconds"].as_f64().unwrap());
    let factor = |level: &str| {
        let all = ran["factors"].as_array().unwrap();
        all.iter().find(|factor| factor["level"] == level).unwrap_or_else(|| panic!("{all:?}")).clone()
    };
    let depth = factor("32");
    assert_eq!((&depth["factor"], &depth["against"]), (&"workload.iodepth".into(), &"1".into()));
    assert!(depth["ci_low"].as_f64().unwrap() > 1.1 && depth["ratio"].as_f64() < depth["ci_high"].as_f64());
    assert!(
        ran["interactions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|both| both["levels"] == serde_json::json!(["4", "32"]))
    );

    assert_eq!(home.json("show", &[0]), ran, "what is stored is what was printed");
    let shown = home.ebb("show").output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.starts_with("array/members=4,workload.iodepth=32 is the best of 6 designs"), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "chance that the best was dropped: at most 5%",
        "every design in as many rounds",
        "What mattered",
        "workload.iodepth: 32 against 1: +",
        "; iodepth varies",
    ] {
        assert!(flat.contains(part), "{part}: {text}");
    }
    let page = home.ebb("show -o report.html").output().unwrap();
    assert_eq!(status(&page), 0);
    let page = std::fs::read_to_string(home.path("report.html")).unwrap();
    assert!(
        page.contains("id=\"race\"")
            && page.contains("id=\"factors\"")
            && page.contains("<figcaption>members")
    );

    let best = std::fs::read_to_string(home.path("best.toml")).unwrap();
    assert!(best.starts_with("# array/members=4,workload.iodepth=32: the best of 6 designs\n"), "{best}");
    let again = home.ebb("run best.toml --on sim --dry-run").output().unwrap();
    assert_eq!(status(&again), 0, "{}", stderr(&again));
    assert_eq!(status(&home.ebb("show -o again.toml").output().unwrap()), 0);
    assert_eq!(std::fs::read_to_string(home.path("again.toml")).unwrap(), best);
}

#[test]
fn equals_tie_and_a_spent_budget_is_no_answer() {
    let home = Home::new();
    let chunks = "chunk = [\"64KiB\", \"128KiB\"]";
    let still =
        sweep(chunks, "trials_max = 60").replace("drift = { sigma = 0.04, timescale = \"10s\" }\n", "");
    home.write("equal.toml", &still);
    let ran = home.json("run equal.toml --on sim --seed 1 -o best.toml", &[0]);
    assert!(ran["race"]["winner"].is_null());
    assert_eq!(names(&ran["race"], "tied").len(), 2);
    let best = std::fs::read_to_string(home.path("best.toml")).unwrap();
    assert!(best.starts_with("# one of a tie: 2 of 2 designs are as good as each other, and "), "{best}");
    assert!(best.lines().next().is_some_and(|line| line.ends_with("is the simplest of them")), "{best}");

    // Six rounds tell nothing of two that are equal.
    home.write("short.toml", &sweep(chunks, "trials_min = 6\ntrials_max = 6"));
    let ran = home.json("run short.toml --on sim --seed 1", &[3]);
    assert!(ran["race"]["winner"].is_null() && ran["race"]["decided"] == false);
    assert_eq!(names(&ran["race"], "tied").len(), 2);
    assert_eq!(ran["race"]["rounds"], 6);
}

#[test]
fn a_race_keeps_its_share_of_the_full_grid() {
    let home = Home::new();
    let chunks = "chunk = [\"64KiB\", \"128KiB\"]";
    let text = sweep(chunks, "trials_max = 60").replacen("[sweep]\n", "[sweep]\nbudget = \"20%\"\n", 1);
    home.write("share.toml", &text);
    let planned = home.ebb("run share.toml --on sim --dry-run").output().unwrap();
    let planned = String::from_utf8(planned.stdout).unwrap();
    // Two designs and the control once more in 60 rounds.
    for part in ["36 trials, ", ": the budget, 20% of the full grid (180 trials, "] {
        assert!(planned.contains(part), "{part}: {planned}");
    }
    let ran = home.json("run share.toml --on sim --seed 1", &[3]);
    let race = &ran["race"];
    let (spent, full) =
        (race["io_seconds"].as_f64().unwrap(), race["full_grid_io_seconds"].as_f64().unwrap());
    assert_eq!((&race["budget"], race["decided"].as_bool()), (&0.2.into(), Some(false)));
    assert_eq!(names(race, "tied").len(), 2);
    // One more round of three trials is more than a fifth of 120.
    assert!(spent <= 0.2 * full && spent + 3.0 * full / 120.0 > 0.2 * full, "{spent} of {full}");
    let shown = home.ebb("show").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap().replace('\n', " ");
    assert!(shown.contains("Its budget was 20% of the full grid, all designs in 60 rounds"), "{shown}");
}

#[test]
fn only_a_sweep_has_a_best_design() {
    let home = Home::new();
    let text = sweep(MEMBERS, "trials_max = 6");
    let without = text.split("[sweep]").next().unwrap();
    home.write("plain.toml", without);
    let refused = home.ebb("run plain.toml --on sim -o best.toml").output().unwrap();
    assert_eq!(status(&refused), 2);
    assert!(stderr(&refused).contains("has no [sweep]"), "{}", stderr(&refused));
}

/// A tie and what is not decided are two things: nothing is built of the second.
#[test]
fn what_is_not_decided_has_no_best_design() {
    let home = Home::new();
    let chunks = "chunk = [\"64KiB\", \"128KiB\"]";
    home.write("short.toml", &sweep(chunks, "trials_min = 6\ntrials_max = 6"));
    let short = home.ebb("run short.toml --on sim --seed 1 -o best.toml").output().unwrap();
    assert_eq!(status(&short), 3, "{}", stderr(&short));
    let said = "best.toml is not written: 2 of 2 designs are left, and nothing tells which is the best";
    assert!(stderr(&short).contains(said), "{}", stderr(&short));
    assert!(!home.path("best.toml").exists());
    let again = home.ebb("show -o best.toml").output().unwrap();
    assert_eq!(status(&again), 3, "{}", stderr(&again));
    assert!(stderr(&again).contains(said) && !home.path("best.toml").exists(), "{}", stderr(&again));

    // A front has no best, though it is decided which designs are on it.
    let front = sweep("workload.iodepth = [1, 32]", "trials_max = 40")
        .replace("[sweep]\n", "[sweep]\nobjective = { pareto = [\"iops\", \"lat_p99\"] }\n");
    home.write("front.toml", &front);
    let ran = home.ebb("run front.toml --on sim --seed 1 -o best.toml").output().unwrap();
    assert_eq!(status(&ran), 3, "{}", stderr(&ran));
    assert!(
        stderr(&ran).contains("2 designs make the front, and none of them is the best"),
        "{}",
        stderr(&ran)
    );
    assert!(!home.path("best.toml").exists());
}

/// Of designs that are as good the cheapest is written, whichever comes first.
#[test]
fn of_a_tie_the_cheapest_is_written() {
    let home = Home::new();
    let text = "name = \"tie\"\n[volumes.vol]\ncount = 4\nsize = \"16MiB\"\ntype = \"aws:gp3\"\nprovisioned_size = \"100GiB\"\n\
                [volumes.vol.shape]\nlatency = \"500us\"\n\
                [designs.a]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"vol[0..3]\"]\n\
                [workloads.w]\nrw = \"randread\"\nruntime = \"1s\"\n[answer]\ntrials_max = 60\n\
                [sweep]\ndesign = \"a\"\nobjective = \"iops\"\n[sweep.vary]\nmembers = [4, 2]\n";
    home.write("tie.toml", text);
    let ran = home.ebb("run tie.toml --on sim --seed 1 -o best.toml").output().unwrap();
    assert_eq!(status(&ran), 0, "{}", stderr(&ran));
    assert!(stderr(&ran).contains("one of a tie: 2 of 2 designs"), "{}", stderr(&ran));
    let best = std::fs::read_to_string(home.path("best.toml")).unwrap();
    let first = best.lines().next().unwrap();
    assert!(first.contains("a/members=2 is the cheapest of them"), "{first}");
}

/// What the best design comes from is not replaced by it, under whatever name it is asked for.
#[test]
fn the_experiment_is_not_replaced_by_its_own_best() {
    let home = Home::new();
    let text = sweep(MEMBERS, "trials_max = 6");
    home.write("sweep.toml", &text);
    home.write("other.toml", &text);
    std::fs::hard_link(home.path("sweep.toml"), home.path("linked.html")).unwrap();
    for output in ["sweep.toml", "./sweep.toml", "linked.html", "other.toml"] {
        let refused = home.ebb(&format!("run sweep.toml --on sim -q -o {output}")).output().unwrap();
        assert_eq!(status(&refused), 2, "{output}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("choose another file with -o"), "{}", stderr(&refused));
    }
    home.json("run sweep.toml --on sim --seed 2", &[0, 3]);
    assert_eq!(status(&home.ebb("show -o other.toml").output().unwrap()), 2);
    for kept in ["sweep.toml", "linked.html", "other.toml"] {
        assert_eq!(std::fs::read_to_string(home.path(kept)).unwrap(), text, "{kept}");
    }
}

/// Of a latency, too, what mattered is told as it is: more in flight waits longer.
#[test]
fn what_raises_a_latency_is_said_to_raise_it() {
    let home = Home::new();
    home.write(
        "sweep.toml",
        &sweep("workload.iodepth = [1, 32]", "").replace("[sweep]", "[sweep]\nobjective = \"lat_p50\""),
    );
    let ran = home.json("run sweep.toml --on sim --seed 4", &[0]);
    assert_eq!(ran["race"]["winner"], "array/workload.iodepth=1");
    assert!(ran["factors"][0]["ci_low"].as_f64().unwrap() > 2.0, "{}", ran["factors"]);
    let shown = home.ebb("show").output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("workload.iodepth: 32 against 1: +"), "{text}");
}
