//! Who is held, and what they have moved.

use super::groups::Groups;
use super::ops::OpsCount;
use super::told::LimitListener;
use ebbtide_host::limit::guardian::Guardian;
use ebbtide_host::limit::narrow::Narrowed;
use ebbtide_host::limit::sockets::Sockets;
use ebbtide_host::limit::tree::{self, Process, Tree};
use ebbtide_host::sys::Sys;
use ebbtide_model::limit::{Counts, Kind, QUANTUM, Tally};
use ebbtide_model::shown::one_line;
use std::time::{Duration, Instant};

/// Between two adjustments of sockets.
const NARROW: Duration = Duration::from_millis(20);

/// What is known of who is held, and what it has moved.
pub(super) struct Meter {
    sys: Sys,
    pub(super) tree: Tree,
    tally: Tally,
    is_own: bool,
    sockets: Option<Sockets>,
    pub(super) narrowed: Narrowed,
    /// When sockets were narrowed last.
    at: Option<Instant>,
    /// What the network had, where it cannot be asked any more.
    net: u64,
    /// Operations so far, and what they were counted from.
    ops: OpsCount,
    moved: Counts,
    /// What was said once: that sockets cannot be counted, or not narrowed.
    silent: (bool, bool),
}

impl Meter {
    /// Of the processes of `tree`, which are this program's own children or not.
    pub(super) fn new(sys: &Sys, tree: Tree, is_own: bool, sockets: Option<Sockets>) -> Meter {
        Meter {
            sys: sys.clone(),
            tree,
            tally: Tally::new(is_own),
            is_own,
            sockets,
            narrowed: Narrowed::default(),
            at: None,
            net: 0,
            ops: OpsCount::default(),
            moved: Counts::default(),
            silent: (false, false),
        }
    }

    /// What was moved since the first look, and what of that the group with the kernel's limit has passed.
    pub(super) fn look(
        &mut self,
        groups: &Groups,
        guardian: Option<u32>,
        watch: &mut dyn LimitListener,
    ) -> (Counts, Option<Counts>) {
        let (members, uncounted) = self.tree.look(guardian);
        for process in uncounted {
            let Process { pid, name, .. } = process;
            watch.remark(&format!(
                "what process {pid} ({}) moves is not counted: its /proc/{pid}/io may not be read",
                one_line(&name)
            ));
        }
        let waited = if self.is_own { tree::waited(&self.sys) } else { Counts::default() };
        let mut moved = self.tally.look(&members, waited);
        if let Some(sockets) = &mut self.sockets {
            match sockets.look(self.tree.pids()) {
                Ok(net) => self.net = net,
                Err(error) if !self.silent.0 => {
                    self.silent.0 = true;
                    watch.remark(&format!("the network is not counted any more: {error}"));
                }
                Err(_) => {}
            }
            moved[Kind::Net] = self.net;
        }
        let by_kernel = groups.counts();
        if let Some(by_kernel) = by_kernel {
            moved[Kind::Ops] = self.ops.look(moved, by_kernel, groups.sees_cache());
        }
        // A device that goes away takes its count with it.
        self.moved = self.moved.with(moved, u64::max);
        (self.moved, by_kernel)
    }

    /// Lets sockets pass about `limit` in a second together: a little more when there is something to catch up on, less when there is
    /// a debt, which is what makes the rate of those that send meet the limit, since a stop holds back nothing that was written before.
    pub(super) fn narrow(
        &mut self,
        limit: u64,
        ahead: f64,
        guardian: &mut Guardian,
        watch: &mut dyn LimitListener,
    ) {
        let Some(sockets) = &self.sockets else { return };
        if self.at.is_some_and(|at| at.elapsed() < NARROW) {
            return;
        }
        self.at = Some(Instant::now());
        let rate = limit as f64 * (1.0 + ahead - QUANTUM).clamp(0.5, 1.5);
        let failed = self.narrowed.narrow(sockets.open(), sockets.active(), rate, -ahead, guardian);
        if let Some(error) = failed.filter(|_| !self.silent.1) {
            self.silent.1 = true;
            watch.remark(&format!(
                "its connections keep their buffers ({error}), which fill while it stands still: a low rate may be exceeded"
            ));
        }
    }
}
