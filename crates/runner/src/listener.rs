//! Who is told how it is going.

use ebbtide_analysis::stop::Point;
use ebbtide_model::backend::Control;
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::{Session, TrialRecord};
use ebbtide_model::workload::Workload;
use std::sync::Arc;

/// Is told how a session, a benchmark or a check is going; `control` says how far what begins has come.
pub trait SessionListener {
    /// So many volumes are being made and filled.
    fn preparing(&mut self, _volumes: usize, _control: &Arc<Control>) {}
    /// A round of a race has ended, after which so many of its designs are left.
    fn race(&mut self, _left: usize, _of: usize) {}

    /// A trial of `session` begins, after a pause; `so_far`: how far its design has come under its workload.
    fn trial_begins(
        &mut self,
        _session: &Session,
        _trial: &Trial,
        _so_far: Option<&Point>,
        _control: &Arc<Control>,
    ) {
    }
    /// A trial of `session` ended.
    fn trial_ended(&mut self, _session: &Session, _record: &TrialRecord) {}
    /// Jobs of a benchmark begin, all at the same time: the name and the workload of each.
    fn jobs_begin(&mut self, _jobs: &[(&str, &Workload)], _control: &Arc<Control>) {}
    /// What has run is looked at for a moment under more load and less.
    fn probing(&mut self, _what: &str, _control: &Arc<Control>) {}
    /// What was written is being read and checked.
    fn checking(&mut self, _control: &Arc<Control>) {}
    /// Something that the user must know at once.
    fn say(&self, _text: &str) {}
    /// The session's trials are over.
    fn done(&mut self) {}
}
