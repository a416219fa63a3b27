//! Reports, stores, ledgers and journals as files among a user's own. These need no root.

use super::common::{Home, LONG, SHORT, status, stderr, tiny};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn home() -> Home {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    let output = home.ebb("run x.toml --on sim --quiet").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    home
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_report_never_replaces_a_store() {
    let home = home();
    let store = home.path("data/ebbtide/store.sqlite");
    let before = std::fs::read(&store).unwrap();
    for line in [
        "show last --json -o",
        "run x.toml --on sim --quiet -o",
        "show last --format csv --store other.sqlite -o",
    ] {
        let mut command = home.ebb(line);
        let target = if line.starts_with("run") {
            std::fs::hard_link(&store, home.path("r.json")).unwrap();
            home.path("r.json")
        } else {
            store.clone()
        };
        let output = command.arg(target).output().unwrap();
        assert_eq!(status(&output), 2, "{line}: {output:?}");
    }
    assert_eq!(std::fs::read(&store).unwrap(), before);
    // A store that this very command makes.
    let output = home.ebb("run x.toml --on sim --quiet --store new.json -o new.json").output().unwrap();
    assert_eq!(status(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("store"), "{output:?}");
}

#[test]
fn what_is_planted_where_a_report_is_prepared_is_not_written_through() {
    let home = home();
    std::fs::write(home.path("victim"), "a user's own").unwrap();
    let mut command = home.ebb("show last --json -o r.json");
    // The name that it once had while it was written: nobody can plant anything at the one that it has now.
    let script =
        format!("ln -s victim r.json.$$.part; exec {} show last --json -o r.json", super::common::EBB);
    let output = home.command("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(std::fs::read(home.path("victim")).unwrap(), b"a user's own");
    assert_eq!(status(&command.output().unwrap()), 0);
}

#[test]
fn others_may_read_reports_at_most_and_nothing_else() {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    let script = format!(
        "umask 000; {ebb} run x.toml --quiet -o r.html; {ebb} bench new --verify --rw write --bs 4k --size 64k --ledger l",
        ebb = super::common::EBB
    );
    let output = home.command("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(mode(&home.path("r.html")), 0o644);
    assert_eq!(mode(&home.path("l")), 0o600);
    assert_eq!(mode(&home.path("new")), 0o644);
    assert_eq!(mode(&home.path("data/ebbtide/store.sqlite")), 0o600);
}

#[test]
fn a_refused_verify_leaves_no_ledger() {
    let home = Home::new();
    std::fs::write(home.path("mine"), vec![7; 1 << 20]).unwrap();
    for (target, options) in [("mine", ""), ("/dev/null", "--destroy"), ("new", "--size 5000")] {
        let line = format!("bench {target} --verify --rw write --bs 4k {options} --ledger l");
        let output = home.ebb(&line).output().unwrap();
        assert_ne!(status(&output), 0, "{line}: {output:?}");
        assert!(!home.path("l").exists(), "{line}");
    }
    let output = home.ebb("bench mine --verify --rw write --bs 4k --destroy --ledger l").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    // And a ledger is nothing to write to.
    let output = home.ebb("bench l --rw write --bs 512 --destroy").output().unwrap();
    assert!(stderr(&output).contains("a ledger of ebb's"), "{output:?}");
    let output = home.ebb("verify l").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
}

#[test]
fn a_store_that_goes_away_in_the_middle_is_told_and_rescued() {
    for replace in [false, true] {
        let home = Home::new();
        home.write("x.toml", &tiny("", LONG));
        let running = home.start_until("run x.toml --quiet", 3);
        let store = home.path("data/ebbtide/store.sqlite");
        std::fs::remove_file(&store).unwrap();
        if replace {
            std::fs::write(&store, "a user's own").unwrap();
        }
        let output = running.wait();
        assert_eq!(status(&output), 1, "{output:?}");
        let said = stderr(&output);
        assert!(said.contains("removed or replaced") && said.contains("rescued-1"), "{said}");
        let rescued = home.path("data/ebbtide/store.sqlite.rescued-1");
        let listed = home.json(&format!("list --store {}", rescued.display()), &[0]);
        assert!(listed["sessions"][0]["trials"].as_u64().unwrap() >= 3, "{listed}");
        if replace {
            assert_eq!(std::fs::read(&store).unwrap(), b"a user's own");
        }
    }
}

/// As another user, for root may write everything; with the program where that user gets at it, as the checkout may be in root's home.
fn as_nobody(home: &Home, line: &str) -> std::process::Output {
    let program = home.path("ebb");
    if !program.exists() {
        std::fs::copy(super::common::EBB, &program).unwrap();
    }
    let script = format!("{} {line}", program.display());
    let mut command: Command = home.command("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", &script]);
    command.output().unwrap()
}

#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    let home = home();
    assert!([0, 3].contains(&status(&home.ebb("run x.toml --on sim --quiet").output().unwrap())));
    let first = home.json("list", &[0])["sessions"][1]["id"].as_str().unwrap().to_owned();
    let directory = home.path("data/ebbtide");
    let store = directory.join("store.sqlite");
    std::fs::set_permissions(&store, PermissionsExt::from_mode(0o444)).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o555)).unwrap();
    std::fs::set_permissions(home.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    for line in ["list", "show last", "show last --json", "show last --why", &format!("compare last {first}")]
    {
        let output = if root { as_nobody(&home, line) } else { home.ebb(line).output().unwrap() };
        assert!([0, 3].contains(&status(&output)), "{line}: {output:?}");
        assert!(!output.stdout.is_empty(), "{line}: {output:?}");
    }
    let output = if root {
        as_nobody(&home, "run x.toml --on sim")
    } else {
        home.ebb("run x.toml --on sim").output().unwrap()
    };
    assert_eq!(status(&output), 1, "{output:?}");
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn ctrl_c_removes_only_what_was_made() {
    let home = Home::new();
    let running = home.start("bench new --rw randread --bs 4k --size 64m --runtime 60s");
    let begin = std::time::Instant::now();
    while !home.path("new").exists() {
        assert!(begin.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::write(home.path("mine"), "a user's own").unwrap();
    std::fs::rename(home.path("mine"), home.path("new")).unwrap();
    running.signal("INT");
    let output = running.wait();
    assert_ne!(status(&output), 0, "{output:?}");
    assert_eq!(std::fs::read(home.path("new")).unwrap(), b"a user's own");
}

#[test]
fn one_file_under_two_names_is_one_volume() {
    let home = Home::new();
    std::fs::write(home.path("a"), vec![7; 8 << 20]).unwrap();
    std::fs::hard_link(home.path("a"), home.path("hard")).unwrap();
    symlink("a", home.path("soft")).unwrap();
    for other in ["hard", "soft", "./a", "volumes/../a"] {
        home.write(
            "x.toml",
            &format!(
                "name = \"x\"\n[volumes.v]\nfile = \"a\"\n[volumes.w]\nfile = \"{other}\"\n[designs.d]\n\
                 layout = \"stripe\"\nchunk = \"64k\"\nmembers = [\"v\", \"w\"]\n[workloads.w]\nrw = \"randread\"\n\
                 bs = \"4k\"\nruntime = \"20ms\"\n"
            ),
        );
        for options in ["", "--destroy"] {
            let output = home.ebb(&format!("run x.toml --quiet {options}")).output().unwrap();
            assert_eq!(status(&output), 1, "{other} {options}: {output:?}");
            assert!(stderr(&output).contains("shares its blocks with"), "{other}: {output:?}");
        }
    }
    assert_eq!(std::fs::read(home.path("a")).unwrap(), vec![7; 8 << 20]);
}

#[test]
fn an_id_is_of_a_device_and_a_file_is_no_device() {
    let home = Home::new();
    std::fs::write(home.path("a"), vec![7; 1 << 20]).unwrap();
    let path = home.path("a");
    let text = |volume: &str| {
        format!(
            "name = \"x\"\n[volumes.v]\n{volume}\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
             [workloads.w]\nrw = \"randwrite\"\nbs = \"4k\"\nruntime = \"20ms\"\n"
        )
    };
    home.write("x.toml", &text(&format!("device = \"/dev/..{}\"\nid = \"wrong\"", path.display())));
    let output = home.ebb("run x.toml --quiet --destroy").output().unwrap();
    assert!(stderr(&output).contains("a regular file and not a device"), "{output:?}");
    home.write("x.toml", &text(&format!("device = \"{}\"", path.display())));
    let output = home.ebb("run x.toml --quiet --destroy").output().unwrap();
    assert!(stderr(&output).contains("a regular file is given by `file = `"), "{output:?}");
    assert_eq!(std::fs::read(path).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn a_journal_of_a_run_that_was_killed_is_not_written() {
    let home = Home::new();
    home.write("long.toml", &tiny("", LONG));
    let running = home.start_until("run long.toml --quiet", 1);
    running.signal("KILL");
    drop(running.wait());
    let journals = home.files_in("state/ebbtide/journals");
    let [journal] = journals.as_slice() else { panic!("{journals:?}") };
    let before = std::fs::read(journal).unwrap();
    for line in ["show last --format csv -o", "bench --rw write --bs 512 --size 512 --destroy --filename"] {
        let output = home.ebb(line).arg(journal).output().unwrap();
        assert!([1, 2].contains(&status(&output)), "{line}: {output:?}");
        assert!(stderr(&output).contains("a journal of ebb's"), "{line}: {output:?}");
        assert_eq!(std::fs::read(journal).unwrap(), before, "{line}");
    }
    assert_eq!(status(&home.ebb("cleanup").output().unwrap()), 0);
    assert!(home.files_in("volumes").is_empty());
}

#[test]
fn one_unreadable_journal_does_not_stop_cleanup() {
    let home = Home::new();
    let journals = home.path("state/ebbtide/journals");
    std::fs::create_dir_all(journals.join("x.jsonl")).unwrap();
    std::fs::write(journals.join("a.jsonl"), "no journal\n").unwrap();
    home.write("x.toml", &tiny("", LONG));
    let running = home.start_until("run x.toml --quiet", 1);
    running.signal("KILL");
    drop(running.wait());
    assert!(!home.files_in("volumes").is_empty());
    let output = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("a.jsonl") && stderr(&output).contains("x.jsonl"), "{output:?}");
    assert!(home.files_in("volumes").is_empty(), "the others are worked on");
    assert_eq!(std::fs::read(journals.join("a.jsonl")).unwrap(), b"no journal\n");
}

#[test]
fn a_run_that_is_refused_leaves_the_report_that_was_there() {
    let home = home();
    assert_eq!(status(&home.ebb("show last -o good.html").output().unwrap()), 0);
    let before = std::fs::read(home.path("good.html")).unwrap();
    home.write(
        "none.toml",
        "name = \"x\"\n[volumes.v]\ndevice = \"/dev/nosuch\"\n[designs.d]\nlayout = \"linear\"\n\
         members = [\"v\"]\n[workloads.w]\nrw = \"randread\"\nbs = \"4k\"\nruntime = \"20ms\"\n",
    );
    for options in ["", "--no-save", "--json"] {
        let output = home.ebb(&format!("run none.toml -o good.html {options}")).output().unwrap();
        assert_eq!(status(&output), 1, "{options}: {output:?}");
        assert!(!stderr(&output).contains("report written"), "{options}: {output:?}");
        assert_eq!(std::fs::read(home.path("good.html")).unwrap(), before, "{options}");
    }
    let output = home.ebb("run x.toml --on sim --quiet -o good.html").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    assert_ne!(std::fs::read(home.path("good.html")).unwrap(), before);
}

#[test]
fn a_report_goes_to_no_file_by_its_descriptor_but_where_the_shell_sends_it() {
    let home = home();
    std::fs::write(home.path("victim"), "a user's own").unwrap();
    let shell = |script: &str| {
        let script = script.replace("EBB", &format!("{} show --format csv -o", super::common::EBB));
        home.command("bash").args(["-c", &script]).output().unwrap()
    };
    for name in ["/proc/self/fd/9", "/dev/fd/9", "/proc/thread-self/fd/9"] {
        for open in ["9<victim", "9>>victim", "9<>victim"] {
            let output = shell(&format!("EBB {name} {open}"));
            assert_eq!(status(&output), 2, "{name} {open}: {output:?}");
            assert_eq!(std::fs::read(home.path("victim")).unwrap(), b"a user's own", "{name} {open}");
        }
    }
    let output = shell("EBB /dev/stdout 1<victim");
    assert_eq!(status(&output), 1, "{output:?}");
    assert_eq!(std::fs::read(home.path("victim")).unwrap(), b"a user's own");
    for (script, file) in [
        ("EBB /dev/stdout >one.csv", "one.csv"),
        ("EBB /dev/stderr -q 2>two.csv", "two.csv"),
        ("EBB >(cat >three.csv); sleep 1", "three.csv"),
        ("EBB /dev/fd/1 | cat >four.csv", "four.csv"),
    ] {
        assert_eq!(status(&shell(script)), 0, "{script}");
        let written = std::fs::read_to_string(home.path(file)).unwrap();
        assert!(written.starts_with("session,"), "{script}: {written:.100}");
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_told_and_not_waited_for() {
    let home = home();
    let script = format!("mkfifo p; timeout 60 {} show --format csv -o p", super::common::EBB);
    let output = home.command("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("nobody reads this pipe"), "{output:?}");
}

#[test]
#[ignore = "requires root"]
fn a_report_that_is_replaced_keeps_its_owner_or_is_not_replaced() {
    let home = home();
    let file = home.path("r.csv");
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
    assert_eq!(status(&home.ebb("show --format csv -o r.csv").output().unwrap()), 0);
    let found = std::fs::metadata(&file).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (65534, 65534, 0o640));
    assert_ne!(std::fs::read(&file).unwrap(), b"old");

    // Another user, who may write the directory but not give files away.
    std::os::unix::fs::chown(&file, Some(0), Some(0)).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let before = std::fs::read(&file).unwrap();
    for name in ["", "data", "data/ebbtide", "data/ebbtide/store.sqlite"] {
        std::os::unix::fs::chown(home.path(name), Some(65534), Some(65534)).unwrap();
    }
    let output = as_nobody(&home, "show --full --format csv -o r.csv");
    assert_eq!(status(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("belongs to another user"), "{output:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(status(&as_nobody(&home, "show --format csv -o mine.csv")), 0);
}

#[test]
fn what_cannot_be_printed_is_told_by_the_status() {
    let home = Home::new();
    for line in ["--help", "--version", "run --help", "layout compare --member-size 1GiB"] {
        let script = format!("{} {line} >/dev/full", super::common::EBB);
        let output = home.command("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(status(&output), 1, "{line}: {output:?}");
        assert!(stderr(&output).contains("standard output"), "{line}: {output:?}");
    }
}
