//! What the threads of a program have moved, of `/proc/PID/task/TID/io`. That of a process has what the children moved that it waited for,
//! so a child would count twice; that of a thread is its own alone.

use crate::sys::process::{self, Process};
use crate::sys::{self, Sys};
use ebbtide_door::read::{self, ReadError};
use ebbtide_model::limit::Counts;
use ebbtide_model::shown::one_line;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

/// What each thread has moved, by process and thread.
pub type ByThread = BTreeMap<(u32, u32), Counts>;

/// Bytes of all that a program is and was.
#[derive(Debug)]
pub struct Moved {
    sys: Sys,
    /// As of the last look.
    tasks: ByThread,
    /// Of those that have ended.
    ended: Counts,
    told: BTreeSet<u32>,
}

impl Moved {
    /// That of nobody yet.
    pub fn new(sys: &Sys) -> Moved {
        Moved { sys: sys.clone(), tasks: BTreeMap::new(), ended: Counts::default(), told: BTreeSet::new() }
    }

    /// Looks at what all threads of `processes` have moved, those among them that the kernel has made for their requests. The sum, and who
    /// cannot be counted, each once.
    pub fn look(&mut self, processes: &BTreeSet<u32>) -> (Counts, Vec<String>) {
        let before = std::mem::take(&mut self.tasks);
        let mut uncounted = Vec::new();
        for process in processes {
            for task in sys::numbers(&self.sys.proc.join(process.to_string()).join("task")) {
                let known = before.get(&(*process, task)).copied();
                let (counts, refused) = self.read(*process, task);
                self.tasks.insert((*process, task), counts.or(known).unwrap_or_default());
                if refused && self.told.insert(*process) {
                    let name =
                        Process::look(&self.sys, *process).map(|process| process.name).unwrap_or_default();
                    let name = one_line(&name);
                    uncounted.push(format!(
                        "process {process} ({name}) is not counted: root alone may read what it moves; run ebb as root"
                    ));
                }
            }
        }
        let gone = before.iter().filter(|(task, _)| !self.tasks.contains_key(task));
        self.ended = gone.fold(self.ended, |sum, (_, counts)| sum.plus(*counts));
        (self.tasks.values().fold(self.ended, |sum, counts| sum.plus(*counts)), uncounted)
    }

    /// What each of its threads had moved at the last look.
    pub fn by_thread(&self) -> &ByThread {
        &self.tasks
    }

    /// Looks at a thread that is about to end once more.
    pub fn last(&mut self, process: u32, task: u32) {
        if let (Some(counts), _) = self.read(process, task) {
            self.tasks.insert((process, task), counts);
        }
    }

    /// The thread `from` of `process` has become its first one: what it has moved goes with it, and the other has ended.
    pub fn renamed(&mut self, process: u32, from: u32) {
        if from != process {
            let moved = self.tasks.remove(&(process, from)).unwrap_or_default();
            let first = self.tasks.insert((process, process), moved).unwrap_or_default();
            self.ended = self.ended.plus(first);
        }
    }

    /// What a thread has moved, and whether this user may not know.
    fn read(&self, process: u32, task: u32) -> (Option<Counts>, bool) {
        let file = self.sys.proc.join(format!("{process}/task/{task}/io"));
        match read::text(&file, sys::LONGEST) {
            Ok(text) => {
                let count = |key| process::io(&text, key);
                let both = count("read_bytes").zip(count("write_bytes"));
                (both.map(|(read, write)| Counts([read, write, 0])), false)
            }
            Err(ReadError::System(error)) => (None, error.kind() == ErrorKind::PermissionDenied),
            Err(_) => (None, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;
    use ebbtide_model::limit::Kind;
    use tempfile::TempDir;

    fn io(root: &TempDir, process: u32, task: u32, bytes: u64) {
        let place = root.path().join(format!("proc/{process}/task/{task}"));
        std::fs::create_dir_all(&place).expect("makes");
        std::fs::write(place.join("io"), format!("rchar: 1\nread_bytes: 0\nwrite_bytes: {bytes}\n"))
            .expect("writes");
    }

    fn end(root: &TempDir, place: &str) {
        std::fs::remove_dir_all(root.path().join("proc").join(place)).expect("removes");
    }

    #[test]
    fn what_ended_threads_and_processes_moved_is_kept() {
        let root = unpack("f /proc/uptime\n|1 1\n");
        let mut moved = Moved::new(&Sys::below(root.path()));
        let mut written = |processes: &[u32]| moved.look(&processes.iter().copied().collect()).0[Kind::Write];
        io(&root, 7, 7, 100);
        io(&root, 7, 8, 20);
        assert_eq!(written(&[7]), 120);
        end(&root, "7/task/8");
        io(&root, 9, 9, 3);
        assert_eq!(written(&[7, 9]), 123);
        end(&root, "7");
        assert_eq!(written(&[9]), 123);
        // Its number is used again.
        io(&root, 7, 7, 50);
        assert_eq!(written(&[7, 9]), 173);
    }

    #[test]
    fn what_a_thread_moved_before_exec_goes_with_it() {
        let root = unpack("f /proc/uptime\n|1 1\n");
        let mut moved = Moved::new(&Sys::below(root.path()));
        io(&root, 7, 7, 100);
        io(&root, 7, 8, 20);
        let seven = BTreeSet::from([7]);
        assert_eq!(moved.look(&seven).0[Kind::Write], 120);
        io(&root, 7, 8, 25);
        moved.last(7, 8);
        // The first thread is gone; the other has its number.
        end(&root, "7/task/8");
        io(&root, 7, 7, 26);
        moved.renamed(7, 8);
        assert_eq!(moved.look(&seven).0[Kind::Write], 126);
    }
}
