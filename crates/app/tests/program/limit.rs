//! `ebb limit`: what a program may move, how it ends, and that it is awake afterwards.

use crate::common::{Home, status, stderr, until_true};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `ebb limit OPTIONS -- sh -c SCRIPT`.
fn limit(home: &Home, options: &str, script: &str) -> Command {
    let mut command = home.ebb(&format!("limit {options} -- sh -c"));
    command.arg(script);
    command
}

/// The letter of the state of a process, where there is one.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// Control groups and journals that runs have left.
fn left(home: &Home) -> Vec<String> {
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/blkio", "/sys/fs/cgroup/cpu"];
    let in_home = std::fs::read_dir(home.path("state/ebbtide/journals")).into_iter().flatten();
    let journals =
        in_home.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned());
    let mut left: Vec<String> = journals.collect();
    for run in left.clone() {
        let path = |group: &str| format!("{group}/ebbtide-{run}");
        left.extend(groups.iter().map(|group| path(group)).filter(|path| Path::new(path).exists()));
    }
    left
}

/// Writes a megabyte forty times, each in a process of its own that a shell of its own has started. A read of /dev/zero may end early where
/// signals stop it, which dd would count as a block.
const WRITES: &str = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); \
                      sh -c 'dd if=/dev/zero of=f bs=64k count=16 iflag=fullblock 2>/dev/null; :'; rm f; done";

/// Bytes for which there is no storage to see them (`/var/tmp` in memory).
fn has_storage(home: &Home) -> bool {
    let output = Command::new("stat").args(["-f", "-c", "%T"]).arg(home.path(".")).output().unwrap();
    !["tmpfs", "ramfs"].contains(&String::from_utf8(output.stdout).unwrap().trim())
}

#[test]
fn what_a_command_and_its_children_write_is_counted_and_held() {
    let home = Home::new();
    assert!(has_storage(&home), "/var/tmp is in memory: nothing that is written there is counted");
    let output = limit(&home, "--write 10MB --json", WRITES).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let said = json(&output);
    assert_eq!((&said["schema"], &said["status"]), (&"ebbtide.limit/1".into(), &0.into()));
    let write = &said["rates"]["write"];
    let (moved, seconds) = (write["moved"].as_f64().unwrap(), said["elapsed_s"].as_f64().unwrap());
    // All of it, and little more: what the file system writes of its own.
    assert!((40.0 * 1048576.0..60e6).contains(&moved), "{said}");
    // What passes between two looks of a program that is kept from looking may be more than the limit, but is not most of it.
    assert!(moved <= 10e6 * seconds + 20e6, "{said}");
    assert!(said["stops"].as_u64() > Some(0) && said["held_s"].as_f64() > Some(1.0), "{said}");
    assert_eq!(left(&home), Vec::<String>::new());
    // A limit that it never meets does not stop it.
    let output = limit(&home, "--read 100GB --json", "echo out; echo err >&2").output().unwrap();
    assert_eq!(json(&output)["stops"], 0);
    assert!(stderr(&output).contains("out\n") && stderr(&output).contains("err\n"), "{}", stderr(&output));
}

#[test]
fn the_exit_status_is_the_command_s() {
    let home = Home::new();
    for (script, expected) in [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("", 0)] {
        assert_eq!(status(&limit(&home, "-q --write 1M", script).output().unwrap()), expected, "{script}");
    }
    home.write("file", "");
    for (line, expected, words) in [
        ("limit --write 1M -- ./no-such-program", 127, "there is no such program"),
        ("limit --write 1M -- ./file", 126, "Permission denied"),
        ("limit -- true", 2, "--write"),
        ("limit --write 1M", 2, "--pid"),
        ("limit --write 1M --pid 3 -- true", 2, "cannot be used with"),
        ("limit --write 0 -- true", 2, "at least 1B"),
        ("limit --write 1M/h -- true", 2, "unknown unit"),
        ("limit --iops 0 -- true", 2, "iops"),
        ("limit --write 1M --pid 1", 2, "process 1"),
        ("limit --write 1M --pid 4294967295", 2, "there is no process 4294967295"),
    ] {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), expected, "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{line}: {}", stderr(&output));
    }
    let parent = format!("limit --write 1M --pid {}", std::process::id());
    assert!(stderr(&home.ebb(&parent).output().unwrap()).contains("has started this program"));
    assert_eq!(left(&home), Vec::<String>::new());
}

#[test]
fn signals_reach_the_command_and_what_it_leaves_goes_on() {
    let home = Home::new();
    let script = "trap 'exit 9' TERM; touch ready; while :; do sleep 0.05; done";
    let mut ebb = limit(&home, "-q --write 1M", script).spawn().unwrap();
    until_true("a trap", || home.path("ready").exists());
    signal("TERM", ebb.id());
    assert_eq!(ebb.wait().unwrap().code(), Some(9));
    let output = limit(&home, "--write 1M", "sleep 300 >/dev/null 2>&1 & echo $!").output().unwrap();
    assert_eq!(status(&output), 0);
    let sleeper: u32 = String::from_utf8(output.stdout.clone()).unwrap().trim().parse().unwrap();
    assert!(stderr(&output).contains("left 1 process running"), "{}", stderr(&output));
    until_true("its going on", || state(sleeper) == Some('S'));
    signal("KILL", sleeper);
    assert_eq!(left(&home), Vec::<String>::new());
}

/// What `--write` said of a run: moved, its burst, seconds, and the whole.
fn writes(options: &str, script: &str) -> (f64, f64, f64, Value) {
    let home = Home::new();
    let output = limit(&home, &format!("--json {options}"), script).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let said = json(&output);
    let write = &said["rates"]["write"];
    let (moved, burst) = (write["moved"].as_f64().unwrap(), write["burst"].as_f64().unwrap());
    (moved, burst, said["elapsed_s"].as_f64().unwrap(), said)
}

#[test]
fn writers_through_the_cache_stand_still_for_as_long_as_they_owe() {
    // One, and several: whatever passes while they are let run, the rest is held back.
    let one = "dd if=/dev/zero of=f bs=64k count=1600 iflag=fullblock 2>/dev/null";
    let three = "for i in 1 2 3; do dd if=/dev/zero of=f$i bs=64k count=1000 iflag=fullblock 2>/dev/null & done; wait";
    for (options, script, limit, least) in
        [("--write 20MB", one, 20e6, 104e6), ("--write 40MB", three, 40e6, 196e6)]
    {
        let (moved, burst, seconds, said) = writes(options, script);
        assert!(moved >= least, "{said}");
        let above = said["rates"]["write"]["above_limit"].as_f64().unwrap();
        assert!((above - (moved - limit * seconds).max(0.0)).abs() <= 1.0, "{said}");
        assert_eq!(said["rates"]["write"]["exceeded"], above > limit / 4.0, "{said}");
        assert!(burst >= above, "{said}");
        // Most of it was held: half of what such a run lets pass at once would end in a fraction of this.
        assert!(seconds >= least / limit / 3.0, "{said}");
    }
}

#[test]
fn what_was_held_on_its_way_into_the_cache_is_not_held_again() {
    // 180 MB at 20 MB/s are nine seconds, whether they are synced or not, or written past the cache. Held twice they are eighteen. What passes at
    // one time just before the end is held no more; on a busy machine that was 33 MB, so that there have to be far more.
    let through = "dd if=/dev/zero of=f bs=1M count=171 conv=fsync iflag=fullblock 2>/dev/null";
    let past = "dd if=/dev/zero of=g bs=1M count=171 oflag=direct iflag=fullblock 2>/dev/null";
    for (script, expected) in
        [(through.to_owned(), 9.0), (past.to_owned(), 9.0), (format!("{through}; {past}"), 18.0)]
    {
        let (moved, burst, seconds, said) = writes("--write 20MB", &script);
        assert!(moved <= 20e6 * seconds + burst + 5e6 && seconds > expected * 0.5, "{said}");
        // Where the disk is slow of itself, it is not the limit that is measured.
        let began = Instant::now();
        let home = Home::new();
        assert!(home.command("sh").args(["-c", &script]).status().unwrap().success());
        let unlimited = began.elapsed().as_secs_f64();
        assert!(seconds <= expected * 1.5 + 4.0 * unlimited, "unlimited in {unlimited} s: {said}");
    }
}

#[test]
fn calls_count_where_the_kernel_s_group_sees_nothing() {
    let home = Home::new();
    let script = "dd if=/dev/zero of=f bs=16k count=1000 iflag=fullblock 2>/dev/null";
    let output = limit(&home, "--json --iops 2000", script).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let said = json(&output);
    // A group of version 2 counts them when they are written back, which may be after the end.
    if said["kernel_limit"]["name"] != "io.max" {
        assert!(said["rates"]["iops"]["moved"].as_u64() > Some(500), "{said}");
    }
}

#[test]
fn a_stop_of_somebody_else_s_is_not_the_limit_s() {
    let home = Home::new();
    // It writes a little all the time, so also between the last look at it and the stop.
    let script =
        "touch ready; i=0; while [ $i -lt 100 ]; do echo > f$i; sleep 0.01; i=$((i+1)); done; exit 3";
    let mut command = limit(&home, "--json --write 5MB", script);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // As a key of the terminal's stops and wakes both.
    let ebb = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
    until_true("its beginning", || home.path("ready").exists());
    let both = format!("-{}", ebb.id());
    let send = |name: &str| {
        assert!(Command::new("kill").args([name, "--", &both]).status().unwrap().success());
    };
    send("-STOP");
    std::thread::sleep(Duration::from_secs(3));
    send("-CONT");
    let output = ebb.wait_with_output().unwrap();
    assert_eq!(status(&output), 3, "{}", stderr(&output));
    let said = json(&output);
    assert!(said["paused_s"].as_f64() > Some(2.0), "{said}");
    assert!(said["held_s"].as_f64() < Some(1.0), "{said}");
}

#[test]
fn two_limits_of_one_program_are_refused() {
    let home = Home::new();
    // Whatever environment the inner one has.
    let inner = |rest: &str| format!("env -i HOME=$HOME {} limit --write 20M {rest}", crate::common::EBB);
    let output = limit(&home, "-q --write 5M", &inner("-- true")).output().unwrap();
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("is an `ebb limit` that holds") && said.contains("in one command"), "{said}");

    let other = start("sleep 300 & wait");
    let pid = other.0.id();
    let mut ebb = home.interruptible(&format!("limit -q --write 1M --pid {pid}")).spawn().unwrap();
    let tries = |pid: u32| {
        let output = home.ebb(&format!("limit -q --write 2M --pid {pid}")).output().unwrap();
        (status(&output), stderr(&output))
    };
    let shown = format!("limit-guardian\0{}\0{pid}\0", ebb.id());
    until_true("its guardian", || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|line| line.contains(&shown))
        })
    });
    let below = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let below: u32 = below.split_whitespace().next().unwrap().parse().unwrap();
    for pid in [pid, below, ebb.id()] {
        let (status, said) = tries(pid);
        assert!(status == 2 && said.contains("an `ebb limit`"), "{pid}: {said}");
    }
    // Another program is nobody's, and what a killed one held is free.
    let output = limit(&home, "-q --write 2M", "exit 4").output().unwrap();
    assert_eq!(status(&output), 4, "{}", stderr(&output));
    ebb.kill().unwrap();
    ebb.wait().unwrap();
    let mut ebb = home.interruptible(&format!("limit -q --write 1M --pid {below}")).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal("TERM", below);
    assert_eq!(ebb.wait().unwrap().code(), Some(0));
}

#[test]
fn a_stranger_forbids_nothing() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: only root can act as another user");
        return;
    }
    let home = Home::new();
    let mut other = start("sleep 300 & wait");
    let pid = other.0.id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let began = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().to_owned();
    // Who has the arguments of a guardian, and is another user.
    let claim = |user: &str| {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups", "sh", "-c", "sleep 300; :", "ebb"]);
        command.args(["limit-guardian", &std::process::id().to_string(), &pid.to_string(), &began]);
        let claims = Other(command.spawn().unwrap());
        let file = format!("/proc/{}/comm", claims.0.id());
        until_true("its beginning", || std::fs::read_to_string(&file).unwrap() == "sh\n");
        claims
    };
    let tries = || {
        let mut ebb = home.interruptible(&format!("limit --write 2M --pid {pid}"));
        ebb.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let believed = claim("0");
    let output = tries().wait_with_output().unwrap();
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    drop(believed);
    let _stranger = claim("65534");
    // And who has a name that an earlier version looked for.
    let socket = std::os::unix::net::SocketAddr::from_abstract_name(format!("ebbtide-limit/1/{pid}/{began}"));
    let _socket = std::os::unix::net::UnixDatagram::bind_addr(&socket.unwrap()).unwrap();
    let ebb = tries();
    std::thread::sleep(Duration::from_millis(500));
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    let output = ebb.wait_with_output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    // Signals stop a process that runs already, and what that may do is said.
    assert!(stderr(&output).contains("iflag=fullblock"), "{}", stderr(&output));
}

/// How often each program is tried: `EBB_TEST_ROUNDS`.
fn rounds() -> u32 {
    std::env::var("EBB_TEST_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap())
}

/// A terminal that nobody told its size has 0 columns: the line is as on one of 80.
#[test]
fn a_terminal_of_no_columns_has_the_whole_line() {
    let home = Home::new();
    let ebb = crate::common::EBB;
    // Until the line is there, or for long.
    let inner = "i=0; while [ ! -e seen ] && [ $i -lt 900 ]; do sleep 0.1; i=$((i + 1)); done";
    home.write("inner", inner);
    let run = format!("stty rows 0 cols 0; exec {ebb} limit --write 1M -- sh inner");
    let mut child = home.on_a_terminal(&run).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut said, mut chunk) = (String::new(), [0; 4096]);
    let output = child.stdout.as_mut().unwrap();
    loop {
        let read = output.read(&mut chunk).unwrap();
        if read == 0 {
            break;
        }
        said.push_str(&String::from_utf8_lossy(&chunk[..read]));
        if said.contains("\x1b[K") && said.contains("| ") {
            home.write("seen", "");
        }
    }
    child.wait().unwrap();
    assert!(home.path("seen").exists(), "{said:?}");
}

/// Runs `script` under a limit as often as is asked for; `check` is a shell's command that is true when every byte is there.
fn writes_all(home: &Home, rate: &str, name: &str, script: &str, check: &str) {
    let mut stops = 0;
    for round in 0..rounds() {
        let output = limit(home, &format!("--json --write {rate}"), script).output().unwrap();
        assert_eq!(status(&output), 0, "{name}, round {round}: {}", stderr(&output));
        stops += json(&output)["stops"].as_u64().unwrap();
        let checked = home.command("sh").args(["-c", check]).output().unwrap();
        assert!(checked.status.success(), "{name}, round {round}: {checked:?} {}", stderr(&output));
    }
    eprintln!("{name}: {} rounds, {stops} stops", rounds());
    assert!(stops > 0, "{name} was never stopped");
}

#[test]
fn programs_write_every_byte() {
    let home = Home::new();
    let prepare = "mkdir from; for i in 1 2 3; do head -c 4000000 /dev/urandom > from/$i; done; sync";
    assert!(home.command("sh").args(["-c", prepare]).status().unwrap().success());
    let same = "diff -r from to && rm -rf to";
    let all = |name: &str, script: &str, check: &str| writes_all(&home, "20MB", name, script, check);
    all("cp", "cp -r from to", same);
    all("tar", "mkdir to && tar cf - from | tar xf - --strip-components=1 -C to", same);
    match Command::new("rsync").arg("--version").output() {
        Ok(_) => all("rsync", "rsync -a from/ to", same),
        Err(error) => eprintln!("SKIPPED: rsync: {error}"),
    }
    all(
        "python, pipe",
        "cat from/* | python3 -c 'import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, open(\"to\", \"wb\"))'",
        "cat from/* | cmp - to && rm to",
    );
    let output = limit(&home, "--json --write 40MB", "true").output().unwrap();
    let said = json(&output);
    if said["stopped_by"] != "processor" {
        assert!(stderr(&output).contains("iflag=fullblock"), "{}", stderr(&output));
        eprintln!("SKIPPED: programs that take short reads for whole ones: {}", said["why"]);
        return;
    }
    let whole = "test $(stat -c %s to) = 12582912 && rm to";
    all("dd", "dd if=/dev/zero of=to bs=1M count=12 2>/dev/null", whole);
    all("dd, random", "dd if=/dev/urandom of=to bs=1M count=12 2>/dev/null", whole);
    all("dd, direct", "dd if=/dev/zero of=to bs=1M count=12 oflag=direct 2>/dev/null", whole);
    all(
        "python, device",
        "python3 -c 'import os
zero, to = os.open(\"/dev/zero\", 0), os.open(\"to\", os.O_WRONLY | os.O_CREAT)
for _ in range(12): os.write(to, os.read(zero, 1 << 20))'",
        whole,
    );
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
        let script = "python3 -c 'for i in range(1500000): print(i)' | gzip -1 > to";
        return writes_all(
            &home,
            "1MB",
            "a stand-in",
            script,
            "zcat to | tail -n 1 | grep -qx 1499999 && rm to",
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
         {programs}/psql -h {data} postgres -c 'create table t as select i, md5(i::text) || random() from generate_series(1, 150000) i'"
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

/// A program that writes for as long as it is let, and notes when it has written all.
fn writer(home: &Home) -> String {
    let place = home.path(".");
    format!(
        "cd {}; dd if=/dev/zero of=big bs=64k count=960 iflag=fullblock 2>/dev/null; touch done",
        place.display()
    )
}

#[test]
fn a_command_is_awake_after_a_kill() {
    let home = Home::new();
    let mut ebb = limit(&home, "-q --write 1MB", &writer(&home)).spawn().unwrap();
    until_true("a first write", || std::fs::metadata(home.path("big")).is_ok_and(|found| found.len() > 0));
    std::thread::sleep(Duration::from_millis(300));
    ebb.kill().unwrap();
    ebb.wait().unwrap();
    until_true("its end", || home.path("done").exists());
    let cleanup = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&cleanup), 0, "{}", stderr(&cleanup));
    assert_eq!(left(&home), Vec::<String>::new());
}

/// A process that is another's: ended when a test is over.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(script: &str) -> Other {
    Other(Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_process_is_awake_after_a_kill_and_after_its_release() {
    let home = Home::new();
    let mut other = start(&format!("sleep 0.3; {}", writer(&home)));
    let held = |name: &str| {
        let mut command = home.interruptible(&format!("limit -q --write 1MB --pid {name}"));
        command.spawn().unwrap()
    };
    let pid = other.0.id().to_string();
    let mut ebb = held(&pid);
    // Either of the two may be seen standing still: the shell, or dd.
    until_true("a stop", || state(other.0.id()) == Some('T'));
    ebb.kill().unwrap();
    ebb.wait().unwrap();
    until_true("its end", || home.path("done").exists());
    assert_eq!(other.0.wait().unwrap().code(), Some(0));

    let mut other =
        start("while :; do dd if=/dev/zero of=/var/tmp/$$ bs=64k count=64 2>/dev/null; rm /var/tmp/$$; done");
    let pid = other.0.id().to_string();
    let mut ebb = held(&pid);
    until_true("a stop", || state(other.0.id()) == Some('T'));
    signal("INT", ebb.id());
    assert_eq!(ebb.wait().unwrap().code(), Some(130));
    until_true("its going on", || state(other.0.id()).is_some_and(|state| state != 'T'));
    // One that ends ends the limit.
    let mut ebb = held(&pid);
    until_true("a stop", || state(other.0.id()) == Some('T'));
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    assert_eq!(ebb.wait().unwrap().code(), Some(0));
    let _ = std::fs::remove_file(format!("/var/tmp/{pid}"));
}

#[test]
fn a_network_reader_is_held() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let block = vec![0; 64 << 10];
        // As much as is taken for three seconds: a limit that held nothing would let gigabytes pass.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(3);
        while std::time::Instant::now() < until {
            if stream.write_all(&block).is_err() {
                return;
            }
        }
    });
    // Bash reads from the network by itself.
    let mut command = home.ebb("limit --net 10MB --json -- bash -c");
    let output = command.arg(format!("exec cat </dev/tcp/127.0.0.1/{port} >/dev/null")).output().unwrap();
    server.join().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let said = json(&output);
    let moved = said["rates"]["net"]["moved"].as_f64().unwrap();
    // The ends of a connection count as bytes too; what a closed one moved after the last look is not seen.
    assert!(moved >= 1e6, "{said}");
    // A busy machine wakes it in time and stops it late; without stops it would take gigabytes.
    assert!(moved <= 600e6, "{said}");
    assert!(said["stops"].as_u64() > Some(0), "{said}");
}

#[test]
fn a_terminal_s_keys_reach_the_command() {
    // `script` gives it a terminal of its own, where the two are in the foreground together; a shell that waited for them
    // would be ended by the key too.
    let home = Home::new();
    // Where the tests run in the background the key's signal is ignored from the start, and no shell could trap it.
    let mut command = home.command("env");
    command.env("SHELL", "/bin/sh");
    command.args([
        "--default-signal=INT,QUIT",
        "script",
        "-qec",
        &format!(
            "exec {} limit --write 1M -- sh -c 'trap \"exit 5\" INT; echo ready; while :; do sleep 0.05; done'",
            crate::common::EBB
        ),
    ]);
    let mut child = command.arg("/dev/null").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&seen).contains("ready") {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
}
