use super::*;
use crate::ring::refusal;
use crate::target::{Shaper, TargetMember};
use ebbtide_door::Handle;
use ebbtide_model::layout::{ArrayKind, LayoutNode, Map};
use ebbtide_model::units::ArrayOffset;
use ebbtide_model::volume::{Latency, Shape};
use ebbtide_model::workload::{Access, Arrival, EngineOptions, Mix, Op, OpKind};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::collections::HashSet;
use std::fs::File;
use std::sync::{Arc, Mutex as Lock};

const BLOCKS: u64 = 256;

fn target() -> Target {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(BLOCKS * 4096).expect("sizes the file");
    Target::single(TargetMember {
        name: "vol0".into(),
        file: Handle::unjudged(file),
        size: Bytes(BLOCKS * 4096),
        shaper: None,
    })
    .expect("a size")
}

fn writes(iodepth: u32, numjobs: u32) -> Workload {
    Workload {
        iodepth,
        numjobs,
        direct: false,
        ..Workload::new("test", Access::Sequential, Mix::Write, Stop::Size(Bytes(BLOCKS * 4096)))
    }
}

/// What the jobs of a trial on `target` see.
fn shared<'a>(target: &'a Target, workload: &'a Workload, control: &'a Control) -> Shared<'a> {
    Shared {
        target,
        workload,
        control,
        seed: 0,
        clock: Clock::get(),
        plain: target.is_plain(),
        patience: Patience::default(),
        failed: AtomicBool::new(false),
        enough: AtomicBool::new(false),
    }
}

fn source(shared: &Shared<'_>) -> Result<Source, EngineError> {
    let generator = Generator::new(shared.workload, shared.target.map.capacity(), 1, 0)?;
    Ok(Source::new(shared.workload, generator))
}

/// A job that runs by itself, without a collector that listens, until `runtime` is over.
fn lone_job(shared: &Shared<'_>, way: IoMethod, runtime: Duration) -> Result<Finished, EngineError> {
    let sources = [Lock::new(source(shared)?)];
    let ((to_collector, _messages), (start, started), (_recycle, recycled)) =
        (channel(), channel(), channel());
    let origin = shared.clock.now();
    let end = origin + Nanos(runtime.as_nanos() as u64);
    start.send(Times { origin, measure: origin, end, interval: Nanos::from_millis(10) }).expect("is heard");
    job_thread(shared, Place::new(&sources, 0, way), Ends { to_collector, started, recycled })
}

/// io_uring_setup(2) as it fails where io_uring is forbidden.
fn forbidden() -> Option<String> {
    Some(refusal(&std::io::Error::from_raw_os_error(libc::EPERM)))
}

#[test]
fn without_io_uring_threads_keep_the_depth_and_do_each_operation_once() {
    let target = target();
    let samples =
        run_where(&target, &writes(8, 2), 1, &Control::default(), forbidden).expect("the trial runs");
    assert_eq!(samples.array.write.count.ops, BLOCKS);
    assert_eq!(samples.array.write.count.bytes, BLOCKS * 4096);
    let note = &samples.notes[0];
    assert!(note.contains("forbidden") && note.contains("pread and pwrite"), "{note}");
    assert!(note.contains("8 threads per job"), "{note}");
    // Every block was written, and each of them with a stamp of its own.
    let mut stamps = HashSet::new();
    for block in 0..BLOCKS {
        let mut stamp = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&*target.members[0].file, &mut stamp, block * 4096)
            .expect("reads back");
        assert!(u64::from_ne_bytes(stamp) != 0 && stamps.insert(stamp), "block {block}");
    }
}

/// What a disk did between the edges is the trial's: none of its operations may be outside them.
#[test]
fn a_trial_tells_where_its_io_begins_and_that_all_of_it_is_done() {
    let target = target();
    let look = |workload: &Workload| {
        let control = Arc::new(Control::default());
        let seen = Arc::new(Lock::new(Vec::new()));
        let (counts, list) = (Arc::downgrade(&control), Arc::clone(&seen));
        control.edges.listen(move |edge, seed| {
            let ops = counts.upgrade().map_or(0, |control| control.ops.load(Ordering::Relaxed));
            list.lock().expect("whole").push((edge, seed, ops));
        });
        run(&target, workload, 9, &control).expect("the trial runs");
        control.edges.clear();
        seen.lock().expect("whole").clone()
    };
    assert_eq!(look(&writes(4, 1)), [(Edge::Begins, 9, 0), (Edge::Done, 9, BLOCKS)]);
    // Time ends it with operations under way.
    let timed = Workload { stop: Stop::Runtime(Nanos::from_millis(20)), ..writes(4, 1) };
    assert_eq!(look(&timed), [(Edge::Begins, 9, 0)]);
}

#[test]
fn what_is_not_reached_without_io_uring_is_said() {
    let run = |w: &Workload| run_where(&target(), w, 1, &Control::default(), forbidden).expect("it runs");
    let notes = run(&writes(300, 1)).notes.join("; ");
    assert!(notes.contains("256 threads per job (iodepth 300 was not reached"), "{notes}");
    let notes = run(&writes(1, 1)).notes.join("; ");
    assert!(notes.contains("forbidden") && !notes.contains("threads"), "{notes}");
}

#[test]
fn threads_in_place_of_a_ring_keep_a_rate_and_a_warm_up() {
    let w = Workload {
        arrival: Arrival::Fixed { iops: 2000.0 },
        stop: Stop::Size(Bytes(200 * 4096)),
        warm_up: Nanos::from_millis(50),
        ..writes(8, 1)
    };
    let samples = run_where(&target(), &w, 1, &Control::default(), forbidden).expect("the trial runs");
    assert_eq!(samples.array.write.count.ops, 200, "what the warm-up does is not of the 200");
    // 200 at 2000 per second take 100 ms, less what a busy machine had put off from the warm-up; without a rate they take
    // less than 1.
    assert!(samples.elapsed >= Nanos::from_millis(40), "{:?}", samples.elapsed);
}

#[test]
fn refusals_are_said_in_words() {
    let of = |errno| refusal(&std::io::Error::from_raw_os_error(errno));
    assert!(of(libc::EPERM).contains("kernel.io_uring_disabled"));
    assert!(of(libc::ENOSYS).contains("no io_uring"));
    assert!(of(libc::ENOMEM).contains("io_uring_setup failed"));
}

#[test]
fn direct_asked_for_and_not_set_is_noted() {
    let w = Workload { direct: true, ..writes(1, 1) };
    let samples = run(&target(), &w, 1, &Control::default()).expect("the trial runs");
    assert!(
        samples.notes.iter().any(|n| n.contains("O_DIRECT") && n.contains("vol0")),
        "{:?}",
        samples.notes
    );
    let samples = run(&target(), &writes(1, 1), 1, &Control::default()).expect("the trial runs");
    assert!(!samples.notes.iter().any(|n| n.contains("O_DIRECT")), "{:?}", samples.notes);
}

#[test]
fn a_result_that_is_not_all_goes_again_from_where_it_stopped() {
    use crate::piece::{AfterPartial, Piece, Task, Transfer, judge, whole};
    let (target, workload, control) = (target(), writes(1, 1), Control::default());
    let shared = shared(&target, &workload, &control);
    let (sender, _receiver) = channel();
    let (_recycle, recycled) = channel();
    let times =
        Times { origin: Instant::START, measure: Instant::START, end: Instant::NEVER, interval: Nanos(1) };
    let mut recorder = Recorder::new(0, 1, false, times, sender, recycled);
    let op = Op {
        kind: OpKind::Write,
        offset: ArrayOffset(8192),
        length: Bytes(4096),
        due: Nanos(0),
        then_write: false,
    };
    let rest = whole(op, Buffers::one(op.length).expect("a buffer").slots[0].write);
    let task = Task::Transfer(Transfer { rest, length: 4096, shaped: None });
    let mut piece = Piece { slot: 0, member: 0, started: Instant::START, task };
    for result in [-libc::EINTR, 1000, -libc::EAGAIN, 96] {
        assert!(matches!(judge(&shared, &mut recorder, &mut piece, result), AfterPartial::Again), "{result}");
    }
    let Task::Transfer(Transfer { rest, length, .. }) = piece.task else { panic!("{piece:?}") };
    assert_eq!((rest.offset, rest.at, rest.length, length), (9288, 1096, 3000, 4096));
    assert!(!shared.must_stop());
    let count = |name: &str| recorder.errors.get(&(0, name.to_owned())).copied();
    assert_eq!((count("EINTR"), count("EAGAIN"), count("short")), (Some(1), Some(1), Some(2)));
    let verdict = judge(&shared, &mut recorder, &mut piece, -libc::EIO);
    let AfterPartial::Failed(EngineError::Member { offset, length, .. }) = verdict else { panic!("goes on") };
    assert_eq!((offset, length), (MemberOffset(9288), Bytes(3000)));
    assert!(shared.must_stop());
}

/// Writes to `/dev/null` work and fsync does not (fsync(2): EINVAL): no operation fails, and yet the job does.
#[test]
fn a_job_that_fails_in_another_way_than_by_an_operation_ends_the_others() {
    let file = File::options().write(true).open("/dev/null").expect("/dev/null");
    let target = Target::single(TargetMember {
        name: "null".into(),
        file: Handle::unjudged(file),
        size: Bytes(BLOCKS * 4096),
        shaper: None,
    });
    let (target, control, mut workload) = (target.expect("a size"), Control::default(), writes(1, 1));
    workload.details.fsync_every = Some(2);
    let shared = shared(&target, &workload, &control);
    for way in [IoMethod::psync(1), IoMethod::ring(1)] {
        shared.failed.store(false, Ordering::Relaxed);
        let error = lone_job(&shared, way, Duration::from_secs(60)).expect("it begins").failure;
        let error = error.expect("fsync fails").to_string();
        assert!(error.starts_with("null: fsync of"), "{error}");
        assert!(shared.must_stop());
    }
}

/// Threads of this process whose name is `name`, as /proc has them.
fn status_of(name: &str) -> Option<(String, String)> {
    for task in std::fs::read_dir("/proc/self/task").expect("/proc").flatten() {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            return Some((read("status"), read("stat")));
        }
    }
    None
}

#[test]
fn affinity_niceness_and_huge_pages_are_really_set() {
    // The last CPU that this process may use, and the jobs' numbers beyond those of the other tests here.
    let mask = rustix::thread::sched_getaffinity(None).expect("affinity");
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| mask.is_set(*cpu)).expect("a CPU") as u32;
    let engine =
        EngineOptions { cpus_allowed: vec![cpu], nice: Some(7), huge_pages: true, ..Default::default() };
    let w = Workload {
        mix: Mix::Read,
        stop: Stop::Runtime(Nanos::from_secs(60)),
        numjobs: 21,
        bs: Bytes(3 << 10),
        engine,
        ..writes(4, 1)
    };
    let (control, target) = (Control::default(), target());
    let seen = Lock::new(None);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..1000 {
                thread::sleep(Duration::from_millis(5));
                // Settled before the ring is made, and running once operations are counted.
                if control.ops.load(Ordering::Relaxed) > 0 {
                    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
                    *seen.lock().expect("lock") = status_of("ebb-job-20").map(|(a, b)| (a, b, smaps));
                    break;
                }
            }
            control.stop.store(true, Ordering::Relaxed);
        });
        run(&target, &w, 1, &control)
    });
    let (status, stat, smaps) = seen.into_inner().expect("lock").expect("job 20 was seen");
    let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).map(str::trim);
    assert_eq!(allowed, Some(cpu.to_string().as_str()));
    // proc(5): nice is field 19; after the name come fields 3 and on.
    let nice = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(16));
    assert_eq!(nice, Some("7"));
    let Err(EngineError::Stopped { seen: Some(samples) }) = result else { panic!("{result:?}") };
    let transparent = samples.notes.iter().any(|note| note.contains("transparent ones"));
    let flag = if transparent { "hg" } else { "ht" };
    let set =
        smaps.lines().filter_map(|l| l.strip_prefix("VmFlags:")).any(|l| l.split(' ').any(|f| f == flag));
    assert!(set, "no mapping with {flag} (proc(5), VmFlags)");
}

#[test]
fn a_cpu_that_does_not_exist_is_refused() {
    let engine = EngineOptions { cpus_allowed: vec![1023], ..Default::default() };
    let error = run(&target(), &Workload { engine, ..writes(1, 1) }, 1, &Control::default());
    assert!(error.expect_err("refused").to_string().contains("cpus_allowed"));
}

/// A pipe as a member: its reads are short, and never come back while nobody writes.
fn pipe() -> (Target, std::io::PipeWriter) {
    let (read, write) = std::io::pipe().expect("a pipe");
    let file = File::from(std::os::fd::OwnedFd::from(read));
    let member = TargetMember {
        name: "pipe".into(),
        file: Handle::unjudged(file),
        size: Bytes(1 << 20),
        shaper: None,
    };
    (Target::single(member).expect("a size"), write)
}

#[test]
fn short_reads_are_counted_and_go_on() {
    let (target, mut pipe) = pipe();
    let w = Workload { mix: Mix::Read, stop: Stop::Size(Bytes(16 * 4096)), ..writes(4, 1) };
    let samples = thread::scope(|scope| {
        scope.spawn(|| {
            for part in [[7_u8; 1024]; 64] {
                thread::sleep(Duration::from_millis(1));
                std::io::Write::write_all(&mut pipe, &part).expect("the pipe takes it");
            }
        });
        run(&target, &w, 1, &Control::default()).expect("the trial runs")
    });
    assert_eq!(samples.array.read.count.bytes, 16 * 4096);
    let errors = &samples.members[0].errors;
    assert!(errors.iter().any(|e| e.name == "short" && e.count > 0), "{errors:?}");
}

#[test]
fn operations_that_never_come_back_are_cancelled_and_that_is_said() {
    let (target, _pipe) = pipe();
    let w = Workload { mix: Mix::Read, stop: Stop::Runtime(Nanos::from_millis(30)), ..writes(4, 1) };
    let samples = run(&target, &w, 1, &Control::default()).expect("the trial ends");
    assert_eq!(samples.array.read.count.ops, 0);
    assert_eq!(samples.execution.unfinished, 4);
    assert!(
        samples.notes.iter().any(|n| n.contains("4 operations") && n.contains("cancelled")),
        "{:?}",
        samples.notes
    );
}

/// Operations that a member holds back or has failed are not what hangs, although they are older.
#[test]
fn the_member_that_hangs_is_named() {
    let held = |file: File| {
        let read_latency = Latency::Constant(Nanos::from_secs(60));
        let shape = Shape { read_latency, ..Shape::default() };
        TargetMember {
            name: "held".into(),
            file: Handle::unjudged(file),
            size: Bytes(1 << 20),
            shaper: Some(Arc::new(Shaper::new(&shape, 1, None))),
        }
    };
    let failing = |file: File| {
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let file = File::options().write(true).open(path).expect("opens again");
        TargetMember {
            name: "failing".into(),
            file: Handle::unjudged(file),
            size: Bytes(1 << 20),
            shaper: None,
        }
    };
    let others: [&dyn Fn(File) -> TargetMember; 2] = [&held, &failing];
    for other in others {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("sizes the file");
        let (mut pipe, _writer) = pipe();
        let members = vec![other(file), pipe.members.remove(0)];
        let leaves = vec![LayoutNode::Volume(0), LayoutNode::Volume(1)];
        let layout = LayoutNode::Array { kind: ArrayKind::Stripe { chunk: Bytes(4096) }, members: leaves };
        let target = Target::new(members, Map::new(&layout, &[Bytes(1 << 20); 2]).expect("a layout"));
        let w = Workload { mix: Mix::Read, stop: Stop::Runtime(Nanos::from_secs(60)), ..writes(16, 1) };
        let control = Control::default();
        // A pipe's reads can be cancelled: given up before that, they are like those of a device that hangs.
        let patience = Patience { cancel_after: Nanos(u64::MAX), give_up_after: Nanos::from_millis(50) };
        let shared = Shared { patience, ..shared(&target, &w, &control) };
        match lone_job(&shared, IoMethod::ring(16), Duration::from_millis(30))
            .map(|finished| finished.failure)
        {
            Ok(Some(EngineError::Hung { member, .. })) => assert_eq!(member, "pipe"),
            other => panic!("{other:?}"),
        }
    }
}

/// Writes 32 blocks into a pipe that holds 16, on a ring that never waits for the pipe, at most for `runtime`; returns
/// what came of it, the refused writes, and what `reader` made of the other end; nothing where the kernel cannot do it.
fn into_a_full_pipe<T: Send>(
    runtime: Duration,
    reader: impl FnOnce(std::io::PipeReader) -> T + Send,
) -> Option<(Finished, u64, T)> {
    let (mut read, write) = std::io::pipe().expect("a pipe");
    let file = File::from(std::os::fd::OwnedFd::from(write));
    let byte = [std::io::IoSlice::new(&[0])];
    if pwritev2(&file, &byte, u64::MAX, ReadWriteFlags::NOWAIT) == Err(Errno::OPNOTSUPP) {
        eprintln!("skipped: this kernel's pipes have no RWF_NOWAIT (Linux 6.4)");
        return None;
    }
    std::io::Read::read_exact(&mut read, &mut [0]).expect("the byte");
    let target = Target::single(TargetMember {
        name: "pipe".into(),
        file: Handle::unjudged(file),
        size: Bytes(32 * 4096),
        shaper: None,
    });
    let (target, control) = (target.expect("a size"), Control::default());
    let workload = Workload { stop: Stop::Size(Bytes(32 * 4096)), ..writes(4, 1) };
    let shared = shared(&target, &workload, &control);
    let (buffers, _) = Buffers::of_job(&workload, 4).expect("buffers");
    let ((to_collector, _messages), (_recycle, recycled)) = (channel(), channel());
    let origin = shared.clock.now();
    let end = origin + Nanos(runtime.as_nanos() as u64);
    let times = Times { origin, measure: origin, end, interval: Nanos::from_millis(10) };
    let recorder = Recorder::new(0, 0, false, times, to_collector, recycled);
    thread::scope(|scope| {
        let reader = scope.spawn(|| reader(read));
        let mut ring = Ring::new(&shared, buffers, &mut Vec::new()).expect("a ring");
        ring.refuse_to_wait();
        let job = Job::new(&shared, 0, source(&shared).expect("a source"), None, recorder, times);
        let finished = RingLoop::new(ring, job).run();
        assert!(finished.failure.is_none(), "{finished:?}");
        let refused = finished.errors.get(&(0, "EAGAIN".to_owned())).copied().unwrap_or_default();
        Some((finished, refused, reader.join().expect("the reader ends")))
    })
}

#[test]
fn what_the_kernel_refuses_for_the_moment_is_counted_and_goes_again() {
    let seen = into_a_full_pipe(Duration::from_secs(60), |mut pipe| {
        let mut blocks = vec![[0_u8; 4096]; 32];
        for block in &mut blocks {
            thread::sleep(Duration::from_millis(2));
            std::io::Read::read_exact(&mut pipe, block).expect("a block comes");
        }
        blocks
    });
    let Some((finished, refused, read)) = seen else { return };
    assert!(finished.complete && finished.note.is_none(), "{finished:?}");
    assert!(refused > 0, "{finished:?}");
    let stamps: HashSet<&[u8]> = read.iter().map(|block| &block[..8]).collect();
    assert_eq!(stamps.len(), 32, "each block once");
}

/// Trying again ends with the trial: nothing is left with the kernel, and nothing has to be cancelled.
#[test]
fn what_the_kernel_refuses_for_ever_ends_with_the_trial() {
    let seen = into_a_full_pipe(Duration::from_millis(100), |pipe| pipe);
    let Some((finished, refused, _pipe)) = seen else { return };
    assert!(!finished.complete && finished.note.is_none(), "{finished:?}");
    assert!(refused > 0, "{finished:?}");
}

/// A gate that opens at once, has the trial be late, and lets so much of it count.
struct Opens {
    late: Nanos,
    counts: Option<Window>,
    seen: Lock<Option<(Window, Nanos)>>,
}

impl Gate for Opens {
    fn begin(&self, _: &dyn Fn() -> bool) -> Option<Instant> {
        let agreed = Clock::get().now();
        thread::sleep(Duration::from_nanos(self.late.0));
        Some(agreed)
    }

    fn counts(&self, ran: Window, late: Nanos, _: &dyn Fn() -> bool) -> Option<Window> {
        *self.seen.lock().expect("no panic") = Some((ran, late));
        self.counts
    }
}

/// A trial of 300 ms with intervals of 10 ms, of which this counts.
fn through(
    late: Nanos,
    counts: Option<Window>,
) -> (Result<TrialSamples, EngineError>, Option<(Window, Nanos)>) {
    let gate = Arc::new(Opens { late, counts, seen: Lock::new(None) });
    let control = Control::default();
    control.gate.set(gate.clone());
    let stop = Stop::Runtime(Nanos::from_millis(300));
    let workload = Workload { stop, iodepth: 2, numjobs: 2, ..writes(2, 2) };
    let ran = run(&target(), &workload, 1, &control);
    let seen = *gate.seen.lock().expect("no panic");
    (ran, seen)
}

fn window(from: u64, until: u64) -> Window {
    Window { from: Nanos::from_millis(from), until: Nanos::from_millis(until) }
}

#[test]
fn of_a_trial_among_others_only_the_window_counts() {
    let (whole, seen) = through(Nanos(0), Some(window(0, 300)));
    let (whole, (ran, late)) = (whole.expect("runs"), seen.expect("was asked"));
    assert_eq!((ran.until, whole.elapsed, whole.series.len()), (window(0, 300).until, ran.until, 30));
    assert!(ran.from == late, "without a warm-up it is late by what is missing");
    let sum = |samples: &TrialSamples| samples.series.iter().map(|i| i.array.write.ops).sum::<u64>();
    assert_eq!(sum(&whole), whole.array.write.count.ops);
    assert_eq!(whole.array.write.latency.count(), whole.array.write.count.ops);

    let (part, _) = through(Nanos(0), Some(window(95, 250)));
    let part = part.expect("runs");
    assert_eq!((part.elapsed, part.series.len()), (Nanos::from_millis(150), 15));
    assert_eq!(sum(&part), part.array.write.count.ops);
    assert_eq!(part.series.last().map(|interval| interval.end), Some(part.elapsed));
    let members: u64 = part.members.iter().map(|member| member.ops.write.count.ops).sum();
    assert_eq!(members, part.array.write.count.ops);
}

#[test]
fn a_trial_that_begins_late_says_so_and_ends_with_the_others() {
    let late = Nanos::from_millis(120);
    let (ran, seen) = through(late, Some(window(150, 300)));
    let (ran, (own, told)) = (ran.expect("runs"), seen.expect("was asked"));
    assert!(told >= late && own.from >= late && own.until == Nanos::from_millis(300), "{own:?} {told}");
    assert_eq!((ran.elapsed, ran.series.len()), (Nanos::from_millis(150), 15));
    let (none, _) = through(Nanos(0), None);
    assert!(matches!(none, Err(EngineError::Stopped { seen: None })), "{none:?}");
}
