//! What is held writes every byte.

use super::*;

/// How often each program is tried: `EBB_TEST_ROUNDS`.
fn rounds() -> u32 {
    std::env::var("EBB_TEST_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

/// Runs `script` under a limit as often as is asked for; `check` is a shell's command that is true when every byte is there.
fn writes_all(home: &Home, rate: &str, name: &str, script: &str, check: &str) {
    for round in 0..rounds() {
        let output = limit(home, &format!("--json --write {rate}"), script).output().unwrap();
        assert_eq!(status(&output), 0, "{name}, round {round}: {}", stderr(&output));
        let checked = home.command("sh").args(["-c", check]).output().unwrap();
        assert!(checked.status.success(), "{name}, round {round}: {checked:?} {}", stderr(&output));
        let said = json(&output);
        // A busy machine may be slower than the limit.
        let is_below = said["rates"]["write"]["per_second"].as_f64()
            < said["rates"]["write"]["limit_per_second"].as_f64();
        assert!(said["stops"].as_u64() > Some(0) || is_below, "{name} was never stopped: {said}");
    }
}

#[test]
fn programs_write_every_byte() {
    let same = "diff -r from to && rm -rf to";
    let whole = "test $(stat -c %s to) = 12582912 && rm to";
    let python = "cat from/* | python3 -c 'import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, open(\"to\", \"wb\"))'";
    let mut programs = vec![
        ("cp", "cp -r from to", same),
        ("tar", "mkdir to && tar cf - from | tar xf - --strip-components=1 -C to", same),
        ("python, pipe", python, "cat from/* | cmp - to && rm to"),
    ];
    match Command::new("rsync").arg("--version").output() {
        Ok(_) => programs.push(("rsync", "rsync -a from/ to", same)),
        Err(error) => eprintln!("SKIPPED: rsync: {error}"),
    }
    programs.extend([
        ("dd", "dd if=/dev/zero of=to bs=1M count=12 2>/dev/null", whole),
        ("dd, random", "dd if=/dev/urandom of=to bs=1M count=12 2>/dev/null", whole),
        ("dd, direct", "dd if=/dev/zero of=to bs=1M count=12 oflag=direct 2>/dev/null", whole),
        (
            "python, one write that waits for cat",
            "python3 -c 'import os; os.write(1, bytes(12582912))' | cat > to",
            whole,
        ),
        (
            "a job",
            "bash -c 'set -m; dd if=/dev/zero of=to bs=1M count=12 2>/dev/null; touch after'; rm after",
            whole,
        ),
        (
            "python, device",
            "python3 -c 'import os
zero, to = os.open(\"/dev/zero\", 0), os.open(\"to\", os.O_WRONLY | os.O_CREAT)
for _ in range(12): os.write(to, os.read(zero, 1 << 20))'",
            whole,
        ),
    ]);
    std::thread::scope(|scope| {
        for (name, script, check) in programs {
            scope.spawn(move || {
                let home = Home::new();
                let prepare =
                    "mkdir from; for i in 1 2 3; do head -c 4000000 /dev/urandom > from/$i; done; sync";
                assert!(home.command("sh").args(["-c", prepare]).status().unwrap().success());
                writes_all(&home, "5MB", name, script, check);
            });
        }
    });
}

#[test]
fn signals_that_end_nothing_free_nobody() {
    let script = r#"python3 -c '
import os, signal, threading, time
signal.signal(signal.SIGHUP, lambda *_: None)
def send():
    while True:
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.05)
threading.Thread(target=send, daemon=True).start()
time.sleep(0.3)
with open("to", "wb", 0) as to:
    for _ in range(100): to.write(bytes(100000))'"#;
    let output = limit(&Home::new(), "--json --write 5MB", script).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let said = json(&output);
    let rate = &said["rates"]["write"];
    assert!(rate["per_second"].as_f64().unwrap() <= 1.05 * 5e6 && rate["above_limit"] == 0, "{said}");
}

/// PostgreSQL's programs, where Debian has them.
fn postgres() -> Option<String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let places = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    places
        .filter(|place| place.join("initdb").exists())
        .max()
        .map(|place| place.to_string_lossy().into_owned())
}

#[test]
fn a_dump_of_a_database_is_whole() {
    let home = Home::new();
    let Some(programs) = postgres().filter(|_| std::fs::metadata("/proc/self").unwrap().uid() == 0) else {
        eprintln!("SKIPPED: PostgreSQL and root are needed: a stand-in writes into the pipe");
        let script = "python3 -c 'for i in range(600000): print(i)' | gzip -1 > to";
        return writes_all(
            &home,
            "1MB",
            "a stand-in",
            script,
            "zcat to | tail -n 1 | grep -qx 599999 && rm to",
        );
    };
    // Its server refuses root.
    let place = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    let data = place.path().to_string_lossy().into_owned();
    assert!(Command::new("chown").args(["postgres", &data]).status().unwrap().success());
    let server = |script: &str| {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh", "-ec", script]).current_dir("/").stdout(Stdio::null());
        command.stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(server(&format!(
        "{programs}/initdb -D {data}/db -A trust; \
         {programs}/pg_ctl -D {data}/db -w -o \"-k {data} -c listen_addresses=''\" start; \
         {programs}/psql -h {data} postgres -c 'create table t as select i, md5(i::text) || random() from generate_series(1, 60000) i'"
    )));
    let dump = format!("{programs}/pg_dump -h {data} -U postgres postgres");
    // Newer ones begin with a key that is drawn.
    let sum = "grep -v restrict | cksum";
    let result = std::panic::catch_unwind(|| {
        assert!(
            home.command("sh").args(["-c", &format!("{dump} | {sum} > sum")]).status().unwrap().success()
        );
        let check = format!("test \"$(zcat to | {sum})\" = \"$(cat sum)\" && rm to");
        writes_all(&home, "1MB", "pg_dump | gzip", &format!("{dump} | gzip -1 > to"), &check);
    });
    assert!(server(&format!("{programs}/pg_ctl -D {data}/db -m immediate stop")));
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_command_that_stands_still_goes_on_unharmed_after_a_kill() {
    // A program that reads a device with large blocks shows whether its call ended early: dd counts a part as a block.
    let script = "dd if=/dev/zero of=big bs=8M count=3 2>/dev/null; touch done";
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..rounds() {
                    let home = Home::new();
                    let mut ebb = limit(&home, "-q --write 4MB", script).spawn().unwrap();
                    let size = || std::fs::metadata(home.path("big")).map_or(0, |found| found.len());
                    // It owes seconds.
                    until_true("a first block", || size() >= 8 << 20);
                    std::thread::sleep(Duration::from_millis(400));
                    ebb.kill().unwrap();
                    ebb.wait().unwrap();
                    until_true("its end", || home.path("done").exists());
                    assert_eq!(size(), 24 << 20, "round {round}");
                }
            });
        }
    });
}
