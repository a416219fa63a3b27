use super::*;
use crate::door::{Judge, Look, Opened};
use std::sync::Arc;

/// Holds nothing against anything but files that begin with "used".
struct Lenient;

impl Judge for Lenient {
    fn look(&self) -> Box<dyn Look + '_> {
        Box::new(Lenient)
    }
}

impl Look for Lenient {
    fn footprint(&self, file: &File) -> io::Result<Footprint> {
        Ok(Footprint::alone(Identity::of(&file.metadata()?)))
    }

    fn reasons(&self, _: &Opened<'_>) -> Vec<Reason> {
        Vec::new()
    }

    fn users(&self, file: &File) -> Vec<Reason> {
        use std::os::unix::fs::FileExt;
        let mut begin = [0; 4];
        match file.read_exact_at(&mut begin, 0) {
            Ok(()) if begin == *b"used" => {
                vec![Reason { kind: RefusalKind::Open, what: "it is open".into(), remedy: "close it".into() }]
            }
            _ => Vec::new(),
        }
    }

    fn foreign(&self, _: &File, _: &[String]) -> Vec<Reason> {
        Vec::new()
    }
}

fn door() -> Door {
    Door::new(Arc::new(Lenient))
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

#[test]
fn a_report_is_new_or_replaces_a_file_as_a_whole_and_leaves_nothing_beside_it() {
    let (place, door) = (place(), door());
    let path = place.path().join("r.html");
    for content in ["first", "the second", "3"] {
        door.output(&path).expect("may").write(content.as_bytes()).expect("writes");
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), content);
        assert_eq!(std::fs::read_dir(place.path()).expect("reads").count(), 1);
    }
    let mode = |path: &Path| std::fs::metadata(path).expect("is there").mode() & 0o7777;
    assert_eq!(mode(&path) & !0o644, 0);
    let private = place.path().join("private");
    std::fs::write(&private, "old").expect("writes");
    std::fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("sets");
    door.output(&private).expect("may").write(b"new").expect("writes");
    assert_eq!(mode(&private), 0o600);
}

#[test]
fn what_is_no_plain_file_or_is_used_is_refused_before_anything_is_touched() {
    let (place, door) = (place(), door());
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("victim"), "a user's own").expect("writes");
    std::os::unix::fs::symlink("victim", at("link")).expect("links");
    std::os::unix::fs::symlink("nowhere", at("dangling")).expect("links");
    std::fs::write(at("busy"), "used by somebody").expect("writes");
    for (name, words) in [
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("busy", "it is open"),
        (".", "a directory"),
    ] {
        let error = door.output(&at(name)).expect_err(name).to_string();
        assert!(error.contains(words), "{name}: {error}");
    }
    for path in ["/dev/zero", "/dev/random", "/no/such/place", "/dev/fd/9999"] {
        assert!(door.output(Path::new(path)).is_err(), "{path}");
    }
    assert!(door.output(Path::new("/dev/null")).expect("may").write(b"x").is_ok());
    assert_eq!(std::fs::read(at("victim")).expect("reads"), b"a user's own");
}

#[test]
fn what_this_program_has_claimed_is_not_replaced() {
    let (place, door) = (place(), door());
    let path = place.path().join("store");
    let _database = crate::Database::at(&path, true).expect("makes");
    let error = door.output(&path).expect_err("is the store").to_string();
    assert!(error.contains("the store"), "{error}");
}

#[test]
fn a_file_that_takes_the_name_meanwhile_stays() {
    let (place, door) = (place(), door());
    let path = place.path().join("r");
    let output = door.output(&path).expect("may");
    std::fs::write(&path, "used by somebody").expect("writes");
    assert!(output.write(b"report").is_err());
    assert_eq!(std::fs::read(&path).expect("reads"), b"used by somebody");
    assert_eq!(std::fs::read_dir(place.path()).expect("reads").count(), 1);
}

#[test]
fn a_descriptor_is_no_way_to_a_file() {
    use std::os::fd::AsRawFd;
    let (place, door) = (place(), door());
    let path = place.path().join("victim");
    std::fs::write(&path, "a user's own").expect("writes");
    let (read, append) = (File::open(&path), std::fs::File::options().append(true).open(&path));
    let process = std::process::id();
    for file in [read.expect("opens"), append.expect("opens")] {
        let number = file.as_raw_fd();
        for (name, words) in [
            (format!("/dev/fd/{number}"), "name the file itself"),
            (format!("/proc/self/fd/{number}"), "name the file itself"),
            (format!("/proc/{process}/fd/{number}"), "symbolic link"),
            (format!("/proc/thread-self/fd/{number}"), "symbolic link"),
            (format!("/dev/../dev/fd/{number}"), "symbolic link"),
        ] {
            let said = door.output(Path::new(&name)).expect_err(&name).to_string();
            assert!(said.contains(words), "{name}: {said}");
        }
    }
    assert_eq!(std::fs::read(&path).expect("reads"), b"a user's own");
}

#[test]
fn a_pipe_is_written_where_somebody_reads_it_and_not_waited_for() {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    let (place, door) = (place(), door());
    let path = place.path().join("pipe");
    rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::RWXU, 0).expect("makes");
    let said = door.output(&path).expect("may").write(b"report").expect_err("nobody reads").to_string();
    assert!(said.contains("nobody reads this pipe"), "{said}");
    let mut reader = crate::read::open(&path).expect("opens");
    // Its other end, as a shell gives it.
    let writer = std::fs::File::options().write(true).open(&path).expect("opens");
    let by_number = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
    for path in [&path, &by_number] {
        door.output(path).expect("may").write(b"report").expect("writes");
        let mut content = [0; 6];
        reader.read_exact(&mut content).expect("reads");
        assert_eq!(&content, b"report");
    }
}
