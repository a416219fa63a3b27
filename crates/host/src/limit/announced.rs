//! Who is held by another `ebb limit`: two of them that stop the same processes would each take the other's stop for somebody's
//! who wakes it.
//!
//! Each announces itself by the name of an abstract Unix socket (unix(7)), which everybody in its network namespace can read in
//! `/proc/net/unix`, whatever user or environment, and which the kernel takes away when it ends, however it ends.

use super::tree::{Process, ancestors_of};
use crate::sys::{self, Sys};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const NAME: &str = "ebbtide-limit/";

/// A name that is there as long as this is.
#[derive(Debug)]
pub struct Announced(#[allow(dead_code, reason = "it is bound, and never read")] UnixDatagram);

/// Says that this process holds `root` and what that starts: itself where it starts what it holds.
///
/// # Errors
/// When such a socket cannot be had.
pub fn announce(root: &Process) -> io::Result<Announced> {
    let name = format!("{NAME}{}/{}/{}", std::process::id(), root.pid, root.start);
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?).map(Announced)
}

/// One that holds processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process ID.
    pub pid: u32,
    /// The process that it holds, with all that this starts: itself, where it has started what it holds.
    pub root: u32,
}

/// All but this process that hold somebody who lives.
fn holders(sys: &Sys) -> Vec<Holder> {
    let table = sys::text(&sys.proc.join("net/unix")).unwrap_or_default();
    table.lines().filter_map(|line| holder(sys, line)).collect()
}

fn holder(sys: &Sys, line: &str) -> Option<Holder> {
    let name = line.split_whitespace().last()?.strip_prefix('@')?.strip_prefix(NAME)?;
    let mut numbers = name.split('/');
    let pid: u32 = numbers.next()?.parse().ok()?;
    let root: u32 = numbers.next()?.parse().ok()?;
    let start: u64 = numbers.next()?.parse().ok()?;
    // One of another's numbers, as in a container, is another process; one that may not be looked at is believed.
    let is_it = Process::look(sys, root).is_none_or(|now| now.start == start && !now.has_ended());
    (is_it && pid != std::process::id()).then_some(Holder { pid, root })
}

/// The one that holds this process, or the process `target`, or one that `target` has started; or that `target` has started.
pub fn conflict(sys: &Sys, target: Option<u32>) -> Option<Holder> {
    let line = |pid: u32| std::iter::once(pid).chain(ancestors_of(sys, pid)).collect::<Vec<u32>>();
    let own = line(std::process::id());
    let above = target.map(line).unwrap_or_default();
    let below = |pid: u32| target.is_some_and(|target| line(pid).contains(&target));
    holders(sys).into_iter().find(|holder| {
        own.contains(&holder.root) || above.contains(&holder.root) || below(holder.root) || below(holder.pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_what_lives_and_is_this_very_process_is_held() {
        let sys = Sys::host();
        let own = Process::look(&sys, std::process::id()).expect("it runs");
        let line = |pid: u32, root: u32, start: u64| {
            holder(&sys, &format!("0: 2 0 0 2 01 4711 @ebbtide-limit/{pid}/{root}/{start}"))
        };
        assert_eq!(line(7, own.pid, own.start), Some(Holder { pid: 7, root: own.pid }));
        assert_eq!(line(7, own.pid, own.start + 1), None);
        assert_eq!(line(own.pid, own.pid, own.start), None, "its own");
        for other in ["", "0: 2 0 0 2 01 4711", "0: 2 0 0 2 01 4711 @ebbtide-limit/x/1/2", "@ebbtide-limit/7"]
        {
            assert_eq!(holder(&sys, other), None, "{other}");
        }
    }

    #[test]
    fn a_name_is_there_as_long_as_its_socket() {
        let sys = Sys::host();
        let mut child = Command::new("sleep").arg("60").spawn().expect("starts");
        let process = Process::look(&sys, child.id()).expect("it runs");
        let table = || std::fs::read_to_string("/proc/net/unix").expect("reads");
        let name = format!("@{NAME}{}/{}/{}", std::process::id(), process.pid, process.start);
        let announced = announce(&process).expect("binds");
        assert!(table().contains(&name));
        drop(announced);
        assert!(!table().contains(&name));
        child.kill().and_then(|()| child.wait()).expect("ends");
    }
}
