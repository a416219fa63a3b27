//! What each host did in a trial that several ran at once.

use super::{CpuUse, OpSamples};
use crate::hosts::Offset;
use crate::per_op::PerOp;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// One host in a trial of several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSamples {
    /// As the user wrote it after `--hosts`.
    pub name: String,
    /// Jobs that it ran; 0 where there were fewer jobs than hosts.
    pub jobs: u32,
    /// What its jobs completed in the time in which all hosts were at work.
    pub ops: PerOp<OpSamples>,
    /// From the agreed instant, by its own clock, until the last of its jobs was at work.
    pub late: Nanos,
    /// What it measured, of which the trial's length is the part that counts.
    pub measured: Nanos,
    /// Its monotonic clock against that of the host that ran the session: what the agreed instant rests on.
    pub clock: Offset,
    /// Its wall clock against that of the host that ran the session.
    pub wall: Offset,
    /// CPU used during the measurement.
    pub cpu: CpuUse,
}

/// How far apart hosts began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skew {
    /// From the first host whose jobs were all at work to the last.
    pub spread: Nanos,
    /// How wrong that may be: the clocks of both are known to half a round trip.
    pub error: Nanos,
}

impl Skew {
    /// That of the hosts which had jobs; nothing of fewer than two.
    pub fn of(hosts: &[HostSamples]) -> Option<Skew> {
        let ran = || hosts.iter().filter(|host| host.jobs > 0);
        let first = ran().min_by_key(|host| host.late)?;
        let last = ran().max_by_key(|host| host.late)?;
        let mut errors: Vec<u64> = ran().map(|host| host.clock.error.0).collect();
        errors.sort_unstable();
        let error = errors.iter().rev().take(2).fold(0, |sum: u64, error| sum.saturating_add(*error));
        (errors.len() > 1).then(|| Skew { spread: Nanos(last.late.0 - first.late.0), error: Nanos(error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skew_is_from_the_first_to_the_last_and_as_sure_as_both_clocks() {
        let host = |jobs, late, error| HostSamples {
            jobs,
            late: Nanos(late),
            clock: Offset { ahead_ns: 5, error: Nanos(error) },
            ..HostSamples::default()
        };
        let skew = Skew::of(&[host(2, 30, 4), host(2, 10, 7), host(2, 20, 1), host(0, 0, 900)]);
        assert_eq!(skew, Some(Skew { spread: Nanos(20), error: Nanos(11) }));
        assert_eq!(Skew::of(&[host(1, 30, 4), host(0, 0, 4)]), None);
    }
}
