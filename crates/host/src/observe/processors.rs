//! Who used the processors while a trial ran, and for how long somebody waited for one.

use super::counter::Counter;
use super::timeline::{TICK, read_into};
use crate::sys::process::Stat;
use crate::sys::{self, Sys};
use ebbtide_model::samples::ProcessorUser;
use ebbtide_model::units::Nanos;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

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
    readings: Counter,
}

impl Ticks {
    /// They grew by this from the look `last` to that at `at`.
    fn grow(&mut self, by: u64, last: Option<Duration>, at: Duration) {
        if by == 0 {
            return;
        }
        // They stood still until the look before this one.
        if let Some(last) = last.filter(|last| self.readings.last().is_none_or(|at| *last > at)) {
            self.readings.read(last, self.ticks);
        }
        self.ticks = self.ticks.saturating_add(by);
        self.readings.read(at, self.ticks);
    }

    fn time(&self, from: Duration, to: Duration) -> Nanos {
        Nanos((self.readings.grown(from, to).unwrap_or(0.0) * TICK as f64) as u64)
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
    pressure: Counter,
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
            pressure: Counter::default(),
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
            let Some(stat) = Stat::parse(&self.buffer) else { continue };
            let Some(ticks) = stat.ticks() else { continue };
            let by = growth(&self.seen, first, pid, ticks);
            now.insert(pid, ticks);
            let user = User::of(pid, stat.name);
            let mut beside = if runs_on(&stat, &self.cpus) { by } else { 0 };
            if stat.threads() > Some(1) && !self.cpus.is_empty() {
                beside = 0;
                for thread in numbers(&place.join("task")) {
                    let file = place.join("task").join(thread.to_string()).join("stat");
                    if read_into(&file, &mut self.buffer)
                        && let Some(stat) = Stat::parse(&self.buffer)
                        && let Some(ticks) = stat.ticks()
                    {
                        let by = growth(&self.threads, first, thread, ticks);
                        beside += if runs_on(&stat, &self.cpus) { by } else { 0 };
                        threads.insert(thread, ticks);
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
        let pressure = sys::text(&self.sys.proc.join("pressure/cpu"));
        self.pressure.read(at, pressure.and_then(|text| total(&text, "some")));
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
        self.pressure.grown(from, to).map(|us| Nanos((us * 1e3) as u64))
    }
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

fn runs_on(stat: &Stat<'_>, cpus: &[u32]) -> bool {
    stat.processor().is_some_and(|cpu| cpus.contains(&cpu))
}

/// Microseconds since boot in which `some` task waited, or all did (`full`), from a file of `/proc/pressure`.
pub(super) fn total(text: &str, whose: &str) -> Option<u64> {
    sys::field(text, whose)?.split_ascii_whitespace().find_map(|w| w.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    fn tree(ticks: u64, waited_us: u64) -> tempfile::TempDir {
        unpack(&format!(
            "f /proc/4711/stat\n|4711 (hog) R 2 0 0 0 -1 69238880 0 0 0 0 12 {ticks} 0 0 20 0 1 0 311 0\n\
             f /proc/pressure/cpu\n|some avg10=1.00 avg60=1.00 avg300=1.00 total={waited_us}\n|full avg10=0.00 total=0\n"
        ))
    }

    #[test]
    fn a_process_is_named_with_what_it_used_meanwhile() {
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
