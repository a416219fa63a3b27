//! What programs have moved over TCP.

use crate::sys::{self, Sys};
use ebbtide_sys::inet_diag::Diag;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

/// Which sockets are whose is asked this often: it takes a system call for each open file.
const ANEW: Duration = Duration::from_millis(50);

/// The TCP sockets of a tree of processes.
#[derive(Debug)]
pub struct Sockets {
    sys: Sys,
    diag: Diag,
    /// By their numbers in the kernel: bytes so far. Those that were there before begin with what they had.
    seen: HashMap<u64, u64>,
    /// Those of the tree.
    own: HashSet<u64>,
    /// The same by their numbers among files.
    files: HashSet<u32>,
    asked: Option<Instant>,
    total: u64,
    /// The processes in other networks that were told of.
    told: BTreeSet<u32>,
}

impl Sockets {
    /// Counts from now on.
    ///
    /// # Errors
    /// When the kernel does not list sockets.
    pub fn new(sys: &Sys) -> io::Result<Sockets> {
        let diag = Diag::open()?;
        let all = diag.tcp()?.into_iter();
        let seen = all.map(|socket| (socket.cookie, socket.acked.saturating_add(socket.received))).collect();
        let (own, files) = (HashSet::new(), HashSet::new());
        Ok(Sockets { sys: sys.clone(), diag, seen, own, files, asked: None, total: 0, told: BTreeSet::new() })
    }

    /// Bytes that sockets of the processes `pids` have received, and that were acknowledged to them, since the beginning. Which are whose
    /// is asked `anew`, or was lately. And who cannot be counted, each once.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn look(&mut self, pids: &BTreeSet<u32>, anew: bool) -> io::Result<(u64, Vec<String>)> {
        let mut uncounted = Vec::new();
        if anew || self.asked.is_none_or(|asked| asked.elapsed() >= ANEW) {
            self.asked = Some(Instant::now());
            self.files = pids.iter().flat_map(|pid| self.files_of(*pid)).collect();
            for pid in pids {
                if !self.told.contains(pid) && is_elsewhere(&self.sys, *pid) {
                    self.told.insert(*pid);
                    uncounted.push(format!(
                        "process {pid} is in another network namespace: what it moves over the network is neither counted nor held"
                    ));
                }
            }
        }
        let mut listed = HashSet::new();
        for socket in self.diag.tcp()? {
            listed.insert(socket.cookie);
            if self.files.contains(&socket.inode) {
                self.own.insert(socket.cookie);
            }
            // What is closed is still the program's while the kernel sends the rest.
            if self.own.contains(&socket.cookie) {
                let bytes = socket.acked.saturating_add(socket.received);
                let before = self.seen.insert(socket.cookie, bytes).unwrap_or(0);
                self.total = self.total.saturating_add(bytes.saturating_sub(before));
            }
        }
        self.own.retain(|cookie| listed.contains(cookie));
        self.seen.retain(|cookie, _| listed.contains(cookie));
        Ok((self.total, uncounted))
    }

    fn files_of(&self, pid: u32) -> Vec<u32> {
        let place = self.sys.proc.join(pid.to_string()).join("fd");
        let file = |name: String| {
            let link = std::fs::read_link(place.join(name)).ok()?;
            link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        };
        sys::names(&place).into_iter().filter_map(file).collect()
    }
}

/// Whether the process `pid` sees another network than this one: its sockets are not listed here.
pub fn is_elsewhere(sys: &Sys, pid: u32) -> bool {
    let network = |who: &str| std::fs::read_link(sys.proc.join(who).join("ns/net")).ok();
    network(&pid.to_string()).is_some_and(|its| network("self").is_some_and(|own| own != its))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn only_what_moves_from_now_on_counts() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let connect = || TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        let mut early = connect();
        let (mut other, _) = listener.accept().expect("accepts");
        let send = |from: &mut TcpStream, to: &mut TcpStream, bytes: usize| {
            from.write_all(&vec![1; bytes]).and_then(|()| to.read_exact(&mut vec![0; bytes])).expect("moves");
        };
        send(&mut early, &mut other, 5_000);
        let sys = Sys::host();
        let mut sockets = Sockets::new(&sys).expect("counts");
        let own = BTreeSet::from([std::process::id()]);
        // Other tests of this process have sockets too, none of which moves anything.
        let before = sockets.look(&own, true).expect("counts").0;
        send(&mut early, &mut other, 70_000);
        let after = sockets.look(&own, true).expect("counts").0;
        assert_eq!(after - before, 140_000, "both ends are this process's");
        assert_eq!(sockets.look(&BTreeSet::new(), false).expect("counts").0, after);
        assert!(!is_elsewhere(&sys, std::process::id()));
    }
}
