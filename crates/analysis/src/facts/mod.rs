//! What several rules ask of a case, computed once: figures of the trials and of the ladder, and which causes are asserted already.
//! What is here concludes nothing; a rule reads it and decides.

pub mod calls;
pub mod case;
pub mod crowded;
pub mod durable;
pub mod elsewhere;
pub mod exceeded;
pub mod gained;
pub mod group;
pub mod latency;
pub mod moved;
pub mod processors;
pub mod queues;
pub mod round_rates;
pub mod rungs;
pub mod served;
pub mod set_rate;
pub mod shared;
pub mod standing;
pub mod steps;
pub mod undisturbed;
pub mod usage;

use crate::estimate::median;
use crate::evidence::{Evidence, Unit, evidence, share_is};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use case::{Case, in_most, part};
use crowded::Crowded;
use ebbtide_model::samples::TrialSamples;
use group::FullestLimit;
use latency::FLOOR_SHARE;
use processors::{THREAD_BUSY, at_work, permille, users_by};
use queues::FullQueue;
use rungs::Rungs;
use set_rate::SetRate;
use standing::Devices;
use std::collections::BTreeMap;
use usage::{Counted, NEAR, Stretch};

/// The figure by which the use of the limits keeps another cause from being asserted.
pub const MET_BELOW: &str = "use of the working members' limits, which would have to be below";

/// Causes that are asserted of what serves the operations, in the order in which they are looked at.
pub const WHAT_SERVES: &[VerdictKind] = &[
    VerdictKind::RateLimit,
    VerdictKind::Cpu,
    VerdictKind::InstanceLimit,
    VerdictKind::Member,
    VerdictKind::Background,
];

/// See the module. Shares are 0 to 1, medians over the trials.
pub struct Facts<'a> {
    /// Use of the members' limits, by trials and stretches of them.
    pub stretches: Vec<Vec<Stretch>>,
    /// How full the working members' limits were; see [`usage::met`].
    pub met: Option<f64>,
    /// How full the fullest of the links is that members share.
    pub link: Option<f64>,
    /// The fullest limit that a control group sets to each member that worked.
    pub held: Vec<FullestLimit>,
    /// Whether each member that worked uses up such a limit.
    pub group_limits_met: bool,
    /// What the ladder saw, where one was climbed.
    pub rungs: Option<Rungs<'a>>,
    /// How the members' devices stood.
    pub devices: Option<Devices>,
    /// Disks of an array at which others are at work, and for which the load waits.
    pub crowded: Option<Crowded>,
    /// What the disks have no more of when the load has more, which others lose then.
    pub gained: Option<(Counted, Evidence)>,
    /// Queues of disks that were full.
    pub full_queues: Vec<FullQueue>,
    /// The rate that somebody set, as it looks; or why it does not.
    pub set_rate: Result<SetRate, Absent>,
    /// Mean latency and what one operation alone takes, in nanoseconds.
    pub latency: Option<(f64, f64)>,
    /// How many members are one disk, and its name.
    pub shared: Option<(usize, String)>,
    /// Busy share of the busiest load thread: at work, not watching a clock.
    pub busiest_thread: Option<f64>,
    /// Share of the time that a load thread waited for a processor.
    pub waited: Option<f64>,
    /// Share of the time that the least idle load thread ran or waited to; where no waits are counted, that it ran.
    pub pressed: Option<f64>,
    /// Busy share of all cores of the host.
    pub host_busy: Option<f64>,
    /// Share of all cores' time that the hypervisor took.
    pub stolen: Option<f64>,
    /// Who else used the processors, and how much of one core.
    pub users: Vec<(String, f64)>,
    /// What the rules said that are judged already.
    pub judged: BTreeMap<VerdictKind, Judged>,
}

impl<'a> Facts<'a> {
    /// Those of `case`, before any rule is judged.
    pub fn new(case: &Case<'a>) -> Facts<'a> {
        let stretches = usage::stretches(case);
        let rungs = Rungs::of(case);
        let devices = standing::devices(case);
        let held = group::held(case, devices);
        let full_queues = queues::full(case, rungs.as_ref());
        let crowded = crowded::crowded(case);
        Facts {
            met: usage::met(case, &stretches),
            link: usage::links(case).iter().map(|link| link.used.share).reduce(f64::max),
            group_limits_met: group::reached(case, &held),
            held,
            set_rate: set_rate::find(case, rungs.as_ref(), devices, &full_queues),
            latency: latency::latency_over_floor(case),
            shared: shared::shared(case),
            gained: gained::from_others(rungs.as_ref(), crowded.as_ref()),
            crowded,
            busiest_thread: at_work(case, rungs.as_ref(), |cpu| cpu.busiest_thread_permille),
            waited: permille(case, |cpu| cpu.most_waiting_permille),
            pressed: at_work(case, rungs.as_ref(), |cpu| {
                cpu.least_idle_permille.or(cpu.busiest_thread_permille)
            }),
            host_busy: standing::host_busy(case),
            stolen: standing::stolen(case),
            users: users_by(case, |user| Some(user.time)),
            judged: BTreeMap::new(),
            stretches,
            rungs,
            devices,
            full_queues,
        }
    }

    /// The verdict of this kind, where it is asserted. Its rule must have been judged: the table of precedence says so.
    pub fn asserted(&self, kind: VerdictKind) -> Option<&Verdict> {
        debug_assert!(self.judged.contains_key(&kind), "{} is asked for before it is judged", kind.name());
        self.judged.get(&kind)?.as_ref().ok()
    }

    /// Has a rule yield to `kind` where that is asserted; `why` it does.
    pub fn yield_to(&self, kind: VerdictKind, why: &str) -> Result<(), Absent> {
        self.asserted(kind).map_or(Ok(()), |_| Err(Absent::yields(kind, why)))
    }

    /// The same to causes that are asserted of what serves the operations.
    pub fn yield_to_what_serves(&self, why: &str) -> Result<(), Absent> {
        if self.shared.is_some() {
            let why = "it is one disk that several members share";
            return Err(Absent::yields(VerdictKind::SharedDevice, why));
        }
        WHAT_SERVES.iter().try_for_each(|kind| self.yield_to(*kind, why))
    }

    /// The same where the working members are at their own limits.
    pub fn yield_to_volumes(&self, why: &str) -> Result<(), Absent> {
        let Some(met) = self.met.filter(|met| *met >= NEAR) else { return Ok(()) };
        Err(Absent::yields(VerdictKind::VolumeLimit, why).seen(MET_BELOW, met, Unit::Share, NEAR))
    }

    /// The same where they are at their limits, or at those that a control group sets them.
    pub fn yield_to_limits(&self, why: &str) -> Result<(), Absent> {
        self.yield_to_volumes(why)?;
        let Some(first) = self.held.first().filter(|_| self.group_limits_met) else { return Ok(()) };
        let what = format!("{MET_BELOW}, of that of the control group on {}", first.device);
        Err(Absent::yields(VerdictKind::RateLimit, why).seen(what, first.share(), Unit::Share, NEAR))
    }

    /// The same where the rate looks set.
    pub fn yield_to_set_rate(&self, why: &str) -> Result<(), Absent> {
        self.set_rate.as_ref().map_or(Ok(()), |_| Err(Absent::yields(VerdictKind::RateLimit, why)))
    }

    /// Whether the load has all that it asks for, and waits for it no longer than one operation alone takes, as far as that is known: a limit may be
    /// near, and holds nothing back.
    pub fn served_at_once(&self, case: &Case<'_>) -> bool {
        let waits = self.latency.is_some_and(|(latency, floor)| floor < FLOOR_SHARE * latency);
        served::served(case) && !waits
    }

    /// Part of the gap that others who use the disks explain: operations wait behind theirs.
    pub fn behind_others(&self) -> f64 {
        self.asserted(VerdictKind::Background).map_or(0.0, |others| others.explains)
    }

    /// Share of the operations in flight that are at the devices of the members.
    pub fn at_devices(&self) -> Option<f64> {
        self.devices.map(|devices| devices.share)
    }

    /// Share of the time that the load's busiest thread ran or waited to, where that is so much that latency may be its own.
    pub fn thread_busy(&self) -> Option<f64> {
        self.pressed.filter(|pressed| *pressed >= THREAD_BUSY)
    }

    /// Has a rule of latencies yield to a thread of which they may consist.
    pub fn yield_to_a_busy_thread(&self) -> Result<(), Absent> {
        self.thread_busy().map_or(Ok(()), |busy| {
            let why = "a load thread has little time left, of which latency may consist";
            let what = "share of the time that the least idle load thread ran or waited to, which would have to be below";
            Err(Absent::because(why).seen(what, busy, Unit::Share, THREAD_BUSY))
        })
    }

    /// Whether something between the volumes and the load is known to limit: the link that they share, or a load thread.
    pub fn limited_above(&self) -> bool {
        self.thread_busy().is_some() || self.asserted(VerdictKind::InstanceLimit).is_some()
    }
}
