//! Stores among files of others: SQLite opens by name, and takes what has the right name beside a database for its own.

use super::common::{EBB, Home, LONG, SHORT, status, stderr, tiny};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A home with a store of one session, and its path.
fn home() -> (Home, PathBuf) {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    let output = home.ebb("run x.toml --on sim --quiet --store n").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    let store = home.path("n");
    (home, store)
}

/// A journal of `store`, as a transaction over several databases leaves it that was killed: SQLite deletes `victim` with it.
fn journal_that_names(store: &Path, victim: &Path) -> Vec<u8> {
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let content = std::fs::read(store).unwrap();
    let page_size = u32::from(u16::from_be_bytes([content[16], content[17]]));
    let mut journal = magic.to_vec();
    for field in [0, 12_345, content.len() as u32 / page_size, 512, page_size] {
        journal.extend(field.to_be_bytes());
    }
    journal.resize(512, 0);
    let name = victim.as_os_str().as_encoded_bytes();
    journal.extend((0x4000_0000 / page_size + 1).to_be_bytes());
    journal.extend(name);
    journal.extend((name.len() as u32).to_be_bytes());
    journal.extend(name.iter().map(|byte| u32::from(*byte)).sum::<u32>().to_be_bytes());
    journal.extend(magic);
    journal
}

#[test]
fn a_journal_deletes_no_file_that_it_names() {
    let (home, store) = home();
    let (victim, journal) = (home.path("victim"), home.path("n-journal"));
    std::fs::write(&victim, "a user's own").unwrap();
    std::fs::write(&journal, journal_that_names(&store, &victim)).unwrap();
    for line in ["list", "show last", "run x.toml --on sim --quiet"] {
        let output = home.ebb(&format!("{line} --store n")).output().unwrap();
        assert_eq!(status(&output), 1, "{line}: {output:?}");
        assert!(stderr(&output).contains("n-journal beside it names another file"), "{line}: {output:?}");
        assert_eq!(std::fs::read(&victim).unwrap(), b"a user's own", "{line}");
        assert!(journal.exists(), "{line}");
    }
    std::fs::remove_file(journal).unwrap();
    assert_eq!(home.json("list --store n", &[0])["sessions"].as_array().unwrap().len(), 1);
}

/// As SQLite's mapped index gives it on a btrfs that is full.
#[test]
fn a_bus_error_is_told() {
    let home = Home::new();
    home.write("x.toml", &tiny("", LONG));
    let running = home.start_until("run x.toml --on files --quiet", 1);
    running.signal("BUS");
    let output = running.wait();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("the file system of the store may be full"), "{output:?}");
    assert!(home.json("list", &[0])["sessions"][0]["trials"].as_u64().unwrap() >= 1);
    let output = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(home.files_in("volumes").len(), 0);
}

#[test]
fn files_beside_a_store_stay() {
    let (home, store) = home();
    std::fs::write(home.path("empty"), "").unwrap();
    std::fs::copy(&store, home.path("another")).unwrap();
    for (name, line) in [
        ("another", "list --store another"),
        ("another", "run x.toml --on sim --quiet --store another"),
        ("empty", "list --store empty"),
        ("empty", "run x.toml --on sim --quiet --store empty"),
        ("new", "run x.toml --on sim --quiet --store new"),
    ] {
        for suffix in ["-journal", "-wal", "-shm"] {
            let diary = home.path(&format!("{name}{suffix}"));
            std::fs::write(&diary, "diary").unwrap();
            let before = std::fs::read(home.path(name)).ok();
            let output = home.ebb(line).output().unwrap();
            assert_eq!(status(&output), 1, "{line} {suffix}: {output:?}");
            assert!(stderr(&output).contains(&format!("{name}{suffix} beside it is not")), "{output:?}");
            assert_eq!(std::fs::read(&diary).unwrap(), b"diary", "{line} {suffix}");
            assert_eq!(std::fs::read(home.path(name)).ok(), before, "{line} {suffix}");
            std::fs::remove_file(diary).unwrap();
        }
        let output = home.ebb(line).output().unwrap();
        assert!([0, 3].contains(&status(&output)), "{line}: {output:?}");
        for left in [name, "another", "empty"] {
            assert!(!home.path(&format!("{left}-wal")).exists(), "{left}");
        }
        if line.starts_with("run") && name == "empty" {
            std::fs::write(home.path(name), "").unwrap();
        }
    }
}

#[test]
fn another_program_s_database_is_left_with_its_log() {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    for settled in [
        "",
        "c.execute('PRAGMA wal_checkpoint(TRUNCATE)'); c.execute('INSERT INTO x VALUES (2)'); c.commit()",
    ] {
        let code = format!(
            "import os,sqlite3\nc=sqlite3.connect('fw.db')\nc.execute('PRAGMA journal_mode=WAL')\n\
             c.execute('CREATE TABLE x (y)'); c.execute('INSERT INTO x VALUES (1)'); c.commit()\n{settled}\nos.kill(os.getpid(), 9)"
        );
        home.command("python3").args(["-c", &code]).output().unwrap();
        let files = ["fw.db", "fw.db-wal", "fw.db-shm"].map(|name| home.path(name));
        let before: Vec<_> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(!before[1].is_empty());
        for line in ["list", "run x.toml --on sim --quiet"] {
            let output = home.ebb(&format!("{line} --store fw.db")).output().unwrap();
            assert_eq!(status(&output), 1, "{line}: {output:?}");
            assert!(stderr(&output).contains("the database of another program"), "{line}: {output:?}");
            let after: Vec<_> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
            assert!(before == after, "{line}");
        }
        files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}

/// Stores that their writer left at any moment are opened by the next one.
#[test]
fn a_store_whose_writer_was_killed_is_opened_again() {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    for (number, wait) in [0, 3, 6, 9, 12, 16, 20, 25, 30, 40, 60, 100, 200].into_iter().enumerate() {
        let store = format!("s{number}");
        let running = home.start(&format!("run x.toml --quiet --store {store}"));
        let begin = std::time::Instant::now();
        while !home.path(&store).exists() && begin.elapsed().as_secs() < 60 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(wait));
        running.signal_if_it_lives("KILL");
        drop(running.wait());
        let left: Vec<PathBuf> = home.files_in("").into_iter().filter(|path| path.is_file()).collect();
        let output = home.ebb(&format!("list --store {store}")).output().unwrap();
        assert_eq!(status(&output), 0, "after {wait} ms: {output:?}, {left:?}");
        let output = home.ebb(&format!("run x.toml --on sim --quiet --store {store}")).output().unwrap();
        assert!([0, 3].contains(&status(&output)), "after {wait} ms: {output:?}");
    }
    assert_eq!(status(&home.ebb("cleanup").output().unwrap()), 0);
}

/// SQLite cuts the index of a log to three bytes, then lengthens it page by page: a kill may come between.
#[test]
fn a_store_whose_index_was_cut_by_a_kill_is_opened_with_its_log() {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    let running = home.start_until("run x.toml --quiet", 1);
    running.signal("KILL");
    drop(running.wait());
    let beside = |directory: &str, suffix: &str| home.path(directory).join(format!("store.sqlite{suffix}"));
    for length in [3, 4096, 28_672] {
        let place = format!("cut{length}");
        std::fs::create_dir(home.path(&place)).unwrap();
        for suffix in ["", "-wal", "-shm"] {
            std::fs::copy(beside("data/ebbtide", suffix), beside(&place, suffix)).unwrap();
        }
        let index = std::fs::File::options().write(true).open(beside(&place, "-shm")).unwrap();
        index.set_len(3).unwrap();
        index.set_len(length).unwrap();
        let listed = home.json(&format!("list --store {place}/store.sqlite"), &[0]);
        assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{length}: {listed}");
    }
}

#[test]
fn a_store_is_kept_where_not_everybody_may_write() {
    let (home, _) = home();
    let shared = home.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::copy(home.path("n"), shared.join("n")).unwrap();
    for (mode, statuses) in [(0o777, [1, 1]), (0o1777, [1, 1]), (0o755, [0, 3])] {
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(mode)).unwrap();
        for line in ["list --store shared/n", "run x.toml --on sim --quiet --store shared/new"] {
            let output = home.ebb(line).output().unwrap();
            assert!(statuses.contains(&status(&output)), "{mode:o} {line}: {output:?}");
            let told = stderr(&output).contains("everybody may make files");
            assert_eq!(told, statuses == [1, 1], "{mode:o} {line}: {output:?}");
        }
    }
}

#[test]
#[ignore = "requires root"]
fn what_another_user_put_beside_a_store_is_refused() {
    let (home, store) = home();
    for suffix in ["-journal", "-wal", "-shm"] {
        // Empty, so that nothing but its owner is against it.
        let beside = home.path(&format!("n{suffix}"));
        std::fs::write(&beside, "").unwrap();
        std::os::unix::fs::chown(&beside, Some(65534), Some(65534)).unwrap();
        let output = home.ebb("list --store n").output().unwrap();
        assert_eq!(status(&output), 1, "{suffix}: {output:?}");
        assert!(stderr(&output).contains("belongs to another user"), "{suffix}: {output:?}");
        assert!(beside.exists(), "{suffix}");
        // The store's own user may have files beside it, whoever looks.
        std::os::unix::fs::chown(&store, Some(65534), Some(65534)).unwrap();
        let output = home.ebb("list --store n").output().unwrap();
        assert_eq!(status(&output), 0, "{suffix}: {output:?}");
        std::os::unix::fs::chown(&store, Some(0), Some(0)).unwrap();
        let _ = std::fs::remove_file(beside);
    }
}

#[test]
fn the_data_directory_may_be_a_link() {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    std::fs::create_dir(home.path("elsewhere")).unwrap();
    symlink(home.path("elsewhere"), home.path("data/ebbtide")).unwrap();
    let output = home.ebb("run x.toml --on sim --quiet").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    assert!(home.path("elsewhere/store.sqlite").exists());
    assert_eq!(home.json("list", &[0])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_limit_of_open_files_is_named() {
    let (home, _) = home();
    let mut told = 0;
    for limit in 6..=16 {
        let script = format!("ulimit -n {limit}; exec {EBB} list --store n");
        let output = home.command("bash").args(["-c", &script]).output().unwrap();
        let said = stderr(&output);
        assert!(!said.contains("unable to open database file"), "{limit}: {said}");
        told += u32::from(said.contains("ulimit -n") && said.contains("store"));
    }
    assert!(told > 0);
}
