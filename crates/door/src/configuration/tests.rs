use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let path = place.path().join("fstab");
    fs::write(&path, "one\n").expect("writes");
    (place, path)
}

fn names(place: &tempfile::TempDir) -> Vec<String> {
    let all = fs::read_dir(place.path()).expect("lists");
    all.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn who_reads_it_does_not_matter_and_its_attributes_stay() {
    let (place, path) = place();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("sets");
    rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).expect("sets");
    let mut reader = File::open(&path).expect("opens");
    let written = replace(&path, Some(b"one\n"), b"one\ntwo\n", 0o644).expect("writes");
    assert_eq!(written, Configured::Written);
    assert_eq!(fs::read_to_string(&path).expect("reads"), "one\ntwo\n");
    assert_eq!(content(&mut reader).expect("reads"), b"one\n");
    let mut value = [0; 9];
    assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value), Ok(4));
    assert_eq!(fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&place), ["fstab"]);
}

#[test]
fn an_edit_before_or_meanwhile_is_kept() {
    let (place, path) = place();
    let edited = |now: Option<&[u8]>| replace(&path, now, b"new\n", 0o644).expect("is told");
    assert_eq!(edited(Some(b"other\n")), Configured::Edited);
    assert_eq!(edited(None), Configured::Edited);
    assert_eq!(fs::read_to_string(&path).expect("reads"), "one\n");
    // A program that has it open to write, and writes when the names are exchanged already.
    let mut writer = File::options().append(true).open(&path).expect("opens");
    let written = std::thread::scope(|scope| {
        let configured = scope.spawn(|| replace(&path, Some(b"one\n"), b"one\nnew\n", 0o644));
        while fs::read_to_string(&path).is_ok_and(|text| text == "one\n") {
            std::thread::yield_now();
        }
        writer.write_all(b"theirs\n").expect("writes");
        drop(writer);
        configured.join().expect("ends")
    });
    assert_eq!(written.expect("is told"), Configured::Edited);
    assert_eq!(fs::read_to_string(&path).expect("reads"), "one\ntheirs\n");
    assert_eq!(names(&place), ["fstab"]);
}

#[test]
fn no_line_that_others_append_is_lost() {
    let (place, path) = place();
    let end = std::sync::atomic::AtomicBool::new(false);
    let appended = std::thread::scope(|scope| {
        let appender = scope.spawn(|| {
            let mut lines = 0;
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                let mut file = File::options().append(true).open(&path).expect("opens");
                file.write_all(b"# theirs\n").expect("appends");
                lines += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
            lines
        });
        for _ in 0..100 {
            let now = fs::read_to_string(&path).expect("reads");
            let text =
                if now.contains("# ours\n") { now.replace("# ours\n", "") } else { format!("{now}# ours\n") };
            replace(&path, Some(now.as_bytes()), text.as_bytes(), 0o644).expect("is told");
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        appender.join().expect("ends")
    });
    let text = fs::read_to_string(&path).expect("reads");
    assert_eq!(text.matches("# theirs\n").count(), appended);
    assert_eq!(names(&place), ["fstab"]);
}

#[test]
fn what_is_no_file_is_refused_before_anything() {
    let (place, path) = place();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("links");
    for (wrong, words) in [(&link, "symbolic link"), (&place.path().to_owned(), "a directory")] {
        let error = may_replace(wrong).expect_err("is refused").to_string();
        assert!(error.contains(words) && !error.contains("report"), "{error}");
    }
    may_replace(&place.path().join("new")).expect("may be made");
}

#[test]
fn what_a_kill_left_goes_where_nothing_is_lost_by_it() {
    let (place, path) = place();
    let left = place.path().join(format!(".fstab.{:032x}.part", 1));
    fs::write(&left, "old\n").expect("writes");
    forget_unfinished(&path, &|_| false).expect("looks");
    assert!(left.exists());
    forget_unfinished(&path, &|content| content == b"old\n").expect("looks");
    assert_eq!(names(&place), ["fstab"]);
}
