//! A program with all the processes that it has started, and what they have moved, from `/proc/PID`.

use crate::sys::process::{self, Stat};
use crate::sys::{self, Sys};
use ebbtide_model::limit::{Counts, Kind, Member};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

/// SIGCHLD in the mask of ignored signals.
const CHILD: u32 = 17;

/// A process, as `/proc/PID/stat` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its process ID.
    pub pid: u32,
    /// When it began, in clock ticks since boot.
    pub start: u64,
    /// Number of its parent.
    pub parent: u32,
    /// The name of its program, up to 15 bytes.
    pub name: String,
    /// `R`, `S`, `D`, `T` (stopped), `t` (traced), `Z` (ended, not yet waited for).
    pub state: char,
    /// Whether it is the kernel's own.
    pub is_kernel: bool,
}

impl Process {
    /// The process `pid`, where there is one.
    pub fn look(sys: &Sys, pid: u32) -> Option<Process> {
        parse(&sys::text(&sys.proc.join(pid.to_string()).join("stat"))?)
    }

    /// Whether it has ended, although nobody has waited for it.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

fn parse(stat: &str) -> Option<Process> {
    let stat = Stat::parse(stat)?;
    Some(Process {
        pid: stat.pid,
        name: stat.name.to_owned(),
        state: stat.state()?,
        parent: stat.parent()?,
        is_kernel: stat.is_kernel()?,
        start: stat.start()?,
    })
}

/// What `/proc/PID/io` says, and that of a thread in the same way.
fn io(text: &str) -> Option<Counts> {
    let value = |key| process::io(text, key);
    let mut counts = Counts::default();
    counts[Kind::Read] = value("read_bytes")?;
    counts[Kind::Write] = value("write_bytes")?;
    counts[Kind::Ops] = value("syscr")?.saturating_add(value("syscw")?);
    Some(counts)
}

/// What children that this process has waited for have moved, with theirs: its own count has it, those of its threads do not.
pub fn waited(sys: &Sys) -> Counts {
    let own = sys.proc.join("self");
    let of = |file: PathBuf| sys::text(&file).as_deref().and_then(io).unwrap_or_default();
    let threads = sys::names(&own.join("task"));
    let threads = threads.iter().map(|thread| of(own.join("task").join(thread).join("io")));
    of(own.join("io")).minus(threads.fold(Counts::default(), Counts::plus))
}

/// Where the tree of processes begins.
#[derive(Debug, Clone, Copy)]
enum Root {
    /// All children of this process, which adopts those that lose their parent.
    Own,
    /// One process and what it has started.
    Other,
}

/// A program and all that it has started.
#[derive(Debug)]
pub struct Tree {
    sys: Sys,
    root: Root,
    /// Whether the kernel lists children (`CONFIG_PROC_CHILDREN`).
    lists: bool,
    known: BTreeMap<u32, (Process, Counts)>,
    told: BTreeSet<(u32, u64)>,
}

impl Tree {
    /// What this process starts from now on.
    pub fn own(sys: &Sys) -> Tree {
        Tree::new(sys, Root::Own, BTreeMap::new())
    }

    /// `process`, and what it has started and starts.
    pub fn of(sys: &Sys, process: Process) -> Tree {
        Tree::new(sys, Root::Other, BTreeMap::from([(process.pid, (process, Counts::default()))]))
    }

    fn new(sys: &Sys, root: Root, known: BTreeMap<u32, (Process, Counts)>) -> Tree {
        let own = sys.proc.join("self/task").join(std::process::id().to_string());
        Tree { lists: own.join("children").exists(), sys: sys.clone(), root, known, told: BTreeSet::new() }
    }

    /// The process numbers that belong to it, as of the last look.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.known.keys().copied()
    }

    /// Those that live, as of the last look.
    pub fn alive(&self) -> impl Iterator<Item = &Process> {
        self.known.values().map(|(process, _)| process).filter(|process| !process.has_ended())
    }

    /// Looks for who belongs now, but for the process `besides`, and at what each has moved; and those that cannot be counted,
    /// each once. Parents come before their children: a child that ends and is waited for meanwhile is missed until the next
    /// look, where the other way round it would count twice, by itself and with its parent.
    pub fn look(&mut self, besides: Option<u32>) -> (Vec<Member>, Vec<Process>) {
        let all = if self.lists { BTreeMap::new() } else { self.scan() };
        let before = std::mem::take(&mut self.known);
        // Numbers are used again.
        let lives = |known: &&Process| {
            Process::look(&self.sys, known.pid).is_some_and(|now| now.start == known.start)
        };
        let mut queue = VecDeque::from_iter(
            eldest_first(before.values().map(|(process, _)| process))
                .into_iter()
                .filter(lives)
                .map(|known| known.pid),
        );
        if matches!(self.root, Root::Own) {
            queue.extend(
                self.children(std::process::id(), &all).into_iter().filter(|child| Some(*child) != besides),
            );
        }
        let mut uncounted = Vec::new();
        let mut parents = BTreeSet::new();
        while let Some(pid) = queue.pop_front() {
            if self.known.contains_key(&pid) {
                continue;
            }
            let Some(process) = Process::look(&self.sys, pid) else { continue };
            let known = before.get(&pid).filter(|(known, _)| known.start == process.start);
            let file = self.sys.proc.join(pid.to_string()).join("io");
            let counts = match sys::text(&file).as_deref().and_then(io) {
                Some(counts) => counts,
                None => {
                    // It may have ended since it was looked at.
                    let now = Process::look(&self.sys, pid);
                    let lives = now.is_some_and(|now| now.start == process.start && !now.has_ended());
                    if lives && self.told.insert((pid, process.start)) {
                        uncounted.push(process.clone());
                    }
                    known.map(|(_, counts)| *counts).unwrap_or_default()
                }
            };
            self.known.insert(pid, (process, counts));
            let children = self.children(pid, &all);
            if !children.is_empty() {
                parents.insert(pid);
            }
            queue.extend(children);
        }
        let member = |(pid, (process, counts)): (&u32, &(Process, Counts))| Member {
            pid: *pid,
            start: process.start,
            parent: process.parent,
            counts: *counts,
            forgets: parents.contains(pid) && self.forgets(*pid),
        };
        (self.known.iter().map(member).collect(), uncounted)
    }

    fn forgets(&self, pid: u32) -> bool {
        let status = sys::text(&self.sys.proc.join(pid.to_string()).join("status")).unwrap_or_default();
        let mask = sys::field(&status, "SigIgn:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        mask.unwrap_or(0) >> (CHILD - 1) & 1 == 1
    }

    /// Children of each process, where the kernel has no list of them.
    fn scan(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for pid in sys::names(&self.sys.proc).iter().filter_map(|name| name.parse().ok()) {
            if let Some(process) = Process::look(&self.sys, pid) {
                children.entry(process.parent).or_default().push(pid);
            }
        }
        children
    }

    fn children(&self, pid: u32, all: &BTreeMap<u32, Vec<u32>>) -> Vec<u32> {
        if !self.lists {
            return all.get(&pid).cloned().unwrap_or_default();
        }
        let tasks = self.sys.proc.join(pid.to_string()).join("task");
        let lists =
            sys::names(&tasks).into_iter().filter_map(|task| sys::text(&tasks.join(task).join("children")));
        let numbers =
            |list: String| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>();
        lists.flat_map(numbers).collect()
    }
}

/// Parents before their children, whatever their numbers: a parent is never younger, and of those that began in the same clock
/// tick the one that another names.
fn eldest_first<'a>(known: impl Iterator<Item = &'a Process>) -> Vec<&'a Process> {
    let mut left: Vec<&Process> = known.collect();
    left.sort_by_key(|process| (process.start, process.pid));
    let mut sorted: Vec<&Process> = Vec::with_capacity(left.len());
    for process in left {
        let children =
            sorted.iter().position(|other| other.parent == process.pid && other.start == process.start);
        sorted.insert(children.unwrap_or(sorted.len()), process);
    }
    sorted
}

/// The processes above this one, the nearest first.
pub fn ancestors(sys: &Sys) -> Vec<u32> {
    ancestors_of(sys, std::process::id())
}

/// The processes above the process `pid`, the nearest first.
pub fn ancestors_of(sys: &Sys, pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut pid = pid;
    while let Some(process) = Process::look(sys, pid).filter(|process| process.parent != 0) {
        pid = process.parent;
        // What changes while it is read ends somewhere.
        if found.contains(&pid) {
            break;
        }
        found.push(pid);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "4242 (a) R 1 (b) S 17 4242 4242 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1 1";
        let process = parse(stat).expect("parses");
        assert_eq!((process.pid, process.parent, process.start), (4242, 17, 987_654));
        assert_eq!((process.name.as_str(), process.state, process.is_kernel), ("a) R 1 (b", 'S', false));
        for torn in ["", "1", "1 (a", "1 (a) S", "x (a) S 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9"] {
            assert_eq!(parse(torn), None, "{torn}");
        }
    }

    #[test]
    fn grandchildren_belong_and_what_ended_ones_wrote_is_their_parents() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file");
        let script =
            format!("dd if=/dev/zero of={} bs=1M count=3 2>&1; sleep 60", file.path().to_string_lossy());
        let mut shell =
            Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).spawn().expect("starts");
        let sys = Sys::host();
        let mut tree = Tree::of(&sys, Process::look(&sys, shell.id()).expect("it runs"));
        let begin = Instant::now();
        let written = loop {
            let (members, uncounted) = tree.look(None);
            assert!(uncounted.is_empty());
            let sleeps = |process: &Process| process.name == "sleep";
            let written = members
                .iter()
                .find(|member| member.pid == shell.id())
                .map(|member| member.counts[Kind::Write]);
            // One that ended while the others were looked at is among them once more; what it wrote, its parent has at the next
            // look, where the parent was looked at before.
            if tree.alive().any(sleeps) && members.len() == 2 && written.is_some_and(|bytes| bytes >= 3 << 20)
            {
                break written;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{members:?}");
        };
        // With what the file system writes about the file.
        assert!(written.is_some_and(|bytes| bytes < 4 << 20), "{written:?}");
        let sleep = tree.pids().find(|pid| *pid != shell.id()).expect("the other");
        shell.kill().and_then(|()| shell.wait()).expect("ends");
        // It belongs although its parent is gone.
        tree.look(None);
        assert!(tree.pids().eq([sleep]));
        Command::new("kill").arg(sleep.to_string()).status().expect("ends");
        let begin = Instant::now();
        while tree.alive().next().is_some() {
            tree.look(None);
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
    }

    #[test]
    fn parents_are_looked_at_before_their_children() {
        let process = |pid: u32, parent: u32, start: u64| Process {
            pid,
            start,
            parent,
            name: String::new(),
            state: 'S',
            is_kernel: false,
        };
        // Numbers that began anew after the greatest: the child's is smaller, in the same tick and later.
        let all = [
            process(300, 32_000, 17),
            process(301, 300, 17),
            process(302, 301, 18),
            process(32_000, 1, 17),
            process(299, 302, 18),
            process(32_700, 1, 3),
        ];
        let sorted = eldest_first(all.iter());
        let place = |pid: u32| sorted.iter().position(|process| process.pid == pid);
        assert_eq!(sorted.len(), all.len());
        for child in &all {
            assert!(place(child.parent) < place(child.pid), "{sorted:?}");
        }
    }

    #[test]
    fn the_first_process_is_everybody_s_ancestor() {
        assert_eq!(ancestors(&Sys::host()).last(), Some(&1));
    }
}
