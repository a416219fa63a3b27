//! What the process has used so far.

/// Counters of the process since its start (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
}

impl Usage {
    /// Up to now, all threads.
    pub fn of_process() -> Usage {
        let ebbtide_sys::usage::Usage { context_switches, major_faults, minor_faults, .. } =
            ebbtide_sys::usage::of_process();
        Usage { context_switches, major_faults, minor_faults }
    }

    /// From `earlier` to `self`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }
}
