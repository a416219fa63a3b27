//! Verdicts on real I/O: each cause is made, and must be named; the same set-up without it must not be.
//!
//! Volumes whose speeds come from shapes are on a disk of their own. All others are on the disk of /var/tmp, which must not be memory.
//! Somebody else may be at work there: a run beside a competing writer is judged by whether that writer is named.
use crate::common::{EBB, Home};
use crate::one_at_a_time;
use serde_json::Value;
use std::process::{Child, Stdio};

/// An experiment of three short rounds of one design.
fn experiment(volumes: &str, layout: &str, workload: &str, answer: &str) -> String {
    format!(
        "name = \"verdict\"\n{volumes}\n[designs.array]\n{layout}\n[workloads.w]\nrw = \"randread\"\n{workload}\n\
         [answer]\nlevel = 0.75\ntrials_min = 3\ntrials_max = 3\nbudget = \"30s\"\n{answer}\n"
    )
}

/// The verdicts of a run, strongest first.
struct Verdicts(Vec<Value>);

impl Verdicts {
    /// Of volumes that are held to the speeds of their shapes.
    fn of(text: &str) -> Verdicts {
        let _alone = one_at_a_time();
        Verdicts::beside(&Home::on_its_own_disk(), text)
    }

    /// Of volumes that are as fast as the disk of /var/tmp.
    fn on_the_disk(text: &str) -> Verdicts {
        let _alone = one_at_a_time();
        Verdicts::beside(&Home::new(), text)
    }

    /// Whoever calls this holds the lock.
    fn beside(home: &Home, text: &str) -> Verdicts {
        home.write("verdict.toml", text);
        // Three rounds seldom make a narrow interval: inconclusive is as good an end as any here.
        let ran = home.json("run verdict.toml --seed 7 -q", &[0, 3]);
        assert_eq!(ran["results"][0]["trials"], 3, "{ran}");
        Verdicts(ran["results"][0]["verdicts"].as_array().unwrap().clone())
    }

    fn get(&self, kind: &str) -> Option<&Value> {
        self.0.iter().find(|verdict| verdict["kind"] == kind)
    }

    #[track_caller]
    fn must(&self, kind: &str) -> &Value {
        self.get(kind).unwrap_or_else(|| panic!("no {kind} in {:#?}", self.0))
    }

    #[track_caller]
    fn must_not(&self, kind: &str) {
        assert!(self.get(kind).is_none(), "{kind} in {:#?}", self.0);
    }
}

/// The figure of a piece of evidence whose description begins with `what`.
#[track_caller]
fn figure(verdict: &Value, what: &str) -> f64 {
    let evidence = verdict["evidence"].as_array().unwrap();
    let found = evidence.iter().find(|e| e["what"].as_str().is_some_and(|text| text.starts_with(what)));
    found.unwrap_or_else(|| panic!("no {what} in {verdict:#}"))["value"].as_f64().unwrap()
}

fn eight(latency_of_the_last: &str) -> String {
    experiment(
        &format!(
            "[volumes.good]\ncount = 7\nsize = \"4MiB\"\nshape = {{ iops = 1000, latency = \"2ms\" }}\n\
             [volumes.last]\nsize = \"4MiB\"\nshape = {{ iops = 1000, latency = \"{latency_of_the_last}\" }}"
        ),
        "layout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"good[0..6]\", \"last\"]",
        "iodepth = 16\nruntime = \"500ms\"",
        "",
    )
}

#[test]
fn one_slow_volume_among_eight_is_the_member() {
    let slow = Verdicts::of(&eight("20ms"));
    let sentence = slow.must("member")["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("last answers in "), "{sentence}");
    Verdicts::of(&eight("2ms")).must_not("member");
}

#[test]
fn two_files_on_one_disk_share_the_device() {
    let two = |shape: &str| {
        experiment(
            &format!("[volumes.v]\ncount = 2\nsize = \"8MiB\"\n{shape}"),
            "layout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v[0..1]\"]",
            "iodepth = 8\nruntime = \"300ms\"",
            "",
        )
    };
    let shared = Verdicts::on_the_disk(&two(""));
    assert_eq!(figure(shared.must("shared-device"), "working members on "), 2.0);
    // Each held to a speed of its own, they no longer have the disk's between them.
    Verdicts::of(&two("shape = { iops = 500, latency = \"1ms\" }")).must_not("shared-device");
}

#[test]
fn a_run_inside_the_page_cache_is_the_cache() {
    let one = |direct: bool| {
        experiment(
            "[volumes.v]\nsize = \"8MiB\"",
            "layout = \"linear\"\nmembers = [\"v\"]",
            &format!("span = \"4MiB\"\niodepth = 4\ndirect = {direct}\nruntime = \"300ms\""),
            "",
        )
    };
    Verdicts::on_the_disk(&one(false)).must("cache");
    Verdicts::on_the_disk(&one(true)).must_not("cache");
}

/// The reads take some 20 ms. Before each of their trials what the one before has written goes to the disk, and the
/// cached pages are dropped: that is none of their doing, and the disk answers all of them.
#[test]
fn short_reads_after_buffered_writes_are_not_the_cache() {
    let text = "name = \"verdict\"\n[volumes.v]\nsize = \"64MiB\"\n\
                [designs.array]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
                [workloads.seqbuf]\nrw = \"read\"\nbs = \"128k\"\ndirect = false\nsize = \"64MiB\"\n\
                [workloads.bufwrite]\nrw = \"write\"\nbs = \"128k\"\ndirect = false\nruntime = \"300ms\"\n\
                [answer]\nlevel = 0.75\ntrials_min = 3\ntrials_max = 3\nbudget = \"30s\"\n";
    let _alone = one_at_a_time();
    let home = Home::new();
    home.write("verdict.toml", text);
    let ran = home.json("run verdict.toml --seed 7 -q", &[0, 3]);
    let verdicts = |workload: &str| {
        let result = ran["results"].as_array().unwrap().iter().find(|r| r["workload"] == workload).unwrap();
        Verdicts(result["verdicts"].as_array().unwrap().clone())
    };
    verdicts("seqbuf").must_not("cache");
    // The writes of the same run end in memory.
    verdicts("bufwrite").must("cache");
}

#[test]
fn one_operation_at_a_time_on_a_volume_of_a_millisecond_is_concurrency() {
    let one = |iodepth: u32| {
        experiment(
            "[volumes.v]\nsize = \"8MiB\"\nshape = { iops = 2000, latency = \"1ms\" }",
            "layout = \"linear\"\nmembers = [\"v\"]",
            &format!("iodepth = {iodepth}\nruntime = \"400ms\""),
            "",
        )
    };
    let alone = Verdicts::of(&one(1));
    let verdict = alone.must("concurrency");
    assert_eq!(figure(verdict, "operations in flight"), 1.0);
    // More in flight on a volume that lets two pass: a probe at the end of the session saw more. Which depth had most depends on how fast
    // this machine hands out its processors: two lose what four make up for.
    let alone_rate = figure(verdict, "operations per second");
    assert!(figure(verdict, "operations per second with ") > 1.1 * alone_rate);
    Verdicts::of(&one(16)).must_not("concurrency");
}

/// `ebb bench` runs once, and climbs after it: on a volume that takes 5 ms and lets 16 pass at a time.
#[test]
fn a_benchmark_climbs_a_ladder_too() {
    let home = Home::on_its_own_disk();
    let text = experiment(
        "[volumes.v]\nsize = \"8MiB\"\nshape = { iops = 3200, latency = \"5ms\" }",
        "layout = \"linear\"\nmembers = [\"v\"]",
        "runtime = \"1s\"",
        "",
    );
    home.write("one.toml", &text);
    let _alone = one_at_a_time();
    let bench = |options: &str| {
        let line = format!("bench --design one.toml:array --rw randread --runtime 1 {options}");
        let ran = home.json(&line, &[0]);
        Verdicts(ran["jobs"][0]["ebbtide"]["verdicts"].as_array().unwrap().clone())
    };
    let alone = bench("--iodepth 1");
    let verdict = alone.must("concurrency");
    let probed = figure(verdict, "operations per second with 2 in flight, in a short probe");
    assert!(probed > 1.1 * figure(verdict, "operations per second"), "{verdict:#}");
    // What limits itself is not probed.
    bench("--iodepth 1 --thinktime 25000").must_not("concurrency");
}

/// 600 operations more than the sustained 1000/s are spent at 3000/s in 0.3 s; the pause between trials earns them
/// again.
#[test]
fn a_small_bucket_runs_out_at_its_time() {
    let bucket = |limit: &str| {
        experiment(
            &format!("[volumes.v]\nsize = \"8MiB\"\nshape = {{ iops = {limit} }}"),
            "layout = \"linear\"\nmembers = [\"v\"]",
            "iodepth = 8\nruntime = \"700ms\"",
            "rest = \"600ms\"",
        )
    };
    let burst = Verdicts::of(&bucket("{ rate = 1000, burst = 3000, credits = 600 }"));
    let seconds = figure(burst.must("burst"), "time of the step down");
    assert!((0.27..=0.33).contains(&seconds), "{seconds} s instead of 0.3 s");
    // Credits for 300 s do not run out.
    Verdicts::of(&bucket("{ rate = 1000, burst = 3000, credits = 600000 }")).must_not("burst");
}

/// A program that writes until it is dropped.
#[derive(Debug)]
struct Writer(Child);

impl Writer {
    /// As any other program, whatever class of the scheduler this one is in.
    fn start(home: &Home, line: &str) -> Writer {
        let mut writer = home.command("chrt");
        writer.args(["--other", "0"]).args(line.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
        Writer(writer.spawn().unwrap())
    }

    /// Whether it is named as at work beside the load.
    fn is_in(&self, verdicts: &Verdicts) -> bool {
        let evidence = verdicts.get("background").map_or(&[][..], |v| v["evidence"].as_array().unwrap());
        let pid = format!("(pid {})", self.0.id());
        evidence.iter().any(|e| e["what"].as_str().is_some_and(|what| what.ends_with(&pid)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requires dd, and that /proc/PID/io of an own child can be read. Others at work on the disk do not matter: what is
/// asked is whether this writer is among those named, and in the opposite, where it writes to nowhere, that it is not.
#[test]
fn a_competing_writer_is_the_background() {
    let text = experiment(
        "[volumes.v]\nsize = \"8MiB\"",
        "layout = \"linear\"\nmembers = [\"v\"]",
        "bs = \"64k\"\niodepth = 16\nruntime = \"400ms\"",
        "",
    );
    let _alone = one_at_a_time();
    let home = Home::new();
    // Over and over the same bytes: a file that grows is full before the run has ended, on a fast disk.
    let writers: Vec<Writer> = (0..2)
        .map(|n| {
            let file = home.path(&format!("competing{n}"));
            let line = format!(
                "{EBB} -q bench --filename {} --size 64MiB --rw write --bs 1m --iodepth 8 --runtime 600",
                file.display()
            );
            Writer::start(&home, &line)
        })
        .collect();
    let beside = Verdicts::beside(&home, &text);
    beside.must("background");
    for writer in &writers {
        assert!(writer.is_in(&beside), "{writer:?} is not named in {:#?}", beside.0);
    }
    drop(writers);

    let home = Home::new();
    let idle = Writer::start(&home, "dd if=/dev/zero of=/dev/null bs=1M");
    let without = Verdicts::beside(&home, &text);
    assert!(!idle.is_in(&without), "{idle:?} is named in {:#?}", without.0);
}
