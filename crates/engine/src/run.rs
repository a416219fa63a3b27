//! Runs one trial: sets the jobs up, starts them together, puts their records together.

use crate::buffers::{Buffers, Refill, check_memory};
use crate::clock::Clock;
use crate::collect::{Collected, cpu_use};
use crate::cpu::{self, CpuTime};
use crate::error::{EngineError, MemberFailure};
use crate::io_method::{IoMethod, choose, note_missing_direct};
use crate::job::{Job, TICK};
use crate::patience::Patience;
use crate::psync::PsyncLoop;
use crate::record::{Begun, Failed, Finished, Message, Record, Recorder, Times};
use crate::ring::{Ring, RingLoop, unavailable};
use crate::shared::Shared;
use crate::source::Source;
use crate::steps::{Follows, StepWatcher};
use crate::target::{Target, lock};
use crate::verify::read_back;
use ebbtide_model::backend::{Control, Edge, Gate};
use ebbtide_model::hosts::Window;
use ebbtide_model::samples::{CpuUse, TrialSamples};
use ebbtide_model::units::{Bytes, Instant, MemberOffset, Nanos, UnixTime, format_latency};
use ebbtide_model::workload::{Generator, IoEngine, SteadyResult, Stop, Workload};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

/// Largest operation: a ring's length field and the kernel's own limit (2 GiB less a page) leave room for it.
const BS_MAX: Bytes = Bytes(1 << 30);

/// Runs `workload` on `target` and returns what was seen. The same `seed` gives the same operations.
///
/// A trial that ends by time counts what completes within its window; one that ends by size does exactly that many
/// bytes. Latency counts from the submission, in an open loop from the intended start.
///
/// # Errors
/// See [`EngineError`]. `control.stop` ends the trial within about 100 ms (plus the time that the kernel takes for what it
/// has already been given, at most 20 s without any sign of it) with [`EngineError::Stopped`], which carries the samples up to then, as
/// [`EngineError::CutShort`] does after a failure.
pub fn run(
    target: &Target,
    workload: &Workload,
    seed: u64,
    control: &Control,
) -> Result<TrialSamples, EngineError> {
    run_where(target, workload, seed, control, unavailable)
}

/// [`run`] on a host where `unavailable` says why there is no io_uring.
fn run_where(
    target: &Target,
    workload: &Workload,
    seed: u64,
    control: &Control,
    unavailable: impl Fn() -> Option<String>,
) -> Result<TrialSamples, EngineError> {
    validate(target, workload)?;
    let clock = Clock::get();
    let mut collected = Collected::new();
    note_missing_direct(target, workload, &mut collected);
    let way = choose(target, workload, clock, unavailable, &mut collected);
    collected.execution.ioengine = Some(way.ioengine);
    collected.execution.threads = way.threads;
    check_memory(workload, workload.numjobs.saturating_mul(way.threads), way.depth)?;
    let jobs = (0..workload.numjobs)
        .map(|job| {
            let generator = Generator::new(workload, target.map.capacity(), seed, job)?;
            Ok(Mutex::new(Source::new(workload, generator)))
        })
        .collect::<Result<Vec<_>, EngineError>>()?;
    let failed = AtomicBool::new(false);
    let plain = target.is_plain();
    let patience = Patience::default();
    let enough = AtomicBool::new(false);
    let shared = Shared { target, workload, control, seed, clock, plain, patience, failed, enough };
    thread::scope(|scope| {
        let (to_collector, messages) = channel();
        let mut lines = Vec::new();
        for index in 0..jobs.len() * way.threads as usize {
            let place = Place::new(&jobs, index, way);
            let (start, started) = channel();
            let (recycle, recycled) = channel();
            lines.push(Line { start, recycle });
            let (to_collector, shared) = (to_collector.clone(), &shared);
            thread::Builder::new()
                .name(format!("ebb-job-{index}"))
                .spawn_scoped(scope, move || {
                    let ends = Ends { to_collector: to_collector.clone(), started, recycled };
                    let result = job_thread(shared, place, ends).map(Box::new);
                    let _ = to_collector.send(Message::Finished { result });
                })
                .map_err(|source| {
                    shared.failed.store(true, Ordering::Relaxed);
                    EngineError::System { what: "start a job thread", source }
                })?;
        }
        drop(to_collector);
        Collector { shared: &shared, lines, messages, collected, begun: Vec::new() }
            .run()
            .map(|ran| (ran, way))
    })
    .and_then(|((mut samples, begun), way)| {
        if workload.details.verify {
            samples.notes.push(verified(target, workload, (seed, way), &begun, control)?);
        }
        Ok(samples)
    })
}

/// Reads back what the `begun` operations of a trial wrote, and says that it is there.
fn verified(
    target: &Target,
    workload: &Workload,
    (seed, way): (u64, IoMethod),
    begun: &[Begun],
    control: &Control,
) -> Result<String, EngineError> {
    let mut of_jobs = vec![0; workload.numjobs as usize];
    let mut contents = Vec::new();
    for Begun { thread, operations } in begun {
        if let Some(job) = of_jobs.get_mut((thread / way.threads.max(1)) as usize) {
            *job += operations;
        }
        contents.push(content(workload, way, seed, *thread)?.0);
    }
    read_back(target, workload, seed, &of_jobs, contents, control)?;
    Ok("verify: what was written was read back, and is all as it was written".to_owned())
}

/// The buffers of a thread, filled with what it writes from.
fn content(
    workload: &Workload,
    way: IoMethod,
    seed: u64,
    thread: u32,
) -> Result<(Buffers, Option<&'static str>), EngineError> {
    let (mut buffers, note) = Buffers::of_job(workload, way.depth)?;
    if workload.writes() {
        let seed = seed ^ u64::from(thread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        buffers.fill(seed, workload.details.compress_percent);
    }
    Ok((buffers, note))
}

/// Refuses what cannot work before anything is started.
fn validate(target: &Target, workload: &Workload) -> Result<(), EngineError> {
    let (leaves, members) = (target.map.leaves(), target.members.len());
    if leaves.is_empty() || leaves.iter().any(|leaf| *leaf >= members) {
        return Err(EngineError::Members { volumes: leaves.to_vec(), members });
    }
    if workload.writes() && !target.map.supports_write() {
        return Err(EngineError::ParityWrite);
    }
    if workload.bs > BS_MAX {
        return Err(EngineError::BlockSize { bs: workload.bs, most: BS_MAX });
    }
    Ok(())
}

/// One thread's place among all.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Its number among all threads.
    index: u32,
    job: u32,
    /// That job's operations, shared by its threads.
    source: &'a Mutex<Source>,
    way: IoMethod,
}

impl<'a> Place<'a> {
    fn new(jobs: &'a [Mutex<Source>], index: usize, way: IoMethod) -> Self {
        let job = index / way.threads.max(1) as usize;
        Place { index: index as u32, job: job as u32, source: &jobs[job], way }
    }
}

/// A job's ends of its channels.
struct Ends {
    to_collector: Sender<Message>,
    started: Receiver<Times>,
    recycled: Receiver<Box<Record>>,
}

struct Line {
    start: Sender<Times>,
    recycle: Sender<Box<Record>>,
}

/// What a job does its I/O with.
enum Io<'a> {
    Ring(Box<Ring<'a>>),
    Psync(Buffers),
}

/// One job from set-up to end. When it fails, however it does, the others end too.
fn job_thread<'a>(shared: &'a Shared<'a>, place: Place<'a>, ends: Ends) -> Result<Finished, EngineError> {
    let result = job(shared, place, ends);
    // One that had begun has told the others itself.
    if result.is_err() {
        shared.failed.store(true, Ordering::Relaxed);
    }
    result
}

fn job<'a>(shared: &'a Shared<'a>, place: Place<'a>, ends: Ends) -> Result<Finished, EngineError> {
    let Place { index, job, source: line, way } = place;
    let workload = shared.workload;
    let mut notes = Vec::new();
    cpu::settle(job, &workload.engine.cpus_allowed, workload.engine.nice)?;
    let (buffers, note) = content(workload, way, shared.seed, index)?;
    notes.extend(note.map(str::to_owned));
    // Drawn before the trial begins: it takes some milliseconds.
    let refill = Refill::of(workload, shared.seed ^ u64::from(index));
    let source = lock(line).clone();
    if source.is_timed() || !shared.plain {
        cpu::precise_timers();
    }
    let io = match way.ioengine {
        IoEngine::IoUring => Io::Ring(Box::new(Ring::new(shared, buffers, &mut notes)?)),
        IoEngine::Psync => Io::Psync(buffers),
    };
    let _ = ends.to_collector.send(Message::Ready(notes));
    // No start: another job could not be set up, and that error is told.
    let Ok(times) = ends.started.recv() else { return Err(EngineError::Stopped { seen: None }) };
    let at_work = Some(shared.clock.now());
    let members = if shared.plain { 0 } else { shared.target.members.len() };
    let open_loop = workload.is_open_loop();
    let recorder = Recorder::new(index as usize, members, open_loop, times, ends.to_collector, ends.recycled);
    let job = Job::new(shared, index, source, refill, recorder, times);
    let finished = match io {
        Io::Ring(ring) => RingLoop::new(*ring, job).run(),
        Io::Psync(buffers) => PsyncLoop::new(job, buffers, (way.threads > 1).then_some(line)).run(),
    };
    Ok(Finished { at_work, ..finished })
}

/// Puts together what the jobs send.
struct Collector<'a> {
    shared: &'a Shared<'a>,
    lines: Vec<Line>,
    messages: Receiver<Message>,
    collected: Collected,
    /// What each thread has begun.
    begun: Vec<Begun>,
}

impl Collector<'_> {
    fn run(mut self) -> Result<(TrialSamples, Vec<Begun>), EngineError> {
        let (shared, clock) = (self.shared, self.shared.clock);
        self.wait_until_ready()?;
        let workload = shared.workload;
        self.wait_for_start(workload.details.start_delay)?;
        let gate = shared.control.gate.get();
        let agreed = gate.as_deref().map(|gate| self.wait_for_others(gate)).transpose()?;
        shared.control.edges.tell(Edge::Begins, shared.seed);
        let origin = clock.now();
        let measure = agreed.unwrap_or(origin) + workload.before();
        let end = workload.measured_at_most().map_or(Instant::NEVER, |most| measure + most);
        let times = Times { origin, measure, end, interval: workload.series_interval() };
        let started_unix = UnixTime::from(SystemTime::now()) + (measure - origin);
        for line in &self.lines {
            let _ = line.start.send(times);
        }
        let seen = self.collect(measure);
        let ended = clock.now();
        let mut jobs = Vec::new();
        let mut last = None;
        let mut at_work = origin;
        let mut complete = true;
        let mut failure = seen.failure;
        let mut failed = Failed::default();
        let settled = seen.steadied.as_ref().is_some_and(|steadied| steadied.attained);
        self.collected.execution.steady = seen.steadied;
        for result in seen.results {
            let finished = result?;
            // The error of a member before that of a job which it has ended.
            let names_a_member = matches!(finished.failure, Some(EngineError::Member { .. }));
            if failure.is_none() || (names_a_member && !matches!(failure, Some(EngineError::Member { .. }))) {
                failure = finished.failure.or(failure);
            }
            self.collected.execution.unfinished += finished.unfinished;
            self.begun.push(finished.begun);
            failed = failed.plus(finished.failed);
            jobs.extend(finished.time);
            last = last.max(finished.last);
            at_work = at_work.max(finished.at_work.unwrap_or(origin));
            complete &= finished.complete;
            self.collected.errors(finished.errors);
            finished.note.into_iter().for_each(|note| self.collected.note(note));
        }
        let execution = &mut self.collected.execution;
        (execution.failed, execution.first_error) = (failed.operations, failed.first.map(|(_, errno)| errno));
        let stopped = failure.is_some()
            || !settled
                && match workload.stop {
                    Stop::Runtime(_) => ended < end,
                    Stop::Size(_) => !complete && ended < end,
                };
        if stopped && ended <= measure {
            return Err(failure.unwrap_or(EngineError::Stopped { seen: None }));
        }
        let mut until = if stopped {
            ended
        } else if end < Instant::NEVER && !complete && !settled {
            end
        } else {
            last.unwrap_or(measure)
        };
        if workload.end_fsync && !stopped {
            failure = fsync(shared).err();
            until += clock.now() - ended;
        }
        // What is read back afterwards is none of it.
        if (complete || workload.details.verify) && !stopped {
            shared.control.edges.tell(Edge::Done, shared.seed);
        }
        let elapsed = until - measure;
        let cpu = cpu_use(&jobs, seen.process, seen.collector, elapsed);
        self.notes(stopped, failure.as_ref(), elapsed);
        let mut part = Part { started_unix, elapsed, cpu };
        if let (Some(gate), Some(agreed)) = (gate.as_deref(), agreed) {
            // Of what was cut short everything is told that was seen.
            let ran = Window { from: at_work - measure, until: elapsed };
            let counts = match stopped || failure.is_some() {
                true => Some(Window { from: Nanos(0), until: elapsed }),
                false => gate.counts(ran, at_work - agreed, &|| shared.must_stop()),
            };
            let counts = counts.ok_or(EngineError::Stopped { seen: None })?;
            part = self.cut(part, counts, times.interval);
        }
        let Part { started_unix, elapsed, cpu } = part;
        let mut samples = self.collected.finish(shared, started_unix, elapsed, cpu);
        samples.notes.extend(samples.own_lateness());
        match failure {
            Some(cause) => Err(EngineError::CutShort { cause: Box::new(cause), seen: Box::new(samples) }),
            None if stopped => Err(EngineError::Stopped { seen: Some(Box::new(samples)) }),
            None => Ok((samples, self.begun)),
        }
    }

    /// Waits until every job is set up; the first that cannot be ends the trial.
    fn wait_until_ready(&mut self) -> Result<(), EngineError> {
        for _ in 0..self.lines.len() {
            match self.messages.recv() {
                Ok(Message::Ready(notes)) => notes.into_iter().for_each(|note| self.collected.note(note)),
                Ok(Message::Finished { result: Err(error) }) => return Err(error),
                _ => return Err(died()),
            }
        }
        Ok(())
    }

    /// Waits at `gate` until all begin; the instant that was agreed.
    fn wait_for_others(&mut self, gate: &dyn Gate) -> Result<Instant, EngineError> {
        let shared = self.shared;
        self.collected.wait();
        gate.begin(&|| shared.must_stop()).ok_or(EngineError::Stopped { seen: None })
    }

    /// Cuts the trial to the whole intervals in `counts`.
    fn cut(&mut self, part: Part, counts: Window, interval: Nanos) -> Part {
        let (first, number) = counts.whole_intervals(interval, part.elapsed);
        self.collected.count(first, number);
        let from = interval.times(first);
        let until = interval.times(first + number).min(part.elapsed);
        let elapsed = Nanos(until.0.saturating_sub(from.0));
        let share = |time: Nanos| match part.elapsed.0 {
            0 => time,
            all => Nanos((u128::from(time.0) * u128::from(elapsed.0) / u128::from(all)) as u64),
        };
        // A thread's time is not known interval by interval.
        let cpu = CpuUse {
            load_user: share(part.cpu.load_user),
            load_system: share(part.cpu.load_system),
            ..part.cpu
        };
        Part { started_unix: part.started_unix + from, elapsed, cpu }
    }

    /// Waits for `delay`, unless the trial is stopped meanwhile.
    fn wait_for_start(&self, delay: Nanos) -> Result<(), EngineError> {
        let clock = self.shared.clock;
        let start = clock.now() + delay;
        loop {
            let left = start - clock.now();
            if left == Nanos(0) {
                return Ok(());
            }
            if self.shared.must_stop() {
                return Err(EngineError::Stopped { seen: None });
            }
            thread::sleep(Duration::from_nanos(left.min(TICK).0));
        }
    }

    /// Adds records up until every job has ended, and ends them before their time where what is seen says so.
    fn collect(&mut self, measure: Instant) -> CollectorView {
        let clock = self.shared.clock;
        let mut start = None;
        let mut results = Vec::new();
        let mut failure = None;
        let mut looking = StepWatcher::of(self.shared.workload, self.lines.len());
        while results.len() < self.lines.len() {
            let wait = if start.is_none() { measure - clock.now() } else { Nanos(u64::MAX) };
            match self.messages.recv_timeout(Duration::from_nanos(wait.0)) {
                Ok(Message::Record { job, mut record, last }) => {
                    self.collected.add(&record);
                    // A job that is ended before its time has no whole interval at its end.
                    let looking = looking.as_mut().filter(|_| !last || !self.shared.must_stop());
                    match looking.map_or(Follows::Nothing, |looking| looking.saw(job, &record, last)) {
                        Follows::Nothing => {}
                        Follows::Steady => self.shared.enough.store(true, Ordering::Relaxed),
                        Follows::TooSlow(error) => {
                            self.shared.failed.store(true, Ordering::Relaxed);
                            failure.get_or_insert(error);
                        }
                    }
                    record.clear();
                    let _ = self.lines[job].recycle.send(record);
                }
                Ok(Message::Finished { result }) => {
                    results.push(result.map(|finished| *finished));
                    looking.iter_mut().for_each(StepWatcher::ended);
                }
                Ok(Message::Ready(_)) => {}
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    results.push(Err(died()));
                    break;
                }
            }
            if start.is_none() && clock.now() >= measure {
                start = Some((CpuTime::of_process(), CpuTime::of_thread()));
            }
        }
        let (process, collector) = start.unwrap_or((CpuTime::of_process(), CpuTime::of_thread()));
        CollectorView {
            results,
            failure,
            steadied: looking.and_then(|looking| looking.steadied()),
            process: CpuTime::of_process().since(process),
            collector: CpuTime::of_thread().since(collector),
        }
    }

    /// What the reader must know about the trial as a whole.
    fn notes(&mut self, stopped: bool, failure: Option<&EngineError>, elapsed: Nanos) {
        let drift = self.shared.clock.drift();
        // 0.1% of the trial, and more than a reading may be interrupted for.
        if drift > Nanos::from_millis(1) && drift.0 > elapsed.0 / 1000 {
            let drift = format_latency(drift.0 as f64);
            self.collected
                .note(format!("the CPU's clock and the kernel's differ by {drift}: was the machine moved?"));
        }
        let seconds = elapsed.as_secs_f64();
        if let Some(error) = failure {
            self.collected.note(format!("cut short after {seconds:.1} s by a failure: {error}"));
        } else if stopped {
            self.collected.note(format!("stopped after {seconds:.1} s"));
        }
    }
}

/// The part of a trial that counts.
struct Part {
    started_unix: UnixTime,
    elapsed: Nanos,
    cpu: CpuUse,
}

/// What the collector has seen.
struct CollectorView {
    results: Vec<Result<Finished, EngineError>>,
    /// That it was slower than it has to be.
    failure: Option<EngineError>,
    /// Whether it became steady, where that was waited for.
    steadied: Option<SteadyResult>,
    /// CPU of the process during the measurement.
    process: CpuTime,
    /// CPU of the collecting thread during the measurement.
    collector: CpuTime,
}

fn died() -> EngineError {
    EngineError::System { what: "run a job", source: std::io::Error::other("its thread ended unexpectedly") }
}

/// Makes everything written durable, all members at the same time.
fn fsync(shared: &Shared<'_>) -> Result<(), EngineError> {
    let members = &shared.target.members;
    thread::scope(|scope| {
        let waits: Vec<_> = members.iter().map(|m| (m, scope.spawn(|| m.file.sync_all()))).collect();
        waits.into_iter().try_for_each(|(member, wait)| match wait.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(EngineError::Member {
                member: member.name.clone(),
                op: None,
                offset: MemberOffset::START,
                length: member.size,
                cause: MemberFailure::Errno(error.raw_os_error().unwrap_or(libc::EIO)),
            }),
            Err(_) => Err(died()),
        })
    })
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
