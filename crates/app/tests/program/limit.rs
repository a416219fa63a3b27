//! `ebb limit`: what a program may move, how it ends, and that it is awake afterwards.

mod whole;

use crate::common::{Home, status, stderr, until_true};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
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

/// Waits until somebody traces it.
fn until_traced(pid: u32) {
    let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    until_true("its tracer", || !status().contains("TracerPid:\t0\n"));
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// Writes a megabyte twenty times, each in a process of its own that a shell of its own has started.
const WRITES: &str = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); \
                      sh -c 'dd if=/dev/zero of=f bs=64k count=16 2>/dev/null; :'; rm f; done";

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
    assert!((20.0 * 1048576.0..40e6).contains(&moved), "{said}");
    // It was held, or it is said that it was not: on a busy machine all of it may pass before the first look, or slowly enough.
    assert!(moved <= 10e6 * (seconds + 0.3) || write["exceeded"] == true, "{said}");
    // Its own pace may lie just below the limit.
    let was_slow = write["per_second"].as_f64() < Some(10e6);
    assert!(said["stops"].as_u64() > Some(0) || write["exceeded"] == true || was_slow, "{said}");
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
        ("limit --write 1M --pid 1", 2, "process 1"),
        ("limit --write 1M --pid 4294967295", 2, "there is no process 4294967295"),
    ] {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), expected, "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{line}: {}", stderr(&output));
    }
    let parent = format!("limit --write 1M --pid {}", std::process::id());
    assert!(stderr(&home.ebb(&parent).output().unwrap()).contains("has started it"));
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
}

#[test]
fn writers_through_the_cache_stand_still_for_as_long_as_they_owe() {
    // One, and several: what passes while they are let run is held back later, or said.
    let one = "dd if=/dev/zero of=f bs=64k count=480 2>/dev/null";
    let three = "for i in 1 2 3; do dd if=/dev/zero of=f$i bs=64k count=320 2>/dev/null & done; wait";
    std::thread::scope(|scope| {
        for (script, limit, least) in [(one, 10e6, 31e6), (three, 20e6, 62e6)] {
            scope.spawn(move || {
                let (home, began) = (Home::new(), Instant::now());
                let output = limit_to(&home, limit, script).output().unwrap();
                let seconds = began.elapsed().as_secs_f64();
                assert_eq!(status(&output), 0, "{}", stderr(&output));
                let said = json(&output);
                let write = &said["rates"]["write"];
                let (moved, above) =
                    (write["moved"].as_f64().unwrap(), write["above_limit"].as_f64().unwrap());
                assert!(moved >= least && moved <= limit * (seconds + 0.3) + above, "{seconds} s: {said}");
                assert_eq!(write["exceeded"], above > 0.0, "{said}");
                assert_eq!(stderr(&output).contains("above its limit"), above > 0.0, "{}", stderr(&output));
            });
        }
    });
}

fn limit_to(home: &Home, rate: f64, script: &str) -> Command {
    limit(home, &format!("--json --write {rate}"), script)
}

#[test]
fn a_command_goes_on_after_a_stop_of_both() {
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
    std::thread::sleep(Duration::from_millis(300));
    send("-CONT");
    let output = ebb.wait_with_output().unwrap();
    assert_eq!(status(&output), 3, "{}", stderr(&output));
}

#[test]
fn what_a_host_lacks_is_said_before_anything_is_started() {
    let home = Home::new();
    let ebb = crate::common::EBB;
    let of = |script: String| {
        let output = home.command("sh").args(["-c", &script]).output().unwrap();
        assert!(!home.path("begun").exists(), "{script}: {}", stderr(&output));
        (status(&output), stderr(&output))
    };
    let line = format!("{ebb} limit --write 5MB -- touch begun");
    let (status, said) = of(format!("ulimit -n 6; exec {line}"));
    assert!(status == 1 && said.contains("Too many open files"), "{said}");
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: PID namespaces and limits of another user's processes, which need root");
    }
    let (status, said) = of(format!("unshare -pf {line}"));
    assert!(status == 1 && said.contains("mount -t proc"), "{said}");
    // Everybody may run what is below /var/tmp, where this user has one process and no thread more.
    let (status, said) = of(format!(
        "cp {ebb} ebb; chmod 755 . ebb; exec setpriv --reuid=64123 --regid=64123 --clear-groups prlimit --nproc=1 ./ebb limit --write 5MB -- true"
    ));
    assert!(status == 1 && said.contains("cannot start a thread"), "{said}");
}

#[test]
fn a_blocked_sigchld_delays_no_stop() {
    let home = Home::new();
    // As a supervisor that reads its signals from a file starts its programs. Each of its 2,000 calls would wait for a look.
    let script = "import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
os.execv(sys.argv[1], sys.argv[1:])";
    let dd = ["dd", "if=/dev/zero", "of=f", "bs=64k", "count=1000"];
    let mut command = home.command("python3");
    command.args(["-c", script, crate::common::EBB, "limit", "--json", "--write", "10GB", "--"]).args(dd);
    let output = command.output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let said = json(&output);
    assert!(said["elapsed_s"].as_f64() < Some(60.0), "{said}");
}

#[test]
fn a_second_tracer_is_refused() {
    let home = Home::new();
    let inner = format!("exec {} limit --write 20MB -- true", crate::common::EBB);
    let output = limit(&home, "--write 5MB", &inner).output().unwrap();
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("(ebb) traces it already"), "{}", stderr(&output));
    let mut other = start("while :; do sleep 0.05; done");
    let line = format!("limit -q --write 1MB --pid {}", other.0.id());
    let mut first = home.interruptible(&line).spawn().unwrap();
    let is_traced = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", other.0.id())).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    until_traced(other.0.id());
    let output = home.ebb(&line).output().unwrap();
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("(ebb) traces it already"), "{}", stderr(&output));
    signal("INT", first.id());
    assert_eq!(first.wait().unwrap().code(), Some(130));
    until_true("its going on alone", || !is_traced());
    other.0.kill().unwrap();
}

#[test]
fn a_job_of_a_shell_s_sees_no_stop() {
    let home = Home::new();
    // The command of an interactive shell is held, and the shell waits for its end.
    let Ok(shell) = home.on_a_terminal("exec bash -i").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    else {
        return eprintln!("SKIPPED: script");
    };
    let mut shell = Other(shell);
    let line = "sh -c 'echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; head -c 3000000 /dev/zero >f; touch whole'; test -e whole && touch after\n";
    shell.0.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    let pid = || std::fs::read_to_string(home.path("pid")).unwrap_or_default();
    until_true("its beginning", || pid().ends_with('\n'));
    let ebb = home.ebb(&format!("limit --write 1MB --pid {}", pid().trim()));
    let ebb = { ebb }.stderr(Stdio::piped()).spawn().unwrap();
    until_traced(pid().trim().parse().unwrap());
    home.write("go", "");
    let output = ebb.wait_with_output().unwrap();
    assert!(status(&output) == 0 && stderr(&output).contains("held back"), "{}", stderr(&output));
    until_true("the next command", || home.path("after").exists());
    assert_eq!(std::fs::metadata(home.path("f")).unwrap().len(), 3_000_000);
}

/// As `su`, `script` and `nsenter` do: a parent that waits for stops of its child.
const WAITS_FOR_STOPS: &str = "import os, sys, time
child = os.fork()
if child == 0:
    open('child', 'w').write(str(os.getpid()) + '\\n')
    while not os.path.exists('go'): time.sleep(0.05)
    for _ in range(60):
        os.write(os.open('f', os.O_WRONLY | os.O_CREAT | os.O_APPEND), bytes(131072))
    os._exit(5)
_, status = os.waitpid(child, os.WUNTRACED)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 77)
";

#[test]
fn no_parent_sees_a_stop() {
    // The whole of it, and its child alone, which has it above.
    for is_whole in [true, false] {
        let home = Home::new();
        home.write("waits.py", WAITS_FOR_STOPS);
        let mut other = start(&format!("cd {}; exec python3 waits.py", home.path(".").display()));
        let child = || std::fs::read_to_string(home.path("child")).unwrap_or_default();
        until_true("a child", || child().ends_with('\n'));
        let pid = if is_whole { other.0.id().to_string() } else { child().trim().to_owned() };
        let mut ebb = home.interruptible(&format!("limit --json --write 3MB --pid {pid}"));
        let ebb = ebb.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until_traced(pid.parse().unwrap());
        home.write("go", "");
        assert_eq!(other.0.wait().unwrap().code(), Some(5), "whole: {is_whole}");
        let output = ebb.wait_with_output().unwrap();
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert!(json(&output)["stops"].as_u64() > Some(0), "{output:?}");
    }
}

/// What `command` moved under a limit that it does not meet.
fn written(home: &Home, script: &str) -> u64 {
    let output = limit(home, "--json --write 10GB", script).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    json(&output)["rates"]["write"]["moved"].as_u64().unwrap()
}

#[test]
fn children_that_nobody_waits_for_are_counted() {
    let home = Home::new();
    // With what the file system writes of its own.
    let three = (3 << 20)..(4 << 20);
    let ignores = "python3 -c 'import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for i in range(3):
    if os.fork() == 0:
        os.write(os.open(\"f%d\" % i, os.O_WRONLY | os.O_CREAT), bytes(1 << 20))
        os._exit(0)
try: os.wait()
except ChildProcessError: pass'";
    let written_by = written(&home, ignores);
    assert!(three.contains(&written_by), "{written_by}");
    let threads = "python3 -c 'import os, threading
def writes(i): os.write(os.open(\"g%d\" % i, os.O_WRONLY | os.O_CREAT), bytes(1 << 20))
all = [threading.Thread(target=writes, args=(i,)) for i in range(3)]
for thread in all: thread.start()
for thread in all: thread.join()
os.execvp(\"true\", [\"true\"])'";
    let written_by = written(&home, threads);
    assert!(three.contains(&written_by), "{written_by}");
}

#[test]
fn a_process_whose_first_thread_has_ended_is_held() {
    let home = Home::new();
    let script = "import ctypes, os, platform, threading, time
def works():
    while not os.path.exists('go'): time.sleep(0.05)
    os.write(os.open('f', os.O_WRONLY | os.O_CREAT), bytes(1 << 20))
    os.write(os.open('f', os.O_WRONLY | os.O_CREAT | os.O_TRUNC), bytes(1 << 20))
    os._exit(6)
threading.Thread(target=works).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)
";
    home.write("thread.py", script);
    let mut other = start(&format!("cd {}; exec python3 thread.py", home.path(".").display()));
    until_true("the end of a thread", || state(other.0.id()) == Some('Z'));
    let mut ebb = home.ebb(&format!("limit --json --write 1MB --pid {}", other.0.id()));
    let ebb = ebb.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its first thread has none: it has ended.
    let tasks = || std::fs::read_dir(format!("/proc/{}/task", other.0.id())).unwrap();
    let second = tasks().filter_map(|task| task.unwrap().file_name().to_str()?.parse().ok());
    until_traced(second.max().unwrap());
    home.write("go", "");
    assert_eq!(other.0.wait().unwrap().code(), Some(6));
    let output = ebb.wait_with_output().unwrap();
    assert!(json(&output)["rates"]["write"]["moved"].as_u64() >= Some(1 << 20), "{output:?}");
}

#[test]
fn a_signal_reaches_a_program_that_stands_still() {
    let home = Home::new();
    // A debt of minutes; the signal is not ebb's.
    let script = "exec python3 -c '
import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
open(\"pid\", \"w\").write(str(os.getpid()) + \"\\n\")
os.write(os.open(\"f\", os.O_WRONLY | os.O_CREAT), bytes(50000000))
while True: os.write(os.open(\"g\", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), bytes(1))'";
    let mut ebb = limit(&home, "-q --write 100kB", script).spawn().unwrap();
    let pid = || std::fs::read_to_string(home.path("pid")).unwrap_or_default();
    until_true("its beginning", || pid().ends_with('\n'));
    until_true("a debt", || std::fs::metadata(home.path("f")).is_ok_and(|file| file.len() == 50_000_000));
    signal("TERM", pid().trim().parse().unwrap());
    assert_eq!(ebb.wait().unwrap().code(), Some(9));
}

#[test]
fn a_debugger_within_is_refused_and_says_so() {
    let home = Home::new();
    if Command::new("strace").arg("-V").output().is_err() {
        return eprintln!("SKIPPED: strace");
    }
    let output = limit(&home, "--write 5MB", "exec strace -f -o /dev/null true").output().unwrap();
    assert_ne!(status(&output), 0);
    assert!(stderr(&output).contains("not permitted"), "{}", stderr(&output));
}

#[test]
fn the_status_counts_more_than_who_reads_the_summary() {
    let home = Home::new();
    for to in [">/dev/full", ">&-"] {
        let line = format!("exec {} limit --json --write 5MB -- sh -c 'exit 9' {to}", crate::common::EBB);
        let output = home.command("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(status(&output), 9, "{to}: {}", stderr(&output));
    }
}

/// A program that writes until it is told that it is enough, and then notes that it has ended.
fn writer(home: &Home) -> String {
    let write = "dd if=/dev/zero of=big bs=64k count=32 2>/dev/null";
    format!("cd {}; while [ ! -e enough ]; do {write}; done; touch done", home.path(".").display())
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
    Other(Command::new("setsid").args(["sh", "-c", script]).stdout(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_process_is_awake_after_a_kill_and_after_its_release() {
    let home = Home::new();
    let mut other = start(&writer(&home));
    let held = |name: &str| {
        let mut command = home.interruptible(&format!("limit -q --write 1MB --pid {name}"));
        command.spawn().unwrap()
    };
    let pid = other.0.id().to_string();
    let mut ebb = held(&pid);
    // Either of the two may be seen standing still: the shell, or dd.
    until_true("a stop", || state(other.0.id()) == Some('t'));
    ebb.kill().unwrap();
    ebb.wait().unwrap();
    home.write("enough", "");
    until_true("its end", || home.path("done").exists());
    assert_eq!(other.0.wait().unwrap().code(), Some(0));

    let mut other =
        start("while :; do dd if=/dev/zero of=/var/tmp/$$ bs=64k count=64 2>/dev/null; rm /var/tmp/$$; done");
    let pid = other.0.id().to_string();
    let mut ebb = held(&pid);
    until_true("a stop", || state(other.0.id()) == Some('t'));
    signal("INT", ebb.id());
    assert_eq!(ebb.wait().unwrap().code(), Some(130));
    until_true("its going on", || state(other.0.id()).is_some_and(|state| state != 't'));
    // One that ends ends the limit.
    let mut ebb = held(&pid);
    until_true("a stop", || state(other.0.id()) == Some('t'));
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    assert_eq!(ebb.wait().unwrap().code(), Some(0));
    let _ = std::fs::remove_file(format!("/var/tmp/{pid}"));
}

#[test]
fn what_others_started_is_left_alone() {
    let home = Home::new();
    // As a script that ends with `exec ebb limit`: what it started before is not the program's.
    let line =
        "sleep 300 >/dev/null 2>&1 & echo $! >stranger; exec \"$0\" limit --json --write 5MB -- sh -c \"$1\"";
    let output = home.command("sh").args(["-c", line, crate::common::EBB, WRITES]).output().unwrap();
    let stranger = std::fs::read_to_string(home.path("stranger")).unwrap().trim().parse().unwrap();
    signal("KILL", stranger);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(!stderr(&output).contains("running"), "{}", stderr(&output));
}

#[test]
fn a_parent_that_somebody_stopped_stays_stopped() {
    let home = Home::new();
    let script =
        "echo $$ >child; while [ ! -e enough ]; do dd if=/dev/zero of=f bs=64k count=32 2>/dev/null; done";
    let line = format!("cd {}; sh -c '{script}'; touch done", home.path(".").display());
    let mut parent = start(&line);
    let child = || std::fs::read_to_string(home.path("child")).unwrap_or_default();
    until_true("a child", || child().ends_with('\n'));
    let pid: u32 = child().trim().parse().unwrap();
    let mut ebb = home.interruptible(&format!("limit -q --write 1MB --pid {pid}")).spawn().unwrap();
    until_true("a stop", || state(pid) == Some('t'));
    signal("STOP", parent.0.id());
    for _ in 0..2 {
        until_true("its going on", || state(pid) != Some('t'));
        until_true("a stop", || state(pid) == Some('t'));
    }
    assert_eq!(state(parent.0.id()), Some('T'));
    home.write("enough", "");
    assert_eq!(ebb.wait().unwrap().code(), Some(0));
    assert_eq!(state(parent.0.id()), Some('T'));
    signal("CONT", parent.0.id());
    until_true("its end", || home.path("done").exists());
    parent.0.wait().unwrap();
}

/// A writer that has more children than descriptors.
const MANY: &str = "import os, time
for _ in range(80):
    if os.fork() == 0:
        while not os.path.exists('enough'): time.sleep(0.2)
        os._exit(0)
open('writer', 'w')
while not os.path.exists('enough'): open('f', 'wb').write(bytes(1 << 20))
for _ in range(80): os.wait()
";

#[test]
fn more_processes_than_descriptors_are_held() {
    let home = Home::new();
    home.write("many.py", MANY);
    let mut other = start(&format!("cd {}; exec python3 many.py", home.path(".").display()));
    until_true("a writer", || home.path("writer").exists());
    let line =
        format!("ulimit -n 64; exec {} limit -q --write 1MB --pid {}", crate::common::EBB, other.0.id());
    let mut ebb = home.command("sh").args(["-c", &line]).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", other.0.id());
    let children = std::fs::read_to_string(children).unwrap();
    let last = children.split_whitespace().last().unwrap().parse().unwrap();
    until_true("a stop of the last one", || state(last) == Some('t'));
    home.write("enough", "");
    assert_eq!(other.0.wait().unwrap().code(), Some(0));
    assert_eq!(ebb.wait().unwrap().code(), Some(0));
}

#[test]
fn a_realtime_program_is_held() {
    let home = Home::new();
    let line =
        "echo $$ >pid; while [ ! -e enough ]; do dd if=/dev/zero of=f bs=64k count=32 2>/dev/null; done";
    let chrt = Command::new("chrt").args(["-f", "1", "true"]).stderr(Stdio::null()).status();
    if !chrt.is_ok_and(|done| done.success()) {
        return eprintln!("SKIPPED: chrt -f");
    }
    let mut ebb = limit(&home, "-q --write 1MB", &format!("exec chrt -f 1 sh -c '{line}'")).spawn().unwrap();
    let pid = || std::fs::read_to_string(home.path("pid")).unwrap_or_default();
    until_true("its beginning", || pid().ends_with('\n'));
    until_true("a stop", || state(pid().trim().parse().unwrap()) == Some('t'));
    home.write("enough", "");
    assert_eq!(ebb.wait().unwrap().code(), Some(0));
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
