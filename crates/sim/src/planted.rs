//! Effects that the author of an experiment plants where there is no model: what a trial saw, as a design with them would have
//! shown it. Totals, intervals, histograms and members keep telling one story.

use ebbtide_model::experiment::Environment;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, OpSamples, TrialSamples};
use ebbtide_model::sweep::Planted;
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::{Arrival, Stop, Workload};

/// What the reader has to know, where anything is planted.
pub(super) fn note(environment: &Environment) -> Option<String> {
    let fields: Vec<&str> = environment.planted_fields.iter().map(String::as_str).collect();
    (!fields.is_empty()).then(|| {
        format!(
            "planted by the experiment, neither measured nor modelled: the effects of {} ([[effects]])",
            fields.join(", ")
        )
    })
}

/// Lets `planted` act on what a trial of `workload` saw.
pub(super) fn apply(planted: Planted, workload: &Workload, samples: &mut TrialSamples) {
    // What arrives by the clock arrives whatever the array does.
    let offered = workload.arrival != Arrival::Closed || workload.rate.is_some();
    let rate = if offered { 1.0 } else { planted.rate };
    // A trial that ends by size moves its bytes in another time.
    let by_size = matches!(workload.stop, Stop::Size(_));
    let (more, time) = if by_size { (1.0, 1.0 / rate) } else { (rate, 1.0) };
    let stretched = |span: Nanos| Nanos((span.0 as f64 * time).round() as u64);
    samples.elapsed = stretched(samples.elapsed);
    samples.interval = stretched(samples.interval);
    let factors = Factors { count: more, latency: planted.latency };
    factors.operations(&mut samples.array);
    samples.members.iter_mut().for_each(|member| factors.operations(&mut member.ops));
    let mut array = Running::default();
    let mut members = vec![Running::default(); samples.members.len()];
    for interval in &mut samples.series {
        interval.end = stretched(interval.end);
        interval.array = array.next(interval.array, more);
        for (member, running) in interval.members.iter_mut().zip(&mut members) {
            *member = running.next(*member, more);
        }
        interval.latency = interval.latency.scaled(interval.array.total().ops, planted.latency);
    }
    // Little's law: what is in flight is the rate times the latency.
    samples.mean_in_flight = samples.mean_in_flight.map(|flying| flying * rate * planted.latency);
    if let Some(observed) = &mut samples.observed {
        for device in &mut observed.devices {
            let total = &mut device.total;
            let (ops, bytes) = (total.ops, total.bytes);
            let scaled = |ops, bytes| counted(Count { ops, bytes }, more);
            let (read, write) = (scaled(ops.read, bytes.read), scaled(ops.write, bytes.write));
            total.ops = PerOp { read: read.ops, write: write.ops };
            total.bytes = PerOp { read: read.bytes, write: write.bytes };
            let took = |time: Nanos| Nanos((time.0 as f64 * more * planted.latency).round() as u64);
            total.time = PerOp { read: took(total.time.read), write: took(total.time.write) };
            total.weighted = total.time.read.plus(total.time.write);
            total.busy = Nanos(total.weighted.0.min(samples.elapsed.0));
        }
    }
}

/// What counts and latencies are multiplied by.
#[derive(Debug, Clone, Copy)]
struct Factors {
    count: f64,
    latency: f64,
}

impl Factors {
    fn operations(self, ops: &mut PerOp<OpSamples>) {
        for samples in [&mut ops.read, &mut ops.write] {
            samples.count = counted(samples.count, self.count);
            let ops = samples.count.ops;
            samples.latency = samples.latency.scaled(ops, self.latency);
            samples.service = samples.service.as_ref().map(|service| service.scaled(ops, self.latency));
        }
    }
}

/// `factor` times `count`, in whole operations; of as many bytes each where all are of one size.
fn counted(count: Count, factor: f64) -> Count {
    let ops = (count.ops as f64 * factor).round() as u64;
    let bytes = match count.bytes.checked_div(count.ops).filter(|size| size * count.ops == count.bytes) {
        Some(size) => size.saturating_mul(ops),
        None => (count.bytes as f64 * factor).round() as u64,
    };
    Count { ops, bytes }
}

/// Counts from the begin of a trial on, before and after the effect: rounding is carried on, so that intervals add up to the total.
#[derive(Debug, Clone, Copy, Default)]
struct Running {
    before: PerOp<Count>,
    after: PerOp<Count>,
}

impl Running {
    fn next(&mut self, interval: PerOp<Count>, factor: f64) -> PerOp<Count> {
        self.before = self.before.plus(interval);
        let now =
            PerOp { read: counted(self.before.read, factor), write: counted(self.before.write, factor) };
        let since = |now: Count, then: Count| Count {
            ops: now.ops.saturating_sub(then.ops),
            bytes: now.bytes.saturating_sub(then.bytes),
        };
        let difference =
            PerOp { read: since(now.read, self.after.read), write: since(now.write, self.after.write) };
        self.after = now;
        difference
    }
}
