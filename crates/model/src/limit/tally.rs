//! What a tree of processes has moved, although processes end between two looks.
//!
//! The kernel adds what a process has moved to the parent that waits for it (`wait_task_zombie` in kernel/exit.c), so that the
//! sum over those that live stays whole. It is lost where a parent ignores SIGCHLD, or where a parent outside of the tree waits;
//! that is what has to be remembered. A look is not an instant: a process may be counted with its parent and by itself, or not at
//! all, until the next look, so the largest sum so far counts.

use super::Counts;
use std::collections::BTreeMap;

/// A process at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its number, which may be another's later.
    pub pid: u32,
    /// When it began, in clock ticks since boot: number and beginning are one process.
    pub start: u64,
    /// Number of its parent.
    pub parent: u32,
    /// What it has moved, with its ended threads and the children that it waited for.
    pub counts: Counts,
    /// That it ignores SIGCHLD: what its children moved goes with them.
    pub forgets: bool,
}

/// What was moved by processes that live and that have ended.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Whether whoever has lost its parent is waited for by the one who counts.
    adopts: bool,
    last: BTreeMap<(u32, u64), Member>,
    /// Of processes that nobody's count has.
    lost: Counts,
    /// What the first look found: moved before.
    before: Option<Counts>,
    total: Counts,
}

impl Tally {
    /// Where it `adopts`, processes without a parent become children of the one who counts, which waits for them.
    pub fn new(adopts: bool) -> Tally {
        Tally {
            adopts,
            last: BTreeMap::new(),
            lost: Counts::default(),
            before: None,
            total: Counts::default(),
        }
    }

    /// What was moved since the first look, when `alive` are all that live and `waited` is what those moved that the one who
    /// counts has waited for.
    pub fn look(&mut self, alive: &[Member], waited: Counts) -> Counts {
        let now: BTreeMap<(u32, u64), Member> =
            alive.iter().map(|member| ((member.pid, member.start), *member)).collect();
        for (key, gone) in self.last.iter().filter(|(key, _)| !now.contains_key(key)) {
            let mut parents = self.last.range((gone.parent, 0)..=(gone.parent, u64::MAX));
            // A number that was used again: the parent is the older of the two, and never younger than its child.
            let parent = parents.rfind(|(parent, _)| parent.1 <= key.1);
            let parent = parent.and_then(|(parent, _)| now.get(parent));
            if parent.map_or(!self.adopts, |parent| parent.forgets) {
                self.lost = self.lost.plus(gone.counts);
            }
        }
        let sum = now.values().fold(waited.plus(self.lost), |sum, member| sum.plus(member.counts));
        self.last = now;
        let before = *self.before.get_or_insert(sum);
        self.total = self.total.with(sum.minus(before), u64::max);
        self.total
    }
}
