//! One rule for what is printed and what is written, and one name of a design, whatever the command.

use super::common::{Home, SHORT, refused, status, stderr, tiny};

fn home() -> Home {
    let home = Home::new();
    home.write("e.toml", &tiny("", SHORT));
    let ran = home.ebb("run e.toml --on sim --quiet --seed 1").output().unwrap();
    assert!([0, 3].contains(&status(&ran)), "{ran:?}");
    home
}

#[test]
fn a_session_is_printed_in_each_form_as_it_is_written() {
    let home = home();
    for (form, file, begins) in [
        ("text", "r.txt", ""),
        ("json", "r.json", "{"),
        ("csv", "r.csv", "session,trial,"),
        ("markdown", "r.md", ""),
    ] {
        let printed = home.ebb(&format!("show --format {form}")).output().unwrap();
        let written = home.ebb(&format!("show -o {file}")).output().unwrap();
        assert_eq!((status(&printed), status(&written), written.stdout.len()), (0, 0, 0), "{form}");
        let text = String::from_utf8(printed.stdout).unwrap();
        assert!(text.starts_with(begins) && text.len() > 100, "{form}: {text}");
        assert_eq!(std::fs::read_to_string(home.path(file)).unwrap(), text, "{form}");
    }
    let pasted = std::fs::read_to_string(home.path("r.md")).unwrap();
    assert!(
        pasted.contains("\n### Designs\n\n| design | ") && pasted.contains("| limited by | why |"),
        "{pasted}"
    );
    let short = home.ebb("show --json").output().unwrap().stdout;
    assert_eq!(std::fs::read(home.path("r.json")).unwrap(), short, "--json is short for --format json");
    let ran =
        home.ebb("run e.toml --on sim --no-save -q --seed 1 --format markdown -o r.html").output().unwrap();
    let of_run = String::from_utf8(ran.stdout).unwrap();
    assert!(of_run.contains("### Designs") && home.path("r.html").exists(), "{of_run}");
    // What has no ending gets what --format says.
    let ran = home.ebb("show --format csv -o /dev/stdout").output().unwrap();
    assert!(ran.stdout.starts_with(b"session,trial,"), "{ran:?}");
}

#[test]
fn a_form_that_a_command_lacks_is_refused_with_those_that_it_has() {
    let home = home();
    home.write("plain.toml", &tiny("", SHORT));
    for (line, wanted) in [
        ("list --format csv", "--format csv: `ebb list` prints text or json"),
        ("user-data e.toml:left --format markdown", "`ebb user-data` prints text or json"),
        ("watch -n 1 --format markdown", "`ebb watch` prints text or json or csv"),
        ("completions bash --json", "`ebb completions` prints text"),
        ("show --why --format csv", "`ebb show --why` prints text or json"),
        ("show --experiment --json", "`ebb show --experiment` prints text"),
        ("run e.toml --dry-run --format csv", "`ebb run --dry-run` prints text or json"),
        ("show --json --format csv", "--json and --format csv: give one of them"),
        ("show -o r.xml", "its ending says no kind; write one of .html, .json, .csv, .md, .txt"),
        ("show -o r", "its ending says no kind"),
        ("show -o -", "leave out -o: what is printed is --format"),
        ("show -o r.toml", "has no [sweep]"),
        ("show --json -o r.html", "say two kinds; leave out --format"),
        ("run e.toml --on sim -o r.toml", "has no [sweep]"),
        ("compare last:left last:right -o r.toml", "write one of .html, .json, .csv, .md, .txt"),
    ] {
        refused(&home, line, 2, &[wanted]);
    }
}

#[test]
fn a_design_is_named_in_its_file_or_session() {
    let home = home();
    // What exists wins: a file's name may contain a colon.
    let alone = tiny("", SHORT);
    let (before, rest) = alone.split_once("[designs.right]").unwrap();
    let rest = rest.split_once("\n[").unwrap().1;
    home.write("a:left", &format!("{before}[{rest}").replace("control = \"right\"", ""));
    for named in ["e.toml:left", "a:left", "a:left:left"] {
        let found = home.ebb(&format!("layout where {named}")).output().unwrap();
        assert_eq!(status(&found), 0, "{named}: {}", stderr(&found));
    }
    for (line, wanted) in [
        ("layout where e.toml", "e.toml: it has 2 designs; name one, as FILE:DESIGN: left, right"),
        ("layout where e.toml:up", "e.toml: it has no design `up`; it has left, right"),
        ("bench --design e.toml:up --rw read", "e.toml: it has no design `up`; it has left, right"),
        ("apply e.toml:up --dry-run", "e.toml: it has no design `up`; it has left, right"),
        ("user-data e.toml:up", "e.toml: it has no design `up`; it has left, right"),
        ("apply none.toml:up --dry-run", "none.toml: "),
        ("show last:up --why", "it has no design `up`; it has left, right"),
        ("show last:left", "ebb show last:left --why"),
        ("show left --why", "a design of the last one: name it as SESSION:DESIGN, here last:left"),
    ] {
        refused(&home, line, 2, &[wanted]);
    }
    let why = home.json("show last:left --why", &[0]);
    let results = why["results"].as_array().unwrap();
    assert!(!results.is_empty() && results.iter().all(|result| result["design"] == "left"), "{why}");
}

#[test]
fn a_benchmark_is_a_session_like_any_other() {
    let home = Home::new();
    let bench = "bench f --rw randread --bs 4k --runtime 100ms -q";
    let none = home.ebb(&format!("{bench} --size 1m --no-save -o r.md")).output().unwrap();
    assert_eq!(status(&none), 0, "{none:?}");
    assert!(std::fs::read_to_string(home.path("r.md")).unwrap().contains("| design | IOPS |"));
    assert!(home.json("list", &[0])["sessions"].as_array().unwrap().is_empty());
    for _ in 0..2 {
        let kept = home.ebb(bench).output().unwrap();
        assert_eq!(status(&kept), 0, "{kept:?}");
    }
    let list = home.json("list", &[0]);
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["backend"]), (2, &"bench".into()), "{list}");
    let shown = home.json("show", &[0]);
    assert_eq!(
        (&shown["session"]["ending"], &shown["workloads"][0]["name"]),
        (&"once".into(), &"bench".into())
    );
    let ids: Vec<&str> = sessions.iter().map(|one| one["id"].as_str().unwrap()).collect();
    let compared = home.json(&format!("compare {}", ids.join(" ")), &[3]);
    assert_eq!(compared["comparisons"][0]["workload"], "bench", "{compared}");
    // Jobs of one name, and jobs on files of their own, are told apart.
    home.write("j.fio", "[a]\nrw=read\nsize=1m\nfilename=f\n[a]\nstonewall\nrw=read\nsize=1m\nfilename=g\n");
    let ran = home.ebb("bench j.fio . -q --format csv").output().unwrap();
    let rows = String::from_utf8_lossy(&ran.stdout).into_owned();
    let names: std::collections::BTreeSet<String> = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').skip(3).take(2).collect::<Vec<_>>().join(","))
        .collect();
    assert_eq!(names.len(), 2, "{rows}");
    assert!(stderr(&ran).is_empty(), "{}", stderr(&ran));
    let text = String::from_utf8(home.ebb("show").output().unwrap().stdout).unwrap();
    assert!(text.contains("3 trials") || text.contains("2 trials"), "{text}");
    assert!(!text.contains("too few rounds"), "{text}");
}
