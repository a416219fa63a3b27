//! `cpu`: what has the processors is dm-crypt.
//!
//! Derivation. The kernel encrypts in workers of its own, which count their processor time. Where they use a whole core or more,
//! and requests to the mapping take at least twice as long as those to what lies below it, requests spend most of their time
//! on being encrypted. How long that is is told in two ways, the smaller of which counts: by the time of a request above and below,
//! which merged requests do not distort, and by the requests in flight above and below, which split ones do not. What others
//! do on the disk below only makes either smaller.

use super::*;
use ebbtide_model::samples::{DeviceObservation, DiskUse, Encryption, Observation};
use ebbtide_model::units::{Bytes, format_throughput};

/// Beginnings of the names of dm-crypt's workers (drivers/md/dm-crypt.c): its two queues, and the thread that sorts writes.
const WORKERS: [&str; 2] = ["kcryptd", "dmcrypt_write"];
/// The options without which there are such workers.
const NO_QUEUES: [&str; 2] = ["no_read_workqueue", "no_write_workqueue"];

/// Mappings of dm-crypt among the devices.
fn mappings(observed: &Observation) -> impl Iterator<Item = (&DeviceObservation, &Encryption)> {
    observed.devices.iter().filter_map(|device| Some((device, device.encryption.as_ref()?)))
}

/// Share of a request's time that it is in this mapping and not below.
fn inside(observed: &Observation, device: &DeviceObservation) -> Option<f64> {
    let requests = |total: &DiskUse| {
        (total.ops.total() as f64, total.time.read.0.saturating_add(total.time.write.0) as f64)
    };
    let below = device.below.as_ref()?.devices.iter().filter_map(|at| observed.devices.get(*at));
    let below = below.map(|device| requests(&device.total));
    let (below_ops, below_time) = below.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (ops, time) = requests(&device.total);
    let by_request = 1.0 - (below_time / below_ops) / (time / ops);
    let by_number = 1.0 - below_time / time;
    (ops > 0.0 && time > 0.0 && below_ops > 0.0).then(|| by_request.min(by_number).clamp(0.0, 1.0))
}

/// The mapping with the most requests.
fn busiest(trial: &TrialSamples) -> Option<(&DeviceObservation, &Encryption)> {
    mappings(trial.observed.as_ref()?).max_by_key(|(device, _)| device.total.weighted)
}

/// What dm-crypt did below the members; nothing where it is not there, or was not observed.
pub(super) fn find(case: &Case<'_>, users: &[(String, f64)]) -> Option<Seen> {
    let (device, encryption) = case.trials.iter().find_map(|trial| busiest(trial))?;
    let inside = case.median(|trial| inside(trial.observed.as_ref()?, busiest(trial)?.0))?;
    let rate = case.median(|trial| {
        let bytes = mappings(trial.observed.as_ref()?).map(|(device, _)| device.total.bytes.total());
        Some(bytes.sum::<u64>() as f64 / trial.elapsed.as_secs_f64())
    })?;
    let observed = case.trials.iter().flat_map(|trial| &trial.observed);
    let ours: Vec<&str> =
        observed.flat_map(|observed| mappings(observed)).map(|(device, _)| device.number.as_str()).collect();
    // A queue has the number of its mapping in its name: `kcryptd/253:0`, `kcryptd-253:0-1` since Linux 6.10.
    let is_ours = |who: &str| {
        let queue = who.split_once(" (").map_or(who, |(queue, _)| queue);
        WORKERS.iter().any(|worker| queue.starts_with(worker))
            && queue.split(['/', '-']).any(|part| ours.contains(&part))
    };
    let cores: f64 = users.iter().filter(|(who, _)| is_ours(who)).map(|(_, cores)| cores).sum();
    let seen = vec![(ENCRYPTING, cores), (INSIDE, inside)];
    if !ENCRYPTING.holds(cores) || !INSIDE.holds(inside) {
        return Some((seen, None));
    }
    let each = cores / (rate / 1e9).max(f64::MIN_POSITIVE);
    let figures = vec![
        ENCRYPTING.figure(cores),
        INSIDE.figure(inside),
        evidence("processor time for each GB that is encrypted", each, Unit::Seconds, None),
    ];
    let mut advice = String::new();
    if encryption.sector == Some(Bytes(512)) {
        advice.push_str(
            "sectors of 4096 instead of 512 bytes (cryptsetup reencrypt --sector-size 4096) take less of it; ",
        );
    }
    if !NO_QUEUES.iter().all(|option| encryption.options.iter().any(|known| known == option)) {
        advice.push_str(&format!("{} do without the workers; ", NO_QUEUES.join(" and ")));
    }
    let sentence = format!(
        "encryption is the limit: dm-crypt's workers use {cores:.1} cores for {} through {}, {each:.1} s of processor time for each GB, \
         and requests are there for {:.0}% of their time; {advice}more or faster cores",
        format_throughput(rate),
        device.shown_name(),
        inside * 100.0,
    );
    Some((seen, Some(ground(Sure::Certain, inside, sentence, figures))))
}
