//! A process as the kernel's files show it: `/proc/PID/stat` and `/proc/PID/io`, and those of its threads alike (proc(5)).

use super::field;

/// `PF_KTHREAD` of linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

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

    /// The same, where it may be less than nothing: groups, sessions and terminals, 5 to 8.
    pub fn signed(&self, field: usize) -> Option<i64> {
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

    /// How it is scheduled (sched(7)).
    pub fn policy(&self) -> Option<u64> {
        self.number(41)
    }
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
}
