//! `cpu`: what has the processors is dm-crypt.
//!
//! Derivation. The kernel encrypts in workers of its own, which count their processor time. Where they use a whole core or more,
//! and requests to the mapping take at least twice as long as those to what lies below it, requests spend most of their time
//! on being encrypted. How long that is is told in two ways, the smaller of which counts: by the time of a request above and below,
//! which merged requests do not distort, and by the requests in flight above and below, which split ones do not. What others
//! do on the disk below only makes either smaller.

use crate::evidence::{Check, Unit, evidence};
use crate::facts::case::Case;
use crate::judged::{Sure, Verdict, VerdictKind};
use ebbtide_model::samples::{DeviceObservation, DiskUse, Encryption, Observation, TrialSamples};
use ebbtide_model::units::{Bytes, format_throughput};

#[rustfmt::skip]
pub const CORES: Check = Check::at_least("or: cores that dm-crypt's workers use", 0.95, Unit::Cores, "one is full, or several as much");
#[rustfmt::skip]
pub const INSIDE: Check = Check::at_least("and share of a request's time that it is in dm-crypt", 0.50, Unit::Share, "most of it");
/// Beginnings of the names of dm-crypt's workers (drivers/md/dm-crypt.c): its two queues, and the thread that sorts writes.
const WORKERS: [&str; 2] = ["kcryptd", "dmcrypt_write"];

/// What dm-crypt did below the members.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen<'a> {
    /// Cores that its workers used.
    pub cores: f64,
    /// Share of a request's time that it was in dm-crypt, of the mapping with the most requests.
    pub inside: f64,
    /// Bytes per second through all mappings.
    rate: f64,
    /// Name and how the mapping with the most requests encrypts.
    device: &'a str,
    encryption: &'a Encryption,
}

/// Mappings of dm-crypt among the devices.
fn mappings(observed: &Observation) -> impl Iterator<Item = (&DeviceObservation, &Encryption)> {
    observed.devices.iter().filter_map(|device| Some((device, device.encryption.as_ref()?)))
}

/// Requests and their time in nanoseconds.
fn requests(total: &DiskUse) -> (f64, f64) {
    let ops = total.ops.total() as f64;
    (ops, total.time.read.0.saturating_add(total.time.write.0) as f64)
}

/// Share of a request's time that it is in this mapping and not below.
fn inside(observed: &Observation, device: &DeviceObservation) -> Option<f64> {
    let below = device.below.as_ref()?;
    let under = below.devices.iter().map(|index| observed.devices.get(*index).map(|d| requests(&d.total)));
    let (below_ops, below_time) = under
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (ops, time) = requests(&device.total);
    if ops <= 0.0 || time <= 0.0 || below_ops <= 0.0 {
        return None;
    }
    let by_request = 1.0 - (below_time / below_ops) / (time / ops);
    let by_number = 1.0 - below_time / time;
    Some(by_request.min(by_number).clamp(0.0, 1.0))
}

/// The mapping with the most requests.
fn busiest(trial: &TrialSamples) -> Option<(&DeviceObservation, &Encryption)> {
    mappings(trial.observed.as_ref()?).max_by_key(|(device, _)| device.total.weighted)
}

/// What dm-crypt did; nothing where it is not below the members, or was not observed.
pub(super) fn find<'a>(case: &Case<'a>, users: &[(String, f64)]) -> Option<Seen<'a>> {
    let (device, encryption) = case.trials.iter().find_map(|trial| busiest(trial))?;
    let inside = case.median(|trial| inside(trial.observed.as_ref()?, busiest(trial)?.0))?;
    let rate = case.median(|trial| {
        let all: f64 =
            mappings(trial.observed.as_ref()?).map(|(device, _)| device.total.bytes.total() as f64).sum();
        Some(all / trial.elapsed.as_secs_f64())
    })?;
    let numbers = |trial: &'a TrialSamples| {
        trial
            .observed
            .iter()
            .flat_map(|observed| mappings(observed))
            .map(|(device, _)| device.number.as_str())
    };
    let ours: Vec<&str> = case.trials.iter().flat_map(|trial| numbers(trial)).collect();
    // A queue has the number of its mapping in its name: `kcryptd/253:0`, `kcryptd-253:0-1` since Linux 6.10.
    let is_ours = |who: &str| {
        let queue = who.split_once(" (").map_or(who, |(queue, _)| queue);
        WORKERS.iter().any(|worker| queue.starts_with(worker))
            && queue.split(['/', '-']).any(|part| ours.contains(&part))
    };
    let cores = users.iter().filter(|(who, _)| is_ours(who)).map(|(_, cores)| cores).sum();
    Some(Seen { cores, inside, rate, device: device.shown_name(), encryption })
}

impl Seen<'_> {
    /// Where the workers are what requests wait for: in words and figures.
    pub fn finding(&self) -> Option<Verdict> {
        if !CORES.holds(self.cores) || !INSIDE.holds(self.inside) {
            return None;
        }
        let each = self.cores / (self.rate / 1e9).max(f64::MIN_POSITIVE);
        let figures = vec![
            CORES.figure(self.cores),
            INSIDE.figure(self.inside),
            evidence("processor time for each GB that is encrypted", each, Unit::Seconds, None),
        ];
        let smaller = match self.encryption.sector {
            Some(Bytes(512)) => {
                "sectors of 4096 instead of 512 bytes (cryptsetup reencrypt --sector-size 4096) take less of it; "
            }
            _ => "",
        };
        let sentence = format!(
            "encryption is the limit: dm-crypt's workers use {:.1} cores for {} through {}, {each:.1} s of processor time for each GB, \
             and requests are there for {:.0}% of their time; {smaller}more or faster cores",
            self.cores,
            format_throughput(self.rate),
            self.device,
            self.inside * 100.0,
        );
        Some(Verdict::new(VerdictKind::Cpu, Sure::Certain, self.inside, sentence, figures))
    }
}
