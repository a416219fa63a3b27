//! Whose fault it is: effects of volumes, of hosts and of time on how fast volumes were, and whom that accuses.
//!
//! ```text
//! log speed = level + volume + host + session + round + rest
//!
//! trials ─ median polish by volume and round ─► cells (volume, host, session)
//! cells ── least squares of volume and visit ─► effects of volumes, and of visits (host, session)
//! visits ─ means by host ─────────────────────► effects of hosts; what is left of visits is time
//! ```
//!
//! Volumes are compared within visits only, so that neither hosts nor time can be mistaken for them. Hosts are compared by the
//! volumes that were measured on several of them, and what a host's sessions differ by says how sure that is: one bad day of a
//! host is not taken for the host. A volume or a host is accused when its speed against the median of the others is below the
//! margin with its whole interval; all intervals hold together (Bonferroni). docs/explanation/statistics.md derives it and shows by
//! simulation what it holds. What the data cannot tell is said, with the measurement that would tell ([`Unanswered`]).

mod cells;
mod distribution;
mod fit;
mod gain;
mod judge;
mod observed;
mod outcome;
mod sessions;
mod spread;
mod unanswered;

pub use gain::{Array, Gain, gain};
pub use observed::{Measured, Observed, Subject};
pub use outcome::{Attribution, Basis, Bounds, Effect, Finding, MARGIN, Time, Unanswered};
pub use sessions::{ArrayResult, MeasuredArray, SessionData, read};
pub use spread::Spread;

use judge::{Errors, Judge};

/// Who is slow in what was observed.
pub fn attribute(observed: &Observed, bounds: Bounds) -> Attribution {
    let cells = cells::cells(observed);
    let parts = fit::parts(&cells.cells, observed.volumes.len(), cells.visits.len());
    let errors = Errors::of(&cells, &parts);
    let judge = Judge::new(observed, &cells, &parts, &errors);
    let (volumes, hosts) = judge.effects(bounds);
    let spreads = judge.spreads();
    let needs = unanswered::needs(observed, &cells, &parts, &volumes, &hosts);
    Attribution {
        volumes,
        hosts,
        volume_spread: spreads.volumes,
        host_spread: spreads.hosts,
        time: Time {
            sessions: spreads.sessions,
            rounds: Spread::known(cells.rounds),
            correlation: cells.correlation,
        },
        residual: Spread::known(cells.residual),
        basis: errors.basis,
        level: bounds.level,
        margin: bounds.margin,
        trials: observed.rows.len(),
        needs,
    }
}
