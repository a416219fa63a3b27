//! `ebb run`, `list`, `show` and `cleanup` as a user runs them.

use crate::common::{EBB, Home, LONG, SHORT, status, stderr, tiny};
use serde_json::Value;

/// (round, design) of every trial in the order in which they ran.
fn order(csv: &str) -> Vec<String> {
    let mut rows = csv.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = rows.next().unwrap().split(',').collect();
    let column =
        |name: &str| header.iter().position(|h| *h == name).unwrap_or_else(|| panic!("{name}: {header:?}"));
    let (trial, design, metric) = (column("trial"), column("design"), column("metric"));
    rows.map(|row| row.split(',').collect::<Vec<_>>())
        .filter(|row| row[metric] == "throughput")
        .map(|row| format!("{} {}", row[trial], row[design]))
        .collect()
}

#[test]
fn from_file_to_answer() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    // Whether six short trials on a busy machine are precise enough is not asserted here.
    let ran = home.json("run tiny.toml --seed 7 -o report.html", &[0, 3]);
    assert_eq!(ran["schema"], "ebbtide.session/1");
    assert_eq!((&ran["session"]["seed"], &ran["session"]["backend"]), (&7.into(), &"files".into()));
    let results = ran["results"].as_array().unwrap();
    for metric in ["throughput", "iops", "lat_p50", "lat_p99"] {
        let of = |design: &str| {
            results
                .iter()
                .find(|r| r["design"] == design && r["metric"] == metric)
                .unwrap_or_else(|| panic!("{metric}"))
        };
        for design in ["left", "right"] {
            let result = of(design);
            assert_eq!(result["trials"], 6);
            assert!(result["median"].as_f64().unwrap() > 0.0 && result["ci_low"].is_f64(), "{result}");
            assert!(result["verdict"]["kind"].is_string(), "{result}");
        }
    }
    let throughput =
        |design: &str| results.iter().find(|r| r["design"] == design && r["metric"] == "throughput").unwrap();
    assert!(
        throughput("left")["median"].as_f64().unwrap() < 1.2 * 33_554_432.0,
        "the shape holds one member back"
    );
    assert_eq!(throughput("right")["members"].as_array().unwrap().len(), 2);
    assert!(std::fs::read_to_string(home.path("report.html")).unwrap().contains("<html"));
    assert_eq!(home.files_in("volumes"), Vec::<std::path::PathBuf>::new(), "volumes are removed");

    let shown = home.json("show", &[0]);
    assert_eq!(shown, ran, "what is stored is what was printed");
    let id = ran["session"]["id"].as_str().unwrap();
    let list = home.json("list", &[0]);
    assert_eq!(list["sessions"][0]["id"], id);
    assert_eq!(list["sessions"][0]["trials"], 18);
    let text = home.ebb(&format!("show {}", &id[..17])).output().unwrap();
    assert!(String::from_utf8_lossy(&text.stdout).contains("seqread"));
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let orders: Vec<Vec<String>> = [7, 7, 8]
        .iter()
        .map(|seed| {
            let run = home.ebb(&format!("run tiny.toml --on sim --seed {seed} -q")).output().unwrap();
            assert!([0, 3].contains(&status(&run)), "{run:?}");
            order(&String::from_utf8(home.ebb("show last --format csv").output().unwrap().stdout).unwrap())
        })
        .collect();
    assert_eq!(orders[0].len(), 18);
    assert_eq!(orders[0], orders[1]);
    assert_ne!(orders[0], orders[2]);
}

#[test]
fn a_dry_run_says_everything_and_touches_nothing() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let output = home.ebb("run tiny.toml --dry-run --seed 7").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["seed 7", "create volume v0", "space: 32MiB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let verbose = home.ebb("run tiny.toml --dry-run --seed 7 --verbose").output().unwrap();
    let verbose = String::from_utf8(verbose.stdout).unwrap();
    let (before, rounds) = verbose.split_once("round 1:\n").unwrap();
    // How much is free changes while others are at work on the disk.
    let fixed =
        |text: &str| text.lines().filter(|line| !line.contains(" are free there")).collect::<String>();
    assert!(fixed(&text).starts_with(&fixed(before)), "{text} {verbose}");
    assert!(rounds.contains("left under seqread (again, A/A)"), "{verbose}");
    // What is done is told before how often, and that in a line.
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("round")).collect();
    assert!(lines.len() <= 2 && lines[0].contains(" trials, 2 designs under "), "{text}");
    assert!(lines[0].ends_with(", and left once more (A/A)"), "{text}");
    for name in ["data", "state", "volumes"] {
        assert_eq!(home.files_in(name).len(), 0, "{name}");
    }
    let plan = home.json("run tiny.toml --dry-run --seed 7", &[0]);
    assert_eq!(plan["plan"]["seed"], 7);
}

/// What is not there, or no volume, is told before the run is.
#[test]
fn a_dry_run_looks_at_the_files_and_devices_that_the_run_would_open() {
    let home = Home::new();
    std::fs::create_dir(home.path("mine")).unwrap();
    let volume = |source: &str, rw: &str| {
        format!(
            "name = \"e\"\n[volumes.v]\n{source}\n[designs.one]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
             [workloads.w]\nrw = \"{rw}\"\nruntime = \"1s\"\n"
        )
    };
    for (source, said) in [
        ("device = \"/dev/nope\"", "volume v: cannot use /dev/nope: No such file or directory"),
        ("file = \"nope\"", "volume v: cannot use nope: No such file or directory"),
        ("file = \"mine\"", "volume v: mine is a directory"),
        ("device = \"/dev/zero\"", "volume v: /dev/zero is a character device"),
    ] {
        for rw in ["randread", "randwrite"] {
            home.write("e.toml", &volume(source, rw));
            for command in ["run e.toml --dry-run", "run e.toml --dry-run --destroy", "run e.toml"] {
                let refused = home.ebb(command).output().unwrap();
                assert_eq!(status(&refused), 1, "{command} with {source}: {refused:?}");
                assert!(stderr(&refused).contains(said), "{command} with {source}: {refused:?}");
            }
        }
    }
}

/// Nothing is opened to be written for it: the run itself would be refused for the same.
#[test]
fn a_dry_run_says_what_the_run_would_refuse_or_overwrite_and_that_the_budget_is_too_small() {
    let home = Home::new();
    home.write("mine", "kept");
    let text = "name = \"e\"\n[volumes.v]\nfile = \"mine\"\n[designs.one]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
                [workloads.w]\nrw = \"randwrite\"\nruntime = \"10s\"\n[answer]\nbudget = \"20s\"\n";
    home.write("e.toml", text);
    let refused = home.ebb("run e.toml --dry-run").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert_eq!(status(&refused), 1, "{refused:?}");
    assert!(
        stderr(&refused).contains("a run is refused: it would overwrite what is on v (mine); say --destroy"),
        "{refused:?}"
    );
    assert!(said.contains("\nrounds 1 to 6"), "the plan is printed all the same: {said}");
    let too_small = "the budget of 20s ends it before the least 6 rounds, which would take 2 min: the answer cannot be reached";
    assert!(said.contains(too_small), "{said}");
    let checked = home.ebb("check e.toml").output().unwrap();
    assert!(String::from_utf8_lossy(&checked.stdout).contains(too_small), "{checked:?}");
    let plan = home.json("run e.toml --dry-run --destroy", &[0]);
    assert!(plan["plan"]["refused"].is_null(), "{plan}");
    let fills = |step: &Value| step["do"].get("fill").is_some();
    assert!(plan["plan"]["steps"].as_array().unwrap().iter().any(fills), "{plan}");
    assert_eq!(std::fs::read_to_string(home.path("mine")).unwrap(), "kept");
}

#[test]
fn after_a_kill_the_trials_are_there_and_the_files_can_be_removed() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", LONG));
    let running = home.start_until("run tiny.toml", 4);
    assert_eq!(
        home.json("cleanup", &[0])["leftovers"],
        Value::Array(vec![]),
        "a run that lives is left alone"
    );
    running.signal("KILL");
    running.wait();

    let shown = home.json("show last", &[0]);
    assert_eq!(shown["session"]["ending"], "unfinished");
    assert!(home.json("list", &[0])["sessions"][0]["trials"].as_u64().unwrap() >= 4);
    let text = home.ebb("show").output().unwrap();
    assert_eq!(status(&text), 0);

    home.write("volumes/mine", "not made by ebb");
    let left = home.files_in("volumes").len();
    assert_eq!(left, 6, "four volumes, their directory, and the user's file");
    let listed = home.json("cleanup --dry-run", &[0]);
    assert_eq!(listed["leftovers"].as_array().unwrap().len(), 5);
    assert_eq!(home.files_in("volumes").len(), left, "a dry run removes nothing");
    // The next run says what lies around, and does not touch it.
    home.write("short.toml", &tiny("", SHORT));
    let next = home.ebb("run short.toml").output().unwrap();
    assert!(stderr(&next).contains("ebb cleanup"), "{next:?}");
    assert_eq!(home.json("cleanup", &[0])["leftovers"].as_array().unwrap().len(), 5);
    assert_eq!(home.files_in("volumes"), [home.path("volumes/mine")]);
    assert_eq!(home.json("cleanup", &[0])["leftovers"], Value::Array(vec![]));
    assert_eq!(home.files_in("state/ebbtide/journals").len(), 0);
}

#[test]
fn ctrl_c_keeps_the_trials_and_removes_the_files() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", LONG));
    let running = home.start_until("run tiny.toml", 3);
    running.signal("INT");
    let output = running.wait();
    assert_eq!(status(&output), 130, "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("seqread"),
        "the report of what is there: {output:?}"
    );
    let shown = home.json("show last", &[0]);
    assert_eq!(shown["session"]["ending"], "interrupted");
    assert!(home.json("list", &[0])["sessions"][0]["trials"].as_u64().unwrap() >= 3);
    assert_eq!(home.files_in("volumes").len(), 0);
}

#[test]
fn kept_volumes_stay_and_belong_to_the_user() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let output = home.ebb("run tiny.toml --keep --no-save").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    assert!(stderr(&output).contains("v3 is kept: "), "{output:?}");
    assert_eq!(home.files_in("volumes").len(), 5);
    assert_eq!(home.json("cleanup", &[0])["leftovers"], Value::Array(vec![]));
    assert_eq!(home.json("list", &[0])["sessions"], Value::Array(vec![]), "--no-save");
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_made() {
    let home = Home::new();
    let parity = tiny("", SHORT)
        .replace(
            "layout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v[2..3]\"]",
            "layout = \"raid5\"\nmembers = [\"v[1..3]\"]",
        )
        .replace("rw = \"read\"", "rw = \"randrw\"");
    home.write("parity.toml", &parity);
    home.write("tiny.toml", &tiny("", SHORT));
    for (line, part) in [
        ("run parity.toml", "design right: raid5 is not written in user space"),
        ("run tiny.toml -o nowhere/report.html", "its directory does not exist"),
        ("run tiny.toml -o volumes", "its ending says no kind"),
    ] {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), 2, "{line}: {output:?}");
        assert!(stderr(&output).contains(part), "{line}: {output:?}");
        assert_eq!(home.files_in("volumes").len() + home.files_in("data").len(), 0, "{line}");
    }
    let checked = home.ebb("check parity.toml").output().unwrap();
    assert!(String::from_utf8_lossy(&checked.stdout).contains("`--on files` refuses this"), "{checked:?}");
}

#[test]
fn ctrl_c_while_volumes_are_filled_removes_them() {
    let home = Home::new();
    // Large enough to be met while it is filled, and refused at once where there is no room for it.
    home.write("large.toml", &tiny("", SHORT).replace("8MiB", "2GiB"));
    let running = home.start("run large.toml");
    let begin = std::time::Instant::now();
    while home.files_in("volumes").is_empty() {
        assert!(begin.elapsed().as_secs() < 30, "no volume is made");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.signal("INT");
    let output = running.wait();
    assert_eq!(status(&output), 130, "{output:?}");
    assert!(output.stdout.is_empty(), "there is nothing to report: {output:?}");
    assert_eq!(home.files_in("volumes").len(), 0);
    assert_eq!(home.json("list", &[0])["sessions"][0]["ending"], "interrupted");
    assert_eq!(home.json("cleanup", &[0])["leftovers"], Value::Array(vec![]));
}

#[test]
fn a_reader_that_goes_away_does_not_end_a_run() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = home.ebb("run tiny.toml").stderr(writer.try_clone().unwrap()).stdout(writer).status().unwrap();
    assert!(matches!(ran.code(), Some(0 | 3)), "{ran:?}");
    assert_eq!(home.json("list", &[0])["sessions"][0]["trials"], 18);
}

/// A closed loop is judged by its p99 where the experiment asks for that, and a write-up's figures are there on request.
#[test]
fn latency_decides_where_it_is_asked_to() {
    let home = Home::new();
    home.write(
        "p99.toml",
        "name = \"p99\"\n[volumes.v]\ncount = 2\nsize = \"64MiB\"\nshape = { iops = 400, latency = \"2ms\" }\n\
         [designs.one]\nlayout = \"linear\"\nmembers = [\"v0\"]\n[designs.two]\nlayout = \"stripe\"\nmembers = [\"v*\"]\n\
         [workloads.mix]\nrw = \"randrw\"\niodepth = 8\nruntime = \"1s\"\n[answer]\nmetric = \"p99\"\ntrials_max = 6\n",
    );
    let value = home.json("run p99.toml --on sim --seed 3", &[0, 3]);
    assert_eq!(value["workloads"][0]["primary_metric"], "lat_p99");
    assert!(
        value["answer"][0].as_str().is_some_and(|said| said.contains("p99 latency")),
        "{}",
        value["answer"]
    );
    let open = value["undecided"].as_array().map(Vec::len);
    let status = home.ebb("run p99.toml --on sim --seed 3 --no-save").output().unwrap().status.code();
    assert_eq!(status == Some(3), open > Some(0), "one story");
    let page = String::from_utf8(home.ebb("show last --trials").output().unwrap().stdout).unwrap();
    for part in ["median p99", "Every trial", "standard deviation", "Latency: "] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    home.write(
        "wrong.toml",
        &std::fs::read_to_string(home.path("p99.toml")).unwrap().replace("\"p99\"\nt", "\"p95\"\nt"),
    );
    let output = home.ebb("check wrong.toml").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("write `p99`"), "{said}");
}

#[test]
fn a_list_of_none_is_refused() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let ran = home.ebb("run tiny.toml --on sim --quiet").output().unwrap().status;
    assert!(matches!(ran.code(), Some(0 | 3)), "{ran:?}");
    let output = home.ebb("list -n 0").output().unwrap();
    assert_eq!(status(&output), 2, "{output:?}");
    assert!(!stderr(&output).contains("no sessions"), "{output:?}");
    assert_eq!(home.json("list -n 1", &[0])["sessions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn output_that_is_closed_is_an_error() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let ran = home.ebb("run tiny.toml --on sim --quiet").output().unwrap().status;
    assert!(matches!(ran.code(), Some(0 | 3)), "{ran:?}");
    let bench = format!("bench {} --size 64k --json", home.path("volumes").display());
    for line in ["show last --format csv", "show last", "list", "list --json", "--help", &bench] {
        let closed = |how: &str| {
            let mut shell = home.command("sh");
            shell.args(["-c", &format!("exec \"$0\" \"$@\" {how}"), EBB]).args(line.split_whitespace());
            shell.output().unwrap()
        };
        let output = closed(">&-");
        assert_eq!(status(&output), 1, "{line}: {output:?}");
        assert!(stderr(&output).contains("cannot write to standard output"), "{line}: {output:?}");
        assert_eq!(status(&closed(">/dev/full")), 1, "{line}");
        // Where nobody wants it, or standard error alone is closed, nothing is lost that was asked for.
        for fine in [">/dev/null", "1<>/dev/null", ">/dev/null 2>&-"] {
            assert_eq!(status(&closed(fine)), 0, "{line} {fine}");
        }
    }
}

#[test]
fn writes_that_leave_parts_of_stripes_are_told_what_would_raise_them() {
    let home = Home::new();
    let sentence = |size: &str| {
        let text = format!(
            "name = \"parity\"\n[volumes.v]\ncount = 4\nsize = \"64MiB\"\nshape = {{ throughput = \"10MB/s\" }}\n\
             [designs.r5]\nlayout = \"raid5\"\nchunk = \"64KiB\"\nmembers = [\"v[0..3]\"]\n\
             [workloads.log]\nrw = \"write\"\nbs = \"{size}\"\nruntime = \"2s\"\n"
        );
        home.write("parity.toml", &text);
        let ran = home.json("run parity.toml --on sim --seed 1 -q", &[0]);
        ran["results"][0]["verdicts"][0]["sentence"].as_str().unwrap().to_owned()
    };
    let parts = sentence("256KiB");
    assert!(parts.contains("2 of 4 members") && parts.contains("writes of 192KiB or a multiple"), "{parts}");
    let whole = sentence("192KiB");
    assert!(
        whole.contains("4 of 4 members") && whole.contains("more or faster volumes would raise this"),
        "{whole}"
    );
}
