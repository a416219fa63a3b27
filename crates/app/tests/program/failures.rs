//! What goes wrong under a run: said where and what, the rest goes on, nothing is left behind.

use crate::common::{EBB, Home, LONG, Loop, SHORT, count, status, stderr, tiny, tool, until_at_work};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs `text` and expects a failure whose message has all of `words`; nothing may be left behind.
fn fails(text: &str, options: &str, words: &[&str]) {
    let home = Home::new();
    home.write("x.toml", &text.replace("HOME", &home.path("").display().to_string()));
    let output = home.ebb(&format!("run x.toml {options}")).output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    for word in words {
        assert!(stderr(&output).contains(word), "{word}: {output:?}");
    }
    assert_eq!(home.files_in("volumes").len(), 0);
    let listed = home.json("list", &[0]);
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(0), "no session without a trial: {listed}");
}

/// One volume of `source` under `rw`.
fn single(source: &str, rw: &str, answer: &str) -> String {
    format!(
        "name = \"single\"\n[volumes.v]\n{source}\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
         [workloads.w]\nrw = \"{rw}\"\nbs = \"4k\"\nruntime = \"50ms\"\n[answer]\n{answer}\n"
    )
}

/// The first operations would all complete at the same virtual instant, and there would be no end of them.
#[test]
fn a_burst_that_stops_virtual_time_is_refused() {
    let home = Home::new();
    let shape = "shape = { iops = { rate = 100, burst = 1e18, credits = 1e18 } }";
    home.write("x.toml", &single(&format!("size = \"64MiB\"\n{shape}"), "randread", SHORT));
    let output = home.command("timeout").args(["60", EBB, "run", "x.toml", "--on", "sim"]).output().unwrap();
    assert_eq!(status(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("volume v: has neither latency nor limits"), "{output:?}");
}

#[test]
fn a_disk_that_is_too_small() {
    fails(&tiny("", SHORT).replace("8MiB", "4TiB"), "", &["MiB", "is free", "`size`", "directory"]);
}

/// Many volumes in three designs, each with targets of its own.
fn many(volumes: usize) -> String {
    let design = |n: usize| {
        let last = volumes - 1;
        format!("[designs.d{n}]\nlayout = \"stripe\"\nchunk = \"4KiB\"\nmembers = [\"v[0..{last}]\"]\n")
    };
    format!(
        "name = \"many\"\n[volumes.v]\ncount = {volumes}\nsize = \"64KiB\"\n{}\
         [workloads.w]\nrw = \"randread\"\nbs = \"4k\"\nnumjobs = 2\nruntime = \"20ms\"\n\
         [answer]\ntrials_min = 6\ntrials_max = 6\n",
        (0..3).map(design).collect::<String>()
    )
}

#[test]
fn many_volumes_raise_the_soft_limit_on_open_files() {
    let home = Home::new();
    home.write("many.toml", &many(64));
    let line = format!("ulimit -Sn 256; exec {EBB} run many.toml");
    let output = home.command("bash").args(["-c", &line]).output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{}", stderr(&output));
    let list = home.json("list", &[0]);
    assert_eq!(
        (count(&list["sessions"][0], "failed"), count(&list["sessions"][0], "trials")),
        (0, 24),
        "{list}"
    );
}

#[test]
fn a_hard_limit_on_open_files_that_is_too_low_is_told_with_the_number_before_anything_is_made() {
    let home = Home::new();
    home.write("many.toml", &many(64));
    let with = |limit: &str| {
        let line = format!("ulimit -n {limit}; exec {EBB} run many.toml");
        home.command("bash").args(["-c", &line]).output().unwrap()
    };
    let output = with("300");
    assert_eq!(status(&output), 1, "{output:?}");
    let said = stderr(&output);
    let needed: u64 = said.split("raise it to ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(needed > 300 && said.contains("this process may have 300"), "{said}");
    assert_eq!(home.files_in("volumes").len(), 0);
    // What it says is enough.
    let output = with(&needed.to_string());
    assert!([0, 3].contains(&status(&output)), "{}", stderr(&output));
}

#[test]
fn a_limit_on_file_sizes() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let line = format!("ulimit -f 4096; exec {EBB} run tiny.toml");
    let output = home.command("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("ulimit -f"), "{output:?}");
    assert_eq!(home.files_in("volumes").len(), 0);
}

#[test]
fn directories_that_cannot_be_used() {
    fails(&tiny("directory = \"/proc\"", SHORT), "", &["/proc"]);
    fails(&tiny("directory = \"HOMEmissing\"", SHORT), "", &["missing", "`directory`"]);
}

#[test]
fn a_store_that_cannot_be_made() {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", SHORT));
    let output = home.ebb("run tiny.toml --store /proc/store.sqlite").output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(
        stderr(&output).contains("/proc/store.sqlite") && stderr(&output).contains("--store"),
        "{output:?}"
    );
    assert_eq!(home.files_in("volumes").len(), 0);
}

#[test]
fn things_that_are_no_volumes() {
    fails(&single("file = \"/dev/full\"", "read", SHORT), "", &["/dev/full", "volume v"]);
    fails(&single("file = \"/tmp\"", "read", SHORT), "", &["/tmp", "neither"]);
    fails(&single("file = \"HOMEnone\"", "read", SHORT), "", &["none", "No such file"]);
}

#[test]
fn an_existing_file_is_overwritten_only_when_that_is_said() {
    let home = Home::new();
    let content = vec![7; 1 << 20];
    std::fs::write(home.path("mine"), &content).unwrap();
    home.write("write.toml", &single("file = \"mine\"", "randwrite", SHORT));
    home.write("read.toml", &single("file = \"mine\"", "randread", SHORT));
    let refused = home.ebb("run write.toml").output().unwrap();
    assert_eq!(status(&refused), 1);
    assert!(stderr(&refused).contains("--destroy"), "{refused:?}");
    // A mix of nothing but reads is reading.
    let mixed = std::fs::read_to_string(home.path("read.toml")).unwrap();
    let mixed = mixed.replace("\"randread\"", "\"randrw\"\nrwmixread = 100");
    home.write("mixed.toml", &mixed);
    for name in ["read.toml", "mixed.toml"] {
        let read = home.ebb(&format!("run {name}")).output().unwrap();
        assert!([0, 3].contains(&status(&read)), "{name}: {read:?}");
    }
    assert_eq!(std::fs::read(home.path("mine")).unwrap(), content);
    let written = home.ebb("run write.toml --destroy").output().unwrap();
    assert!([0, 3].contains(&status(&written)), "{written:?}");
    assert_ne!(std::fs::read(home.path("mine")).unwrap(), content);
    assert_eq!(std::fs::metadata(home.path("mine")).unwrap().len(), 1 << 20);
}

/// Starts a long run, does `harm` to a volume of the second design, waits until later trials of the first design
/// are there, and returns the session with the program's words.
fn harmed(harm: impl Fn(&Path)) -> (serde_json::Value, String) {
    let home = Home::new();
    home.write("tiny.toml", &tiny("", LONG));
    let running = home.start_until("run tiny.toml", 3);
    let victim =
        home.files_in("volumes").into_iter().find(|path| path.to_string_lossy().contains("003-v3")).unwrap();
    harm(&victim);
    let before = home.json("list", &[0])["sessions"][0]["trials"].as_u64().unwrap();
    home.until(|session| count(session, "failed") > 0 && count(session, "trials") > before + 2);
    running.signal("INT");
    let output = running.wait();
    assert_eq!(status(&output), 130, "{output:?}");
    assert_eq!(home.files_in("volumes").len(), 0);
    (home.json("show", &[0]), stderr(&output))
}

#[test]
fn a_member_that_vanishes_fails_its_trials_only() {
    let (session, words) = harmed(|path| std::fs::remove_file(path).unwrap());
    assert!(
        words.contains("right under seqread) failed: volume v3: ") && words.contains("removed"),
        "{words}"
    );
    assert!(!words.contains("left under seqread) failed"), "{words}");
    let failed: u64 = session["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["design"] == "right" && r["metric"] == "throughput")
        .filter_map(|r| r["trials_failed"].as_u64())
        .sum();
    assert!(failed > 0, "{session}");
}

#[test]
fn a_member_that_shrinks_fails_its_trials_only() {
    let (_, words) =
        harmed(|path| std::fs::File::options().write(true).open(path).unwrap().set_len(4096).unwrap());
    assert!(words.contains("right under seqread) failed: volume v3: "), "{words}");
    assert!(!words.contains("left under seqread) failed"), "{words}");
}

/// Waits until a trial has failed.
fn until_one_failed(home: &Home) {
    home.until(|session| count(session, "failed") > 0);
}

#[test]
#[ignore = "needs root for a loop device or a mount: cargo xtask root"]
fn a_device_that_returns_eio_fails_the_trial() {
    let home = Home::new();
    let backing = home.path("backing");
    std::fs::write(&backing, vec![7; 8 << 20]).unwrap();
    let disk = Loop::over(&backing);
    home.write("x.toml", &single(&format!("device = \"{}\"", disk.device), "randread", LONG));
    let running = home.start_until("run x.toml", 2);
    // The loop driver answers EIO where its file has ended.
    std::fs::File::options().write(true).open(&backing).unwrap().set_len(0).unwrap();
    until_one_failed(&home);
    running.signal("INT");
    let output = running.wait();
    assert!(stderr(&output).contains("volume v: read of"), "{output:?}");
    assert!(stderr(&output).contains("Input/output error"), "{output:?}");
}

/// Memory as a file system of 110 MiB, unmounted at the end whatever happens.
struct Mount<'a>(&'a str);

impl Mount<'_> {
    fn tmpfs(directory: &str) -> Mount<'_> {
        tool("mount", &["-t", "tmpfs", "-o", "size=110m", "none", directory]);
        Mount(directory)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
#[ignore = "needs root for a loop device or a mount: cargo xtask root"]
fn a_disk_that_fills_up_fails_the_trial() {
    let home = Home::new();
    let mount = home.path("volumes");
    let mount = mount.to_str().unwrap();
    let _mounted = Mount::tmpfs(mount);
    let directory = format!("directory = \"{mount}\"\nsize = \"8MiB\"");
    home.write("x.toml", &single(&directory, "randwrite", LONG));
    let running = home.start_until("run x.toml", 2);
    let victim = home.files_in("volumes").into_iter().find(|path| path.is_file()).unwrap();
    // Its blocks are taken away and used by somebody else, while the run is held: it would take them back at once.
    running.signal("STOP");
    tool("fallocate", &["--punch-hole", "--offset", "0", "--length", "8388608", victim.to_str().unwrap()]);
    let hog =
        Command::new("dd").args(["if=/dev/zero", &format!("of={mount}/hog"), "bs=64k"]).output().unwrap();
    running.signal("CONT");
    assert!(!hog.status.success(), "the disk is full now");
    until_one_failed(&home);
    running.signal("INT");
    let output = running.wait();
    assert!(stderr(&output).contains("No space left on device"), "{output:?}");
}

/// `nohup` and the background of a script keep a program from its end by having it ignore signals.
#[test]
fn a_signal_that_was_ignored_stays_so() {
    let line = "bench new --rw read --size 1m --runtime 1s --quiet";
    for (name, expected) in [("INT", 0), ("HUP", 0), ("TERM", 130)] {
        let home = Home::new();
        let mut command = home.command("sh");
        command.args(["-c", "trap '' INT HUP; exec \"$@\"", "sh", EBB]).args(line.split_whitespace());
        let output = signalled(&mut command, name);
        assert_eq!(status(&output), expected, "{name}: {output:?}");
    }
    for name in ["INT", "HUP", "TERM"] {
        let home = Home::new();
        assert_eq!(status(&signalled(&mut home.interruptible(line), name)), 130, "{name}");
    }
}

/// What comes of `command`, which is sent the signal `name` when it has made its file and runs.
fn signalled(command: &mut Command, name: &str) -> std::process::Output {
    use std::process::Stdio;
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_at_work(child.id(), Duration::from_millis(5));
    tool("kill", &[&format!("-{name}"), &child.id().to_string()]);
    child.wait_with_output().unwrap()
}

/// `ulimit -s` is for a program's first thread; the least that a program starts with at all is enough.
#[test]
fn a_small_stack_is_enough() {
    let home = Home::new();
    for line in ["list", "bench new --rw read --size 1m"] {
        let mut command = home.command("sh");
        command.args(["-c", "ulimit -s 128; exec \"$@\"", "sh", EBB]).args(line.split_whitespace());
        let output = command.output().unwrap();
        assert_eq!(status(&output), 0, "{line}: {output:?}");
    }
}

/// The kernel makes who opens a file wait for a lease on it for 45 seconds.
#[test]
fn a_lease_that_is_not_given_up_is_said() {
    let home = Home::new();
    let file = home.path("leased");
    std::fs::write(&file, vec![7; 1 << 20]).unwrap();
    let code = "import fcntl,os,signal,sys,time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                f=os.open(sys.argv[1], os.O_RDWR)\nfcntl.fcntl(f, 1024, fcntl.F_WRLCK)\n\
                open(sys.argv[1] + '.ready', 'w')\ntime.sleep(60)";
    let mut holder = Command::new("python3").args(["-c", code]).arg(&file).spawn().unwrap();
    let ready = home.path("leased.ready");
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let outputs = ["--rw read", "--rw write --destroy"].map(|options| {
        let line = format!("30 {EBB} bench leased --size 1m {options}");
        home.command("timeout").args(line.split_whitespace()).output().unwrap()
    });
    holder.kill().unwrap();
    holder.wait().unwrap();
    for output in outputs {
        assert_eq!(status(&output), 1, "{output:?}");
        let who = format!("(process {})", holder.id());
        assert!(
            stderr(&output).contains("holds a lease on it") && stderr(&output).contains(&who),
            "{output:?}"
        );
    }
    assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7), "it was written");
    let output = home.ebb("bench leased --size 1m --rw read").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
}

#[test]
fn a_message_is_short_however_long_the_line_is_that_it_quotes() {
    let home = Home::new();
    let long = "x".repeat(1 << 16);
    let number = "9".repeat(1 << 16);
    let before = format!("name = \"a\"\ndescription = \"{long}\" = {long}\n");
    let behind = format!("name = \"a\"\nvolumes = {{ v = {{ note = \"{long}\", sizes = 1 }} }}\n");
    let all = [
        ("a.fio", format!("[a]\nsize={number}z\n"), "bench a.fio", "a.fio:2"),
        ("b.fio", format!("{long}\n"), "bench b.fio", "write `[global]` above it"),
        ("c.fio", format!("[{long}\n"), "bench c.fio", "write `[name]`"),
        ("d.fio", format!("[a]\n{long}=1\nsize=1m\n"), "bench d.fio", "d.fio:2"),
        ("e.toml", before, "check e.toml", "e.toml:2"),
        ("f.toml", behind, "check f.toml", "sizes"),
        (
            "g.toml",
            format!("[[volume_type]]\nprovider = \"{long}\"\nid = {long}\n"),
            "catalog list --catalog g.toml",
            "g.toml",
        ),
        ("h.json", format!("{{\"InstanceTypes\": \"{long}\"}}"), "catalog import h.json", ""),
        ("i.csv", format!("1.03,2,vm,1G,{long},,,\n"), "import i.csv", ""),
        ("j.json", format!("{{\"fio version\": \"fio-3.33\", \"jobs\": \"{long}\"}}"), "import j.json", ""),
        ("k.toml", format!("capacity = \"{number}\"\n"), "plan k.toml", "k.toml:1"),
        ("l.txt", format!("Device {long}\n{long} 1 2\n"), "watch --log l.txt", ""),
        ("m", String::new(), &format!("show {}", &long[..60_000]), ""),
    ];
    for (name, text, line, wanted) in all {
        home.write(name, &text);
        let refused = home.ebb(line).output().unwrap();
        let said = crate::common::stderr(&refused);
        let name = &line[..line.len().min(40)];
        assert!(
            (1..=2).contains(&crate::common::status(&refused)),
            "{name}: {}",
            &said[..said.len().min(3000)]
        );
        assert!(said.len() < 5000, "{name}: {} bytes", said.len());
        assert!(said.contains(wanted), "{name}: {said}");
        let answer = home.ebb(line).arg("--json").output().unwrap();
        assert!(answer.stdout.len() + answer.stderr.len() < 20_000, "{name} --json: {}", answer.stdout.len());
    }
}

#[test]
fn a_limit_of_the_size_of_files_is_told_in_words() {
    let home = Home::new();
    home.write("tiny.toml", &crate::common::tiny("", crate::common::SHORT));
    let line = format!("ulimit -f 0; exec {} run tiny.toml --on sim", crate::common::EBB);
    let refused = home.command("sh").args(["-c", &line]).output().unwrap();
    assert!(
        crate::common::status(&refused) == 1 && crate::common::stderr(&refused).contains("ulimit -f"),
        "{refused:?}"
    );
    let line = format!("ulimit -f 0; exec {} catalog list >out", crate::common::EBB);
    let refused = home.command("sh").args(["-c", &line]).output().unwrap();
    assert!(
        crate::common::status(&refused) == 1 && crate::common::stderr(&refused).contains("File too large"),
        "{refused:?}"
    );
}
