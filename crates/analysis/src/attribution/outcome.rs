//! Whose fault it is, and what cannot be told.

use super::spread::Spread;
use serde::Serialize;

/// Below the speed of the median of the others by this much is a fault. Volumes of a kind differ by some percent, from each other and from day to
/// day: less is no reason to move data, and whether it is there would take weeks to tell.
pub const MARGIN: f64 = 0.20;

/// When somebody is accused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Level at which all intervals of volumes and hosts hold together, in (0, 1).
    pub level: f64,
    /// Share by which a speed is below the others' median before it is a fault, in \[0, 1).
    pub margin: f64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { level: 0.95, margin: MARGIN }
    }
}

/// What can be said of a volume or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It is slower than the margin allows.
    Accused,
    /// What was measured speaks against it: it is as fast as the others.
    Cleared,
    /// Its interval lies on both sides of the margin.
    Open,
    /// There is nothing to hold it against, or no way to know how sure that would be.
    Untold,
}

/// How fast a volume or a host is against the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// Name of the volume or host.
    pub name: String,
    /// Speed by the median of the others of its own kind (of two in the middle the nearer one): 0.5 is half as fast.
    pub effect: Option<f64>,
    /// Lower end of the interval.
    pub ci_low: Option<f64>,
    /// Upper end of the interval.
    pub ci_high: Option<f64>,
    /// Whether it is at fault.
    pub accused: bool,
    /// Accused or why not.
    pub finding: Finding,
    /// Sessions in which it was measured; of a volume, on each host.
    pub visits: u32,
    /// With how many others it was compared.
    pub others: u32,
}

/// What intervals of volumes rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// How much volumes differ from one session or host to the next.
    Sessions,
    /// How much they differ from round to round: a volume that is slow in all of a session is slow in that session.
    Rounds,
}

/// What varies with time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Time {
    /// From one session of a host to the next.
    pub sessions: Option<Spread>,
    /// From round to round, of all volumes of a host together.
    pub rounds: Option<Spread>,
    /// Of neighbouring rounds of a volume; intervals are wider for it.
    pub correlation: f64,
}

/// Something that cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unanswered {
    /// What, and why not.
    pub what: String,
    /// What to do to tell.
    pub measure: String,
}

/// Whose fault it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribution {
    /// Volumes, in the order of [`Observed::volumes`].
    pub volumes: Vec<Effect>,
    /// Hosts, in the order of [`Observed::hosts`].
    pub hosts: Vec<Effect>,
    /// How much volumes differ from each other.
    pub volume_spread: Option<Spread>,
    /// How much hosts differ from each other.
    pub host_spread: Option<Spread>,
    /// How much the same volumes on the same host differ from time to time.
    pub time: Time,
    /// What is left of a trial.
    pub residual: Option<Spread>,
    /// What the intervals of volumes rest on.
    pub basis: Basis,
    /// Level of all intervals together.
    pub level: f64,
    /// Margin of a fault.
    pub margin: f64,
    /// Trials that the analysis uses.
    pub trials: usize,
    /// What cannot be told, and what would tell.
    pub needs: Vec<Unanswered>,
}

impl Attribution {
    /// Volumes and hosts that are at fault.
    pub fn accused(&self) -> impl Iterator<Item = &Effect> {
        self.volumes.iter().chain(&self.hosts).filter(|effect| effect.accused)
    }

    /// Whether the data tell whose fault it is: somebody is accused, or all volumes, and all hosts where there are several, are
    /// cleared.
    pub fn is_told(&self) -> bool {
        let cleared = |of: &[Effect]| of.iter().all(|effect| effect.finding == Finding::Cleared);
        let hosts = self.hosts.len() < 2 || cleared(&self.hosts);
        self.accused().next().is_some() || !self.volumes.is_empty() && cleared(&self.volumes) && hosts
    }
}
