//! Who is held by another `ebb limit`: two of them that stop the same processes would each take the other's stop for somebody's
//! who wakes it.
//!
//! The arguments of a guardian show whom its parent holds, as long as both live. Anybody can start a process with such arguments,
//! so only those of root's and of the user's whose process is concerned are believed.

use super::tree::{Process, ancestors_of};
use crate::sys::{self, Sys};

/// The subcommand of a guardian.
pub const GUARDIAN: &str = "limit-guardian";

/// One that holds processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process ID.
    pub pid: u32,
    /// The process that it holds, with all that this starts: itself, where it has started what it holds.
    pub root: u32,
}

/// All but this process that hold somebody who lives, and are root's or of the user `user`.
fn holders(sys: &Sys, user: Option<u32>) -> impl Iterator<Item = Holder> {
    let pids = sys::names(&sys.proc).into_iter().filter_map(|name| name.parse().ok());
    pids.filter_map(move |pid| holder(sys, pid, user))
}

fn holder(sys: &Sys, guardian: u32, user: Option<u32>) -> Option<Holder> {
    let line = sys::text(&sys.proc.join(guardian.to_string()).join("cmdline"))?;
    let mut words = line.split('\0').skip_while(|word| *word != GUARDIAN).skip(1);
    let pid: u32 = words.next()?.parse().ok()?;
    let root: u32 = words.next()?.parse().ok()?;
    let start: u64 = words.next()?.parse().ok()?;
    // The real user: a program that is root's by its file alone can be started by anybody, with any arguments.
    let owner = real_user(sys, guardian)?;
    let is_believed = owner == 0 || Some(owner) == user;
    // Killed, it holds nobody any more, while its guardian still wakes them.
    let is_its = Process::look(sys, guardian).is_some_and(|now| now.parent == pid && !now.has_ended());
    let lives = Process::look(sys, root).is_some_and(|now| now.start == start && !now.has_ended());
    (is_believed && is_its && lives && pid != std::process::id()).then_some(Holder { pid, root })
}

fn real_user(sys: &Sys, pid: u32) -> Option<u32> {
    let status = sys::text(&sys.proc.join(pid.to_string()).join("status"))?;
    sys::field(&status, "Uid:")?.split_whitespace().next()?.parse().ok()
}

/// The one that holds this process, or the process `target`, or one that `target` has started; or that `target` has started.
pub fn conflict(sys: &Sys, target: Option<u32>) -> Option<Holder> {
    let line = |pid: u32| std::iter::once(pid).chain(ancestors_of(sys, pid)).collect::<Vec<u32>>();
    let own = line(std::process::id());
    let above = target.map(line).unwrap_or_default();
    let below = |pid: u32| target.is_some_and(|target| line(pid).contains(&target));
    let user = real_user(sys, target.unwrap_or_else(std::process::id));
    holders(sys, user).find(|holder| {
        own.contains(&holder.root) || above.contains(&holder.root) || below(holder.root) || below(holder.pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    #[test]
    fn only_root_and_the_user_who_is_concerned_are_believed() {
        let stat = |pid: u32, parent: u32, start: u64| {
            format!(
                "f /proc/{pid}/stat\n|{pid} (x) S {parent} 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 {start} 1 1 1\n"
            )
        };
        let shown = |user: &str, parent: u32, start: u64| {
            let mut world = stat(70, 1, 7) + &stat(80, parent, 9);
            world += &format!("f /proc/80/status\n|Name:\tebb\n|Uid:\t{user}\n");
            let root = unpack(&world);
            let line = format!("ebb\0{GUARDIAN}\0{}\0{}\0{start}\0", 60, 70);
            std::fs::write(root.path().join("proc/80/cmdline"), line).expect("writes");
            holder(&Sys::below(root.path()), 80, Some(1000))
        };
        let held = Some(Holder { pid: 60, root: 70 });
        assert_eq!(shown("0\t0\t0\t0", 60, 7), held);
        assert_eq!(shown("1000\t1000\t1000\t1000", 60, 7), held);
        assert_eq!(shown("1001\t1001\t1001\t1001", 60, 7), None, "somebody else's");
        assert_eq!(shown("1001\t0\t0\t0", 60, 7), None, "root's by its file alone");
        assert_eq!(shown("0\t0\t0\t0", 61, 7), None, "its parent is gone");
        assert_eq!(shown("0\t0\t0\t0", 60, 8), None, "another process of that number");
    }
}
