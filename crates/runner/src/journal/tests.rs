use super::abandoned::name_mounted;
use super::put_back::check;
use super::*;
use ebbtide_door::id_of;
use ebbtide_host::command::Real;
use ebbtide_model::journal::{Entry, Journal, Leftover};
use ebbtide_model::plan::build::{BuildUndo, Mounted};
use std::path::Path;

fn path_of(left: &Leftover) -> &Path {
    match left {
        Leftover::Path { path, .. } => path,
        Leftover::Step { .. } => panic!("no step was made"),
    }
}

fn made(journal: &JournalFile, path: &Path) {
    journal.write(&Entry::MakingFile(path.to_owned())).expect("writes");
    std::fs::write(path, "content").expect("makes");
    let found = std::fs::metadata(path).expect("is there");
    let id = id_of(&found);
    journal.write(&Entry::Made(path.to_owned(), id)).expect("writes");
}

/// The journals of dead runs in `journals`, where there are any: a child that another test has just forked holds the lock too, until
/// it runs its program.
fn dead_ones(journals: &Path) -> Vec<Abandoned> {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let found = abandoned(journals).expect("reads").abandoned;
        if !found.is_empty() || std::time::Instant::now() > until {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn only_what_a_dead_run_made_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let journals = directory.path().join("journals");
    let journal = JournalFile::new(&journals, "run");
    let volumes = directory.path().join("ebbtide-run");
    std::fs::create_dir(&volumes).expect("makes");
    let (mine, replaced, announced, elsewhere) = (
        volumes.join("mine"),
        volumes.join("replaced"),
        volumes.join("announced"),
        directory.path().join("elsewhere"),
    );
    made(&journal, &elsewhere);
    made(&journal, &mine);
    made(&journal, &replaced);
    std::fs::remove_file(&mine).expect("removes");
    made(&journal, &mine);
    // Renamed over it: while both are there they cannot have the same inode.
    let other = directory.path().join("other");
    std::fs::write(&other, "a user's own").expect("makes");
    std::fs::rename(&other, &replaced).expect("replaces");
    journal.write(&Entry::MakingFile(announced.clone())).expect("writes");
    std::fs::write(&announced, "a user's own").expect("makes");

    assert!(abandoned(&journals).expect("reads").abandoned.is_empty(), "its run lives");
    drop(journal);
    let mut dead = dead_ones(&journals);
    assert_eq!(dead.len(), 1);
    assert!(abandoned(&journals).expect("reads").abandoned.is_empty(), "another cleanup is working on it");
    let foreseen: Vec<bool> = dead[0].left.iter().map(|leftover| check(leftover, "run").is_err()).collect();
    let results = dead.remove(0).put_back(&Real, &mut |_| {});
    assert_eq!(foreseen, results.iter().map(|(_, result)| result.is_err()).collect::<Vec<_>>());
    let kept: Vec<&Path> =
        results.iter().filter(|(_, result)| result.is_err()).map(|(left, _)| path_of(left)).collect();
    assert_eq!(kept, [announced.as_path(), replaced.as_path(), elsewhere.as_path()]);
    assert!(!mine.exists() && replaced.exists() && announced.exists() && elsewhere.exists());

    std::fs::remove_file(&replaced).expect("removes");
    std::fs::remove_file(&announced).expect("removes");
    std::fs::remove_file(&elsewhere).expect("removes");
    let name = journals.join("run.jsonl");
    let text = std::fs::read_to_string(&name).expect("reads");
    // As if its run had named it so.
    std::fs::write(&name, text.replace("/elsewhere", "/ebbtide-run/elsewhere")).expect("writes");
    let again = dead_ones(&journals).remove(0);
    assert!(again.put_back(&Real, &mut |_| {}).iter().all(|(_, result)| result.is_ok()));
    assert_eq!(std::fs::read_dir(&journals).expect("reads").count(), 0);
}

#[test]
fn a_run_that_left_nothing_leaves_no_journal() {
    let directory = tempfile::tempdir().expect("a directory");
    let journal = JournalFile::new(directory.path(), "run");
    let path = directory.path().join("v");
    made(&journal, &path);
    std::fs::remove_file(&path).expect("removes");
    journal.write(&Entry::Gone(path)).expect("writes");
    assert!(directory.path().join("run.jsonl").exists());
    drop(journal);
    assert!(!directory.path().join("run.jsonl").exists());
}

#[test]
fn a_journal_that_others_may_write_to_is_not_obeyed() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.jsonl");
    std::fs::write(&path, "{\"making_file\":\"/v/ebbtide-a/f\"}\n").expect("writes");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("sets");
    let found = abandoned(directory.path()).expect("reads");
    assert!(found.abandoned.is_empty());
    assert!(found.unreadable[0].1.contains("others may write"), "{}", found.unreadable[0].1);
}

#[test]
fn a_mount_of_an_earlier_version_is_of_the_file_system_made_before_it() {
    let step = |number, undo| Leftover::Step { number, undo };
    let wipe = |device: &str| BuildUndo::WipeContent {
        device: device.to_owned(),
        label: "ebb00000000".to_owned(),
        sequence: None,
    };
    let unmount = || BuildUndo::Unmount { mountpoint: "/run/ebbtide/r".into(), from: None };
    let left = name_mounted(vec![
        step(4, wipe("/dev/swap")),
        step(3, unmount()),
        step(2, wipe("/dev/array")),
        step(1, wipe("/dev/crypt")),
    ]);
    let from = Some(Mounted { device: "/dev/array".into(), fstype: None, number: None });
    assert_eq!(left[1], step(3, BuildUndo::Unmount { mountpoint: "/run/ebbtide/r".into(), from }));
    assert_eq!(name_mounted(vec![step(3, unmount())]), [step(3, unmount())]);
}

#[test]
fn one_unreadable_journal_keeps_no_other_from_being_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let line = |path: &str| format!("{{\"making_file\":\"{path}\"}}\n");
    std::fs::write(at("a.jsonl"), line("/v/a") + "{\"making_f").expect("writes");
    std::fs::write(at("b.jsonl"), "no journal\n").expect("writes");
    std::fs::create_dir(at("c.jsonl")).expect("makes");
    std::fs::write(at("d.jsonl"), line("/v/d")).expect("writes");
    let found = abandoned(directory.path()).expect("reads");
    let runs: Vec<&str> = found.abandoned.iter().map(|run| run.run.as_str()).collect();
    assert_eq!(runs, ["a", "d"]);
    assert_eq!(path_of(&found.abandoned[0].left[0]), Path::new("/v/a"), "a torn last line is no entry");
    let unreadable: Vec<&Path> = found.unreadable.iter().map(|(path, _)| path.as_path()).collect();
    assert_eq!(unreadable, [at("b.jsonl"), at("c.jsonl")]);
    assert!(found.unreadable[0].1.contains("line 1"), "{}", found.unreadable[0].1);
}
