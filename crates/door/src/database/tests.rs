use super::*;

#[test]
fn a_database_that_is_replaced_is_noticed() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let path = place.path().join("store");
    assert!(Database::at(&path, false).expect("looks").is_none());
    let database = Database::at(&path, true).expect("makes").expect("is there");
    assert!(database.is_there().expect("looks"));
    assert!(Database::at(&path, false).expect("is shared").is_some());
    std::fs::rename(&path, place.path().join("elsewhere")).expect("moves");
    assert!(!database.is_there().expect("looks"));
    std::fs::write(&path, "").expect("makes");
    assert!(!database.is_there().expect("looks"));
}

#[test]
fn nothing_but_a_file_is_a_database_and_nothing_is_planted_beside_it() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    for path in [place.path(), Path::new("/dev/null")] {
        assert!(matches!(Database::at(path, true), Err(DoorError::NoVolume { .. })), "{}", path.display());
    }
    std::os::unix::fs::symlink("/etc/passwd", place.path().join("store-wal")).expect("links");
    let error = Database::at(&place.path().join("store"), true).expect_err("is planted").to_string();
    assert!(error.contains("store-wal"), "{error}");
}

fn refusal(path: &Path, make: bool) -> String {
    Database::at(path, make).expect_err("is refused").to_string()
}

/// A rollback journal of a database that had `pages`, with what follows its header.
fn journal(pages: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    for field in [0, 12_345, pages, 512, 4096] {
        bytes.extend(u32::to_be_bytes(field));
    }
    bytes.resize(512, 0);
    [&bytes, rest].concat()
}

/// The first page of a database with this application id and count of entries.
fn page(application: u32, entries: u16) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    bytes[16..18].copy_from_slice(&4096u16.to_be_bytes());
    bytes[68..72].copy_from_slice(&application.to_be_bytes());
    bytes[100] = 13;
    bytes[103..105].copy_from_slice(&entries.to_be_bytes());
    bytes
}

/// A write-ahead log with one page in it.
fn log(page: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 56];
    bytes[..8].copy_from_slice(&[0x37, 0x7f, 0x06, 0x82, 0, 0x2d, 0xe2, 0x18]);
    bytes[32..36].copy_from_slice(&1u32.to_be_bytes());
    [&bytes, page].concat()
}

/// What is left of the index of a log that was cut to three bytes, then lengthened to `length`.
fn index(length: usize) -> Vec<u8> {
    let mut bytes = 3_007_000u32.to_ne_bytes()[..3].to_vec();
    bytes.resize(length, 0);
    bytes
}

/// Somebody's text of `length` bytes.
fn diary(length: usize) -> Vec<u8> {
    b"diary ".iter().copied().cycle().take(length).collect()
}

const OURS: u32 = ebbtide_model::session::STORE_APPLICATION_ID;

#[test]
fn somebody_s_files_beside_a_store_are_refused_and_stay() {
    for (main, missing) in [(None, true), (Some(Vec::new()), true), (Some(page(OURS, 1)), false)] {
        for (suffix, content, words) in [
            ("-journal", b"diary".to_vec(), "not what SQLite keeps there"),
            ("-wal", b"diary".to_vec(), "not what SQLite keeps there"),
            ("-shm", b"diary".to_vec(), "not what SQLite keeps there"),
            ("-shm", diary(4096), "not what SQLite keeps there"),
            ("-shm", [&index(3)[..], b"diary"].concat(), "not what SQLite keeps there"),
            ("-shm", index(5000), "not what SQLite keeps there"),
            ("-journal", journal(7, b"pages"), "a database that is not there"),
            ("-wal", log(&page(OURS, 1)), "a database that is not there"),
        ] {
            let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
            let path = place.path().join("store");
            if let Some(main) = &main {
                std::fs::write(&path, main).expect("writes");
            }
            let beside = place.path().join(format!("store{suffix}"));
            std::fs::write(&beside, &content).expect("writes");
            let its_own = words.contains("database");
            if its_own && !missing {
                assert!(Database::at(&path, true).expect("its own").is_some(), "{suffix}");
            } else {
                let said = refusal(&path, true);
                assert!(said.contains(words) && said.contains(suffix), "{suffix}: {said}");
                assert_eq!(path.exists(), main.is_some(), "{suffix}");
            }
            assert_eq!(std::fs::read(&beside).expect("stays"), content);
        }
    }
}

#[test]
fn what_a_killed_writer_leaves_is_no_reason_against_its_store() {
    let empty: &[u8] = &[];
    let zeros = vec![0; 32_768];
    let mut unsynced = journal(0, empty);
    unsynced[..12].fill(0);
    for (main, suffix, content) in [
        (Vec::new(), "-journal", journal(0, empty)),
        (Vec::new(), "-journal", unsynced),
        (page(OURS, 1), "-journal", Vec::new()),
        (page(OURS, 1), "-wal", Vec::new()),
        (page(OURS, 1), "-shm", zeros),
        (page(0, 0), "-wal", log(&page(OURS, 1))),
        (page(0, 0), "-wal", log(empty)),
    ] {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("store");
        std::fs::write(&path, &main).expect("writes");
        std::fs::write(place.path().join(format!("store{suffix}")), &content).expect("writes");
        let database = Database::at(&path, true).expect(suffix).expect("is there");
        assert_eq!(database.foreign(), None, "{suffix}");
    }
}

#[test]
fn an_index_that_a_kill_left_cut_is_no_reason_against_its_store() {
    // A page of the second piece is missing from the longest, whose first piece was written.
    let mut long = index(32_768 + 4096);
    long[4..48].fill(7);
    long[3] = 3_007_000u32.to_ne_bytes()[3];
    for content in [index(3), index(4096), index(28_672), index(32_768), vec![0; 3], vec![0; 4096], long] {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("store");
        std::fs::write(&path, page(OURS, 1)).expect("writes");
        std::fs::write(place.path().join("store-wal"), log(&page(OURS, 1))).expect("writes");
        std::fs::write(place.path().join("store-shm"), &content).expect("writes");
        let length = content.len();
        let opened = Database::at(&path, false);
        let database = opened.unwrap_or_else(|error| panic!("{length} bytes: {error}")).expect("is there");
        assert_eq!(database.foreign(), None, "{length} bytes");
    }
}

#[test]
fn a_journal_that_names_another_file_is_refused() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let path = place.path().join("store");
    std::fs::write(&path, page(OURS, 1)).expect("writes");
    let name = b"/etc/passwd";
    let mut end = [&[0, 4, 0, 1][..], name].concat();
    end.extend(u32::to_be_bytes(name.len() as u32));
    end.extend(u32::to_be_bytes(name.iter().map(|byte| u32::from(*byte)).sum()));
    end.extend([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    std::fs::write(place.path().join("store-journal"), journal(1, &end)).expect("writes");
    let said = refusal(&path, false);
    assert!(said.contains("names another file"), "{said}");
    // Its own: without that name.
    std::fs::write(place.path().join("store-journal"), journal(1, &[7; 4104])).expect("writes");
    assert!(Database::at(&path, false).expect("its own").is_some());
}

#[test]
fn another_program_s_database_is_told_before_its_library_opens_it() {
    let another = "it is the database of another program";
    for (main, beside, foreign) in [
        (page(OURS, 1), None, None),
        (page(0, 0), None, None),
        (page(0, 1), None, Some(another)),
        (page(7, 1), None, Some(another)),
        (page(0, 0), Some(log(&page(0, 1))), Some(another)),
        (b"SQLite".to_vec(), None, Some("it is not an SQLite database")),
    ] {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("store");
        std::fs::write(&path, &main).expect("writes");
        if let Some(beside) = &beside {
            std::fs::write(place.path().join("store-wal"), beside).expect("writes");
        }
        let database = Database::at(&path, true).expect("looks").expect("is there");
        assert_eq!(database.foreign(), foreign);
    }
}

#[test]
fn a_directory_that_everybody_may_write_is_no_place_for_a_store() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let path = place.path().join("store");
    let mode = |mode| {
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(mode)).expect("sets");
    };
    for open in [0o777, 0o1777] {
        mode(open);
        assert!(refusal(&path, true).contains("everybody may make files"), "{open:o}");
    }
    mode(0o755);
    assert!(Database::at(&path, true).expect("makes").is_some());
}

#[test]
fn a_link_to_the_directory_of_a_store_is_followed_before_there_is_one() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let directory = place.path().join("directory");
    std::fs::create_dir(&directory).expect("makes");
    std::os::unix::fs::symlink("directory", place.path().join("link")).expect("links");
    let database = Database::at(&place.path().join("link/store"), true).expect("makes").expect("is there");
    let resolved = directory.canonicalize().expect("is there").join("store");
    assert_eq!(database.path(), resolved);
}

#[test]
fn a_journal_is_rolled_back_into_the_store_that_it_is_of() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let path = place.path().join("store");
    let record = |page: &[u8]| [&1u32.to_be_bytes(), page, &[0; 4]].concat();
    let mut theirs = page(0, 1);
    theirs[60..64].copy_from_slice(&[0, 0, 0, 1]);
    for (with_log, rest, is_own) in [
        // Without its first page nothing tells whose it is; a store with a log has none.
        (false, vec![1; 4096], true),
        (true, vec![1; 4096], false),
        (false, record(&theirs), false),
        (true, record(&theirs), false),
        (false, record(&page(OURS, 1)), true),
        // A kill came while the store began its log.
        (true, record(&page(OURS, 1)), true),
        // A copy of the store went on by itself: more pages, another first page.
        (true, [record(&page(OURS, 1)), [0, 0, 0, 2].into(), vec![1; 4100]].concat(), false),
        (true, record(&page(OURS, 2)), false),
        // A database without tables that became a store.
        (false, record(&page(0, 0)), true),
    ] {
        let mut store = [page(OURS, 1), vec![3; 4096]].concat();
        if with_log {
            store[18..20].copy_from_slice(&[2, 2]);
            store[24..28].copy_from_slice(&[0, 0, 0, 9]);
        }
        std::fs::write(&path, &store).expect("writes");
        std::fs::write(place.path().join("store-journal"), journal(2, &rest)).expect("writes");
        match Database::at(&path, false) {
            Ok(found) => assert!(is_own && found.is_some(), "{with_log}, {:?}", &rest[..8]),
            Err(error) => {
                let said = error.to_string();
                assert!(!is_own && said.contains("store-journal beside it is of another database"), "{said}");
            }
        }
        assert_eq!(std::fs::read(&path).expect("reads"), store);
        std::fs::remove_file(place.path().join("store-journal")).expect("removes");
    }
}
