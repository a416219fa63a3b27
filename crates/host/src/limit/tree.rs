//! A program with all the processes that it has started, and what they have moved, from `/proc/PID`.

use super::hold::{bit, signals};
use crate::sys::process::{self, Stat};
use crate::sys::{self, Sys};
use ebbtide_model::limit::{Counts, Member};
use ebbtide_model::shown::one_line;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;

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
    /// `R`, `S`, `D`, `T` (stopped), `t` (traced), `Z` (ended, not yet waited for); of its first thread.
    pub state: char,
    /// How many threads it has.
    pub threads: u64,
    /// Its process group.
    pub group: i64,
    /// Its session.
    pub session: i64,
    /// Whether its group is in the foreground of its terminal.
    pub is_foreground: bool,
    /// Whether it is the kernel's own.
    pub is_kernel: bool,
}

impl Process {
    /// Number and beginning are one process.
    pub fn id(&self) -> (u32, u64) {
        (self.pid, self.start)
    }

    /// The process `pid`, where there is one.
    pub fn look(sys: &Sys, pid: u32) -> Option<Process> {
        parse(&sys::text(&sys.proc.join(pid.to_string()).join("stat"))?)
    }

    /// Whether it has ended, although nobody has waited for it: others of its threads may go on without the first.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }

    /// Whether it is stopped or traced.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
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
        threads: stat.threads()?,
        group: stat.signed(5)?,
        session: stat.signed(6)?,
        is_foreground: stat.signed(7)? != 0 && stat.signed(8)? == stat.signed(5)?,
        start: stat.start()?,
    })
}

/// Whether one of the threads of the process `pid` has a realtime policy (`SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`).
pub fn is_realtime(sys: &Sys, pid: u32) -> bool {
    let tasks = sys.proc.join(pid.to_string()).join("task");
    let policy = |task: String| Stat::parse(&sys::text(&tasks.join(task).join("stat"))?)?.policy();
    sys::names(&tasks).into_iter().filter_map(policy).any(|policy| matches!(policy, 1 | 2 | 6))
}

/// What `/proc/PID/io` says, and that of a thread in the same way.
fn io(text: &str) -> Option<Counts> {
    Some(Counts([process::io(text, "read_bytes")?, process::io(text, "write_bytes")?, 0]))
}

/// What children that this process has waited for have moved, with theirs: its own count has it, those of its threads do not.
pub fn waited(sys: &Sys) -> Counts {
    let own = sys.proc.join("self");
    let of = |file: PathBuf| sys::text(&file).as_deref().and_then(io).unwrap_or_default();
    let threads = sys::names(&own.join("task"));
    let threads = threads.iter().map(|thread| of(own.join("task").join(thread).join("io")));
    of(own.join("io")).minus(threads.fold(Counts::default(), Counts::plus))
}

/// A program and all that it has started.
#[derive(Debug)]
pub struct Tree {
    sys: Sys,
    /// The children of this process belong to it, but for strangers; it adopts those that lose their parent.
    is_own: bool,
    /// Children that this process had before, and theirs.
    strangers: BTreeMap<u32, u64>,
    known: BTreeMap<u32, (Process, Counts)>,
    told: BTreeSet<(u32, u64)>,
}

impl Tree {
    /// `process`, and what it has started and starts; without one, what this process starts from now on.
    ///
    /// # Errors
    /// When the kernel does not list children.
    pub fn new(sys: &Sys, process: Option<Process>) -> io::Result<Tree> {
        if !sys.proc.join("thread-self/children").exists() {
            return Err(io::Error::other("this kernel does not list children (CONFIG_PROC_CHILDREN)"));
        }
        let is_own = process.is_none();
        let known = process.map(|process| (process.pid, (process, Counts::default()))).into_iter().collect();
        let (strangers, told) = (BTreeMap::new(), BTreeSet::new());
        let mut tree = Tree { sys: sys.clone(), is_own, strangers, known, told };
        if is_own {
            let strangers = tree.walk(tree.children(std::process::id()));
            tree.strangers = strangers.into_iter().map(|(process, _)| process.id()).collect();
        }
        Ok(tree)
    }

    /// The process numbers that belong to it, as of the last look.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.known.keys().copied()
    }

    /// Those that live, as of the last look, parents before their children: a parent is never younger.
    pub fn alive(&self) -> Vec<Process> {
        let alive = self.known.values().map(|(process, _)| process).filter(|process| !process.has_ended());
        let mut alive: Vec<Process> = alive.cloned().collect();
        alive.sort_by_key(|process| (process.start, process.pid));
        alive
    }

    /// Looks for who belongs now, and at what each has moved; and those that cannot be counted, each once, with the reason. Parents
    /// come before their children: a child that ends and is waited for meanwhile is missed until the next look, where the other
    /// way round it would count twice, by itself and with its parent.
    pub fn look(&mut self) -> (Vec<Member>, Vec<String>) {
        // Numbers are used again.
        let lives = |pid, start| Process::look(&self.sys, pid).is_some_and(|now| now.start == start);
        let strangers = std::mem::take(&mut self.strangers).into_iter();
        let strangers = strangers.filter(|(pid, start)| lives(*pid, *start)).map(|(pid, _)| pid).collect();
        self.strangers = self.walk(strangers).into_iter().map(|(process, _)| process.id()).collect();
        let known = self.alive().into_iter().filter(|known| lives(known.pid, known.start));
        let mut roots: Vec<u32> = known.map(|known| known.pid).collect();
        if self.is_own {
            roots.extend(self.children(std::process::id()));
        }
        let before = std::mem::take(&mut self.known);
        let (mut members, mut uncounted) = (Vec::new(), Vec::new());
        for (process, children) in self.walk(roots) {
            let pid = process.pid;
            let start = process.start;
            let counts = sys::text(&self.sys.proc.join(pid.to_string()).join("io")).as_deref().and_then(io);
            // It may have ended since it was looked at.
            let lives = || Process::look(&self.sys, pid).is_some_and(|now| !now.has_ended());
            let is_foreign = counts.is_none() && lives();
            let known = before.get(&pid).filter(|(known, _)| known.start == start);
            let counts = counts.or(known.map(|(_, counts)| *counts)).unwrap_or_default();
            let forgets =
                !children.is_empty() && signals(&self.sys, pid, "SigIgn:") & bit(Signal::CHILD) != 0;
            if (is_foreign || forgets) && self.told.insert((pid, start)) {
                let why = match is_foreign {
                    true => "is not counted: root alone may read what it moves; run ebb as root",
                    false => {
                        "ignores SIGCHLD: what its children move after the last look at them is not counted, so the limit may be \
                         exceeded"
                    }
                };
                uncounted.push(format!("process {pid} ({}) {why}", one_line(&process.name)));
            }
            members.push(Member { pid, start, parent: process.parent, counts, forgets });
            self.known.insert(pid, (process, counts));
        }
        (members, uncounted)
    }

    /// The processes `roots` and all below them, each with its children, but for strangers.
    fn walk(&self, roots: Vec<u32>) -> Vec<(Process, Vec<u32>)> {
        let (mut queue, mut seen) = (VecDeque::from(roots), BTreeSet::new());
        let mut found = Vec::new();
        while let Some(pid) = queue.pop_front() {
            if self.strangers.contains_key(&pid) || !seen.insert(pid) {
                continue;
            }
            let Some(process) = Process::look(&self.sys, pid) else { continue };
            let children = self.children(pid);
            queue.extend(&children);
            found.push((process, children));
        }
        found
    }

    fn children(&self, pid: u32) -> Vec<u32> {
        let tasks = self.sys.proc.join(pid.to_string()).join("task");
        let names = sys::names(&tasks).into_iter();
        let lists = names.filter_map(|task| sys::text(&tasks.join(task).join("children")));
        lists
            .flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
            .collect()
    }
}

/// The processes above this one, the nearest first.
pub fn ancestors(sys: &Sys) -> Vec<u32> {
    let mut found = Vec::new();
    let mut pid = std::process::id();
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
    use ebbtide_model::limit::Kind;
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
        let mut tree = Tree::new(&sys, Process::look(&sys, shell.id())).expect("lists");
        let begin = Instant::now();
        let written = loop {
            let (members, uncounted) = tree.look();
            assert!(uncounted.is_empty());
            let sleeps = |process: &Process| process.name == "sleep";
            let written = members
                .iter()
                .find(|member| member.pid == shell.id())
                .map(|member| member.counts[Kind::Write]);
            // One that ended while the others were looked at is among them once more; what it wrote, its parent has at the next
            // look, where the parent was looked at before.
            if tree.alive().iter().any(sleeps)
                && members.len() == 2
                && written.is_some_and(|bytes| bytes >= 3 << 20)
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
        tree.look();
        assert!(tree.pids().eq([sleep]));
        Command::new("kill").arg(sleep.to_string()).status().expect("ends");
        let begin = Instant::now();
        while !tree.alive().is_empty() {
            tree.look();
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive() {
        let stat = |threads: u32| {
            let text = format!("7 (mt) Z 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 9 0 0 0");
            parse(&text).expect("parses").has_ended()
        };
        assert_eq!((stat(1), stat(2)), (true, false));
    }

    #[test]
    fn the_first_process_is_everybody_s_ancestor() {
        assert_eq!(ancestors(&Sys::host()).last(), Some(&1));
    }
}
