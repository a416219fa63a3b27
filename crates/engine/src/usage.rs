//! What the process has used so far.

use ebbtide_model::samples::ProcessUse;
use ebbtide_sys::usage::{Usage, of_process};

/// What the process has used since its start, all threads (getrusage(2)).
pub fn process_use() -> ProcessUse {
    let Usage { context_switches, major_faults, minor_faults, .. } = of_process();
    ProcessUse { context_switches, major_faults, minor_faults }
}
