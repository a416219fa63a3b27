//! Who used the processors while a trial ran, and for how long somebody waited for one.

use super::timeline::read_into;
use crate::sys::{self, Sys};
use ebbtide_model::samples::ProcessorUser;
use ebbtide_model::units::Nanos;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Nanoseconds of a tick in `/proc/PID/stat`: USER_HZ is 100 on every architecture that Linux supports today.
const TICK: u64 = 10_000_000;
/// Most users that are kept.
const MOST: usize = 8;
/// Share of one processor from which on a user is worth naming.
const LEAST: f64 = 0.05;

/// Who uses processors: a process, or all workers of the kernel that work for one of its queues.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum User {
    Process(u32, String),
    Queue(String),
}

impl User {
    /// A worker's name ends with the queue that it works for (`+`) or worked for last (`-`): `kworker/u8:3+kcryptd/253:0`.
    fn of(pid: u32, name: &str) -> User {
        let worker = name.strip_prefix("kworker/");
        let queue = worker.and_then(|worker| worker.split_once(['+', '-'])).map(|(_, queue)| queue);
        match queue.filter(|queue| !queue.is_empty()) {
            Some(queue) => User::Queue(queue.to_owned()),
            None => User::Process(pid, name.to_owned()),
        }
    }

    fn name(&self) -> String {
        match self {
            User::Process(pid, name) => format!("{name} (pid {pid})"),
            User::Queue(queue) => format!("{queue} (kworkers)"),
        }
    }
}

/// CPU time of a user since the first look, in ticks, at the looks at which it had grown.
#[derive(Debug, Default)]
struct Used {
    all: Ticks,
    /// Those on the load's processors.
    beside: Ticks,
}

#[derive(Debug, Default)]
struct Ticks {
    ticks: u64,
    readings: Vec<(Duration, u64)>,
}

impl Ticks {
    /// They grew by this from the look `last` to that at `at`.
    fn grow(&mut self, by: u64, last: Option<Duration>, at: Duration) {
        if by == 0 {
            return;
        }
        // They stood still until the look before this one.
        let stood = last.filter(|last| self.readings.last().is_none_or(|(at, _)| last > at));
        self.readings.extend(stood.map(|last| (last, self.ticks)));
        self.ticks = self.ticks.saturating_add(by);
        self.readings.push((at, self.ticks));
    }

    fn time(&self, from: Duration, to: Duration) -> Nanos {
        let ticks = between(&self.readings, to) - between(&self.readings, from);
        Nanos((ticks.max(0.0) * TICK as f64) as u64)
    }
}

/// CPU time of everybody over time.
pub(super) struct Processors {
    sys: Sys,
    own: u32,
    /// The processors that the load is bound to; none where it may run on any.
    cpus: Vec<u32>,
    /// Ticks of each process at the last look.
    seen: BTreeMap<u32, u64>,
    /// Ticks of each thread of processes with several, where the load is bound.
    threads: BTreeMap<u32, u64>,
    users: BTreeMap<User, Used>,
    pressure: Vec<(Duration, u64)>,
    last_look: Option<Duration>,
    buffer: String,
}

impl Processors {
    pub fn new(sys: &Sys, cpus: &[u32]) -> Processors {
        Processors {
            sys: sys.clone(),
            own: std::process::id(),
            cpus: cpus.to_vec(),
            seen: BTreeMap::new(),
            threads: BTreeMap::new(),
            users: BTreeMap::new(),
            pressure: Vec::new(),
            last_look: None,
            buffer: String::new(),
        }
    }

    pub fn look(&mut self, at: Duration) {
        let (mut now, mut threads) = (BTreeMap::new(), BTreeMap::new());
        let mut grown: BTreeMap<User, (u64, u64)> = BTreeMap::new();
        let first = self.last_look.is_none();
        for pid in numbers(&self.sys.proc).filter(|pid| *pid != self.own) {
            let place = self.sys.proc.join(pid.to_string());
            if !read_into(&place.join("stat"), &mut self.buffer) {
                continue;
            }
            let Some(stat) = parse_stat(&self.buffer) else { continue };
            let by = growth(&self.seen, first, pid, stat.ticks);
            now.insert(pid, stat.ticks);
            let user = User::of(pid, stat.name);
            let mut beside = if stat.runs_on(&self.cpus) { by } else { 0 };
            if stat.threads > 1 && !self.cpus.is_empty() {
                beside = 0;
                for thread in numbers(&place.join("task")) {
                    let file = place.join("task").join(thread.to_string()).join("stat");
                    if read_into(&file, &mut self.buffer)
                        && let Some(stat) = parse_stat(&self.buffer)
                    {
                        let by = growth(&self.threads, first, thread, stat.ticks);
                        beside += if stat.runs_on(&self.cpus) { by } else { 0 };
                        threads.insert(thread, stat.ticks);
                    }
                }
            }
            if by > 0 {
                let sums = grown.entry(user).or_default();
                *sums = (sums.0 + by, sums.1 + beside);
            }
        }
        for (user, (all, beside)) in grown {
            let used = self.users.entry(user).or_default();
            used.all.grow(all, self.last_look, at);
            used.beside.grow(beside, self.last_look, at);
        }
        (self.seen, self.threads) = (now, threads);
        if let Some(total) =
            sys::text(&self.sys.proc.join("pressure/cpu")).and_then(|text| total(&text, "some"))
        {
            self.pressure.push((at, total));
        }
        self.last_look = Some(at);
    }

    /// Who used the processors from `from` to `to`, the busiest first.
    pub fn users(&self, from: Duration, to: Duration) -> Vec<ProcessorUser> {
        let least = LEAST * to.saturating_sub(from).as_secs_f64();
        let used = self.users.iter().filter_map(|(user, used)| {
            let time = used.all.time(from, to);
            let beside = (!self.cpus.is_empty()).then(|| used.beside.time(from, to));
            (time.as_secs_f64() > least).then(|| ProcessorUser { who: user.name(), time, beside })
        });
        let mut users: Vec<ProcessorUser> = used.collect();
        users.sort_by_key(|user| std::cmp::Reverse((user.beside, user.time)));
        users.truncate(MOST);
        users
    }

    /// Time from `from` to `to` in which somebody waited for a processor, where the kernel tells.
    pub fn waited(&self, from: Duration, to: Duration) -> Option<Nanos> {
        let grown = || between(&self.pressure, to) - between(&self.pressure, from);
        (self.pressure.len() > 1).then(|| Nanos((grown().max(0.0) * 1e3) as u64))
    }
}

/// The counter at `at`, between the readings around it; the first before all, the last after.
pub(super) fn between(readings: &[(Duration, u64)], at: Duration) -> f64 {
    let next = readings.partition_point(|(time, _)| *time < at);
    let (Some((begin, low)), Some((end, high))) =
        (next.checked_sub(1).and_then(|before| readings.get(before)), readings.get(next))
    else {
        let nearest = if next == 0 { readings.first() } else { readings.last() };
        return nearest.map_or(0.0, |(_, value)| *value as f64);
    };
    let share = (at - *begin).as_secs_f64() / (*end - *begin).as_secs_f64().max(1e-9);
    *low as f64 + (high.saturating_sub(*low)) as f64 * share
}

/// Names in a directory that are numbers: processes, or threads of one.
fn numbers(directory: &Path) -> impl Iterator<Item = u32> + use<> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok())
}

/// Ticks since the last look. What appeared since then has used all its time since; less than before is another under the same
/// number.
fn growth(seen: &BTreeMap<u32, u64>, first: bool, number: u32, ticks: u64) -> u64 {
    let before = seen.get(&number).filter(|before| **before <= ticks).copied();
    ticks - before.unwrap_or(if first { ticks } else { 0 })
}

/// What `/proc/PID/stat` says (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat<'a> {
    /// It may hold anything, also brackets.
    name: &'a str,
    /// Of user and system time.
    ticks: u64,
    threads: u64,
    /// The processor that it last ran on.
    cpu: Option<u32>,
}

impl Stat<'_> {
    fn runs_on(&self, cpus: &[u32]) -> bool {
        self.cpu.is_some_and(|cpu| cpus.contains(&cpu))
    }
}

fn parse_stat(text: &str) -> Option<Stat<'_>> {
    let (front, after) = text.rsplit_once(')')?;
    let (_, name) = front.split_once('(')?;
    // After the name: state is the third field, utime the 14th, stime the 15th, num_threads the 20th, processor the 39th.
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        name,
        ticks: number(14)?.saturating_add(number(15)?),
        threads: number(20).unwrap_or(1),
        cpu: number(39).and_then(|cpu| cpu.try_into().ok()),
    })
}

/// Microseconds since boot in which `some` task waited, or all did (`full`), from a file of `/proc/pressure`.
pub(super) fn total(text: &str, whose: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(whose)?.strip_prefix(' '))?;
    line.split_ascii_whitespace().find_map(|w| w.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    /// Recorded on Linux 6.18; the name of a kernel thread has a bracket of its own.
    const STAT: &str = "4711 (kworker/u8:3+a) b) R 2 0 0 0 -1 69238880 0 0 0 0 12 345 0 0 20 0 1 0 311 0 0 18446744073709551615 \
                        0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";

    fn tree(ticks: u64, waited_us: u64) -> tempfile::TempDir {
        unpack(&format!(
            "f /proc/4711/stat\n|4711 (hog) R 2 0 0 0 -1 69238880 0 0 0 0 12 {ticks} 0 0 20 0 1 0 311 0\n\
             f /proc/pressure/cpu\n|some avg10=1.00 avg60=1.00 avg300=1.00 total={waited_us}\n|full avg10=0.00 total=0\n"
        ))
    }

    #[test]
    fn a_process_is_named_with_what_it_used_meanwhile() {
        let expected = Stat { name: "kworker/u8:3+a) b", ticks: 357, threads: 1, cpu: Some(1) };
        assert_eq!(parse_stat(STAT), Some(expected));
        assert_eq!(parse_stat("4711 (x) R 1"), None);
        let seconds = Duration::from_secs;
        let mut processors = Processors::new(&Sys::below(tree(0, 0).path()), &[]);
        for (at, ticks, waited) in [(0, 100, 0), (1, 190, 500_000), (2, 280, 900_000), (3, 280, 900_000)] {
            let root = tree(ticks, waited);
            processors.sys = Sys::below(root.path());
            processors.look(seconds(at));
        }
        let used = |from, to| processors.users(seconds(from), seconds(to));
        let expected =
            ProcessorUser { who: "hog (pid 4711)".into(), time: Nanos::from_millis(1800), beside: None };
        assert_eq!(used(0, 2), [expected]);
        assert_eq!(used(2, 3), []);
        assert_eq!(processors.waited(seconds(0), seconds(2)), Some(Nanos::from_millis(900)));
        let half = processors.users(Duration::from_millis(500), seconds(1));
        assert_eq!(half[0].time, Nanos::from_millis(450));
    }

    /// Names as Linux 6.1 gives them; a worker goes from one queue to another.
    #[test]
    fn workers_count_for_the_queue_that_they_work_for() {
        assert_eq!(User::of(7, "kworker/u8:3-kcryptd/253:0"), User::Queue("kcryptd/253:0".into()));
        assert_eq!(User::of(7, "kworker/u8:3"), User::Process(7, "kworker/u8:3".into()));
        assert_eq!(User::of(7, "dmcrypt_write/253:0"), User::Process(7, "dmcrypt_write/253:0".into()));
        let stat = |pid: u32, name: &str, ticks: u64| {
            format!(
                "f /proc/{pid}/stat\n|{pid} ({name}) I 2 0 0 0 -1 69238880 0 0 0 0 0 {ticks} 0 0 20 0 1 0 311 0\n"
            )
        };
        let mut processors = Processors::new(&Sys::below(unpack("d /proc\n").path()), &[]);
        for (at, first, second) in [
            (0, ("kworker/u8:1-events_unbound", 500), ("kworker/u8:2+kcryptd/253:0", 100)),
            (1, ("kworker/u8:1+kcryptd/253:0", 540), ("kworker/u8:2+kcryptd/253:0", 160)),
            (2, ("kworker/u8:1-kcryptd/253:0", 580), ("kworker/u8:2-flush-254:0", 190)),
        ] {
            let root = unpack(&format!("{}{}", stat(5, first.0, first.1), stat(6, second.0, second.1)));
            processors.sys = Sys::below(root.path());
            processors.look(Duration::from_secs(at));
        }
        let users = processors.users(Duration::ZERO, Duration::from_secs(2));
        let user =
            |who: &str, ms| ProcessorUser { who: who.into(), time: Nanos::from_millis(ms), beside: None };
        assert_eq!(users, [user("kcryptd/253:0 (kworkers)", 1400), user("flush-254:0 (kworkers)", 300)]);
    }

    /// The load is bound to processor 1: one process runs there all along, one elsewhere, one has a thread on each.
    #[test]
    fn beside_a_bound_load_counts_what_runs_on_its_processors() {
        let stat = |name: &str, ticks: u64, threads: u32, cpu: u32| {
            format!(
                "|7 ({name}) R 1 7 7 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 {threads} 0 311 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 \
                 {cpu} 0 0 0\n"
            )
        };
        let mut processors = Processors::new(&Sys::below(unpack("d /proc\n").path()), &[1]);
        for at in 0..=2u64 {
            let root = unpack(&format!(
                "f /proc/11/stat\n{}f /proc/12/stat\n{}f /proc/13/stat\n{}f /proc/13/task/13/stat\n{}f /proc/13/task/14/stat\n{}",
                stat("near", 50 * at, 1, 1),
                stat("far", 100 * at, 1, 0),
                stat("both", 110 * at, 2, 0),
                stat("both", 80 * at, 2, 0),
                stat("both", 30 * at, 2, 1),
            ));
            processors.sys = Sys::below(root.path());
            processors.look(Duration::from_secs(at));
        }
        let users = processors.users(Duration::ZERO, Duration::from_secs(2));
        let user = |who: &str, ms, beside| ProcessorUser {
            who: who.into(),
            time: Nanos::from_millis(ms),
            beside: Some(Nanos::from_millis(beside)),
        };
        let expected = [
            user("near (pid 11)", 1000, 1000),
            user("both (pid 13)", 2200, 600),
            user("far (pid 12)", 2000, 0),
        ];
        assert_eq!(users, expected);
    }

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        let root = unpack("d /proc\n");
        let mut processors = Processors::new(&Sys::below(root.path()), &[]);
        processors.look(Duration::ZERO);
        processors.look(Duration::from_secs(1));
        assert!(processors.users(Duration::ZERO, Duration::from_secs(1)).is_empty());
        assert_eq!(processors.waited(Duration::ZERO, Duration::from_secs(1)), None);
    }
}
