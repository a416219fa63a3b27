//! A process as the kernel's files show it: `/proc/PID/stat` and `/proc/PID/io`, and those of its threads alike (proc(5)).

use super::{Sys, field, text};

/// `PF_KTHREAD` and `PF_IO_WORKER` of linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;
const IO_WORKER: u64 = 0x10;

/// The fields of a `stat` file; those after the name are read when they are asked for.
#[derive(Debug, Clone)]
pub struct Stat<'a> {
    /// The process ID, as this namespace has it.
    pub pid: u32,
    /// The name of its program, up to 15 bytes of anything, brackets too.
    pub name: &'a str,
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    /// The fields of `text`, where it is one of these files.
    pub fn parse(text: &'a str) -> Option<Stat<'a>> {
        let (front, after) = text.rsplit_once(')')?;
        let (pid, name) = front.split_once(" (")?;
        Some(Stat { pid: pid.parse().ok()?, name, fields: after.split_ascii_whitespace().collect() })
    }

    /// The field with this number in proc(5), from 4: a number.
    fn number(&self, field: usize) -> Option<u64> {
        self.fields.get(field - 3)?.parse().ok()
    }

    /// `R`, `S`, `D`, `T` (stopped), `t` (traced), `Z` (ended, not yet waited for).
    pub fn state(&self) -> Option<char> {
        self.fields.first()?.chars().next()
    }

    /// Number of its parent.
    pub fn parent(&self) -> Option<u32> {
        self.number(4)?.try_into().ok()
    }

    /// Number of its terminal; 0 where it has none.
    pub fn terminal(&self) -> Option<u64> {
        self.number(7)
    }

    /// Whether it is the kernel's own.
    pub fn is_kernel(&self) -> Option<bool> {
        Some(self.number(9)? & KERNEL_THREAD != 0)
    }

    /// User and system time, in clock ticks.
    pub fn ticks(&self) -> Option<u64> {
        Some(self.number(14)?.saturating_add(self.number(15)?))
    }

    /// How many threads it has.
    pub fn threads(&self) -> Option<u64> {
        self.number(20)
    }

    /// When it began, in clock ticks since boot.
    pub fn start(&self) -> Option<u64> {
        self.number(22)
    }

    /// The processor that it last ran on.
    pub fn processor(&self) -> Option<u32> {
        self.number(39)?.try_into().ok()
    }
}

/// A process, as `/proc/PID/stat` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its process ID.
    pub pid: u32,
    /// When it began, in clock ticks since boot: with its number, it is one process.
    pub start: u64,
    /// Number of its parent.
    pub parent: u32,
    /// The name of its program, up to 15 bytes.
    pub name: String,
    /// As [`Stat::state`]; of its first thread.
    pub state: char,
    /// How many threads it has.
    pub threads: u64,
    /// Whether it is the kernel's own.
    pub is_kernel: bool,
}

impl Process {
    /// The process `pid`, where there is one.
    pub fn look(sys: &Sys, pid: u32) -> Option<Process> {
        let text = text(&sys.proc.join(pid.to_string()).join("stat"))?;
        let stat = Stat::parse(&text)?;
        Some(Process {
            pid: stat.pid,
            name: stat.name.to_owned(),
            state: stat.state()?,
            parent: stat.parent()?,
            is_kernel: stat.is_kernel()?,
            threads: stat.threads()?,
            start: stat.start()?,
        })
    }

    /// Whether it has ended, although nobody has waited for it: others of its threads may go on without the first.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

/// Whether the thread `task` of the process `pid` has ended, or the kernel has made it for requests of io_uring.
pub fn is_nobody_s(sys: &Sys, pid: u32, task: u32) -> bool {
    let text = text(&sys.proc.join(format!("{pid}/task/{task}/stat")));
    text.as_deref().and_then(Stat::parse).is_none_or(|stat| {
        matches!(stat.state(), Some('Z' | 'X')) || stat.number(9).is_some_and(|flags| flags & IO_WORKER != 0)
    })
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

/// A count of an `io` file, such as `read_bytes`.
pub fn io(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.strip_prefix(':')?.trim_start().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded on Linux 6.18; the name of a kernel thread has a bracket of its own.
    const STAT: &str = "4711 (kworker/u8:3+a) b) R 2 0 0 0 -1 69238880 0 0 0 0 12 345 0 0 20 0 1 0 311 0 0 18446744073709551615 \
                        0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";

    #[test]
    fn a_stat_file_is_read_whatever_the_name() {
        let stat = Stat::parse(STAT).expect("parses");
        assert_eq!((stat.pid, stat.name, stat.state()), (4711, "kworker/u8:3+a) b", Some('R')));
        assert_eq!((stat.parent(), stat.is_kernel(), stat.ticks()), (Some(2), Some(true), Some(357)));
        assert_eq!((stat.threads(), stat.start(), stat.processor()), (Some(1), Some(311), Some(1)));
        let user = Stat::parse("8 (a) b) c) S 1 8 8 0 -1 4194304 1 0").expect("parses");
        assert_eq!((user.name, user.is_kernel(), user.ticks()), ("a) b) c", Some(false), None));
        for torn in ["", "1", "1 (a", "x (a) S 1 2 3"] {
            assert!(Stat::parse(torn).is_none(), "{torn}");
        }
    }

    #[test]
    fn an_io_file_is_read() {
        let text = "rchar: 9\nwchar: 7\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n";
        assert_eq!((io(text, "read_bytes"), io(text, "write_bytes")), (Some(4096), Some(8192)));
        assert_eq!((io(text, "read"), io("read_bytes: x\n", "read_bytes")), (None, None));
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive() {
        let has_ended = |threads: u32| {
            let root = crate::testing::unpack(&format!(
                "f /proc/7/stat\n|7 (mt) Z 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 9 0 0 0\n"
            ));
            Process::look(&Sys::below(root.path()), 7).expect("parses").has_ended()
        };
        assert_eq!((has_ended(1), has_ended(2)), (true, false));
    }

    #[test]
    fn the_first_process_is_everybody_s_ancestor() {
        assert_eq!(ancestors(&Sys::host()).last(), Some(&1));
    }
}
