//! What was observed: volumes alone under a load, from hosts.

/// A volume that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// Its name, the same on every host.
    pub name: String,
    /// What it was ordered as, where that is known: volumes are compared with their like.
    pub kind: String,
}

/// A volume alone under a load, once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Index into [`Observed::volumes`].
    pub volume: usize,
    /// Index into [`Observed::hosts`].
    pub host: usize,
    /// Number of the session.
    pub session: usize,
    /// Round of the session: its trials are near each other in time.
    pub round: u32,
    /// Number of the load.
    pub load: usize,
    /// Rate, or one by the latency where the rate is given; what is not positive is left out.
    pub speed: f64,
}

/// The cells of the analysis, each a volume measured from a host in a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// Volumes, each once.
    pub volumes: Vec<Subject>,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Trials of single volumes.
    pub rows: Vec<Measured>,
}
