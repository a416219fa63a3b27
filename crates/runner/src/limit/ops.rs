//! How the operations of a limited program are counted.

use super::groups::ON_ITS_WAY;
use ebbtide_model::limit::{Counts, Kind};

/// Operations: the requests of the group with the kernel's limit, and calls while it sees nothing of what they write.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpsCount {
    total: u64,
    /// What processes had moved, calls as operations, and what the group had passed.
    last: (Counts, Counts),
}

impl OpsCount {
    /// How many there were, where processes have moved `moved` with as many calls, and the group has passed `by_kernel`. One
    /// that does not see the page cache never sees who asked for what is written back; for one that does, those requests count.
    pub(super) fn look(&mut self, moved: Counts, by_kernel: Counts, sees_cache: bool) -> u64 {
        let behind = |moved: Counts, seen: Counts| moved[Kind::Write].saturating_sub(seen[Kind::Write]);
        let (before, seen) = self.last;
        let requests = by_kernel.minus(seen)[Kind::Ops];
        let unseen = behind(moved, by_kernel) > behind(before, seen).max(ON_ITS_WAY);
        let calls = unseen && requests == 0 && !sees_cache;
        self.total += if calls { moved.minus(before)[Kind::Ops] } else { requests };
        self.last = (moved, by_kernel);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_requests_and_calls_where_there_are_none() {
        let counts = |written: u64, ops: u64| Counts([0, written, 0, ops]);
        let mut ops = OpsCount::default();
        // Past the cache: what is on its way is seen soon.
        assert_eq!(ops.look(counts(1 << 20, 2), counts(0, 0), false), 0);
        assert_eq!(ops.look(counts(2 << 20, 4), counts(1 << 20, 1), false), 1);
        // Through the cache: the group sees nothing.
        assert_eq!(ops.look(counts(5 << 20, 10), counts(1 << 20, 1), false), 7);
        assert_eq!(ops.look(counts(9 << 20, 20), counts(1 << 20, 1), false), 17);
        // Written back for the program itself.
        assert_eq!(ops.look(counts(9 << 20, 21), counts(9 << 20, 4), false), 20);
        // Calls that write nothing to storage.
        assert_eq!(ops.look(counts(9 << 20, 500), counts(9 << 20, 4), false), 20);
        // A group that sees them when they are written back.
        assert_eq!(OpsCount::default().look(counts(9 << 20, 20), counts(0, 0), true), 0);
    }
}
