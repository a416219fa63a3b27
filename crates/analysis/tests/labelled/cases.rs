//! Labelled cases: random plausible set-ups, each with one limiting cause that is known because it was built in.
//!
//! Every case starts from the same kind of set-up (a few volumes of one type with limits, latencies and small
//! differences, an array over them, a workload) with nothing in short supply, and then one thing is made short.

use super::random::Random;
use ebbtide_analysis::VerdictKind;
use ebbtide_model::experiment::{Answer, Design, Environment, Experiment, Resync, Volume, VolumeSource};
use ebbtide_model::layout::{Arrangement, ArrayKind, LayoutNode};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::stack::Stack;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::{Birth, FirstTouch, Latency, Limit, LinkShape, Mood, Shape};
use ebbtide_model::workload::{Access, Arrival, IoEngine, Mix, Stop, Workload};

/// A set-up with its truth.
#[derive(Debug)]
pub struct Case {
    /// What is run; one design, one workload.
    pub experiment: Experiment,
    /// What limits it; `Unknown` when nothing does.
    pub truth: VerdictKind,
    /// What else is the case, so that naming it beside the truth is no error.
    pub also: &'static [VerdictKind],
    /// Whether all volumes are to be found on one disk, as the inventory says.
    pub shared_disk: bool,
}

/// Every class, in the order of the table.
pub const CLASSES: [VerdictKind; 15] = [
    VerdictKind::VolumeLimit,
    VerdictKind::InstanceLimit,
    VerdictKind::Member,
    VerdictKind::Cpu,
    VerdictKind::Concurrency,
    VerdictKind::Burst,
    VerdictKind::SharedDevice,
    VerdictKind::Cache,
    VerdictKind::FirstTouch,
    VerdictKind::RequestSize,
    VerdictKind::Readahead,
    VerdictKind::Background,
    VerdictKind::PartialStripe,
    VerdictKind::IdleCopies,
    VerdictKind::Unknown,
];

/// A set-up with nothing in short supply.
struct Setup {
    random: Random,
    members: usize,
    kind: ArrayKind,
    shape: Shape,
    workload: Workload,
    /// Mean latency of one operation in seconds.
    latency: f64,
}

impl Setup {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let members = random.one_of(&[1, 2, 3, 4, 4, 6, 8]);
        let chunk = Bytes(random.one_of(&[64, 128, 256, 512]) << 10);
        let (sequential, reads) = (random.chance(0.4), random.chance(0.6));
        let mirrored = ArrayKind::Raid10 { chunk, copies: 2, arrangement: Arrangement::Near };
        let kind = match members {
            1 => ArrayKind::Linear,
            2 | 4 if random.chance(0.15) => mirrored,
            _ => ArrayKind::Stripe { chunk },
        };
        let median = random.about(300e3, 3e6);
        let tail = random.between(1.5, 5.0);
        let (median, p99) = (Nanos(median as u64), Nanos((median * tail) as u64));
        // p99 = median * exp(2.326 sigma), mean = median * exp(sigma^2 / 2).
        let sigma = tail.ln() / 2.326;
        let latency = median.0 as f64 / 1e9 * (sigma * sigma / 2.0).exp();
        let bs = if sequential { random.one_of(&[256, 512, 1024]) } else { random.one_of(&[4, 8, 16]) };
        let mut shape = Shape {
            iops: Some(Limit::steady(random.about(800.0, 6000.0).round())),
            throughput: Some(Limit::steady((random.about(80e6, 400e6) / 1e6).round() * 1e6)),
            io_unit: Some(Bytes(256 << 10)),
            read_latency: Latency::Lognormal { median, p99 },
            write_latency: Latency::Lognormal { median, p99 },
            ..Shape::default()
        };
        shape.character.merge_sequential = true;
        if random.chance(0.7) {
            let (rate_sigma, latency_sigma) = (random.between(0.0, 0.02), random.between(0.0, 0.08));
            shape.character.birth = Some(Birth { rate_sigma, latency_sigma });
        }
        let workload = Workload {
            bs: Bytes(bs << 10),
            warm_up: Nanos::from_millis(300),
            ..Workload::new(
                "load",
                if sequential { Access::Sequential } else { Access::Random },
                if reads { Mix::Read } else { Mix::Write },
                Stop::Runtime(Nanos::from_millis(1500)),
            )
        };
        Setup { random, members, kind, shape, workload, latency }
    }

    fn sequential(&self) -> bool {
        self.workload.access == Access::Sequential
    }

    /// Operations per second of one member's limits at this workload.
    fn member_limit(&self) -> f64 {
        let bytes = self.shape.throughput.map_or(f64::MAX, |limit| limit.rate / self.workload.bs.0 as f64);
        let units = if self.sequential() { (self.workload.bs.0 as f64 / 262_144.0).max(1e-9) } else { 1.0 };
        let iops = self.shape.iops.map_or(f64::MAX, |limit| limit.rate / units);
        iops.min(bytes)
    }

    /// Operations of the array per second at the members' limits.
    fn array_limit(&self) -> f64 {
        let copies =
            self.kind.copies().filter(|_| self.workload.mix == Mix::Write).map_or(1, |(copies, _)| copies);
        self.member_limit() * self.members as f64 / f64::from(copies)
    }

    /// So many operations in flight that want of them is not what limits.
    fn deep(&mut self) {
        let factor = self.random.between(2.5, 6.0);
        let waiting = self.array_limit() * self.latency * factor;
        let stripes = 4.0 * self.stripe() / self.workload.bs.0 as f64;
        let depth = waiting.max(8.0 * self.members as f64);
        self.workload.iodepth = if self.sequential() { depth.max(stripes) } else { depth }.min(2048.0) as u32;
    }

    fn stripe(&self) -> f64 {
        self.kind.chunk().map_or(0.0, |chunk| chunk.0 as f64 * self.members as f64)
    }

    fn at_least(&mut self, members: usize) {
        self.members = self.members.max(members);
        if self.kind == ArrayKind::Linear {
            self.kind = ArrayKind::Stripe { chunk: Bytes(128 << 10) };
        }
    }

    fn experiment(self) -> Experiment {
        let volume = |index: usize| Volume {
            shape: Some(self.shape.clone()),
            ..Volume::new(
                format!("vol{index}"),
                VolumeSource::NewFile { directory: None },
                Some(Bytes(4 << 30)),
            )
        };
        Experiment {
            name: "labelled".into(),
            description: None,
            volumes: (0..self.members).map(volume).collect(),
            links: Vec::new(),
            designs: vec![Design {
                name: "array".into(),
                layout: LayoutNode::Array {
                    kind: self.kind,
                    members: (0..self.members).map(LayoutNode::Volume).collect(),
                },
                stack: Stack::default(),
            }],
            control: 0,
            workloads: vec![self.workload],
            answer: Answer {
                level: 0.95,
                precision: 0.05,
                indifference: 0.02,
                trials_min: 6,
                trials_max: 6,
                budget: Nanos::from_secs(1 << 30),
                budget_asked: true,
                rest: Nanos(0),
                metric: None,
            },
            environment: Environment::default(),
            sweep: None,
        }
    }
}

/// Case `seed` of class `truth`.
pub fn case(truth: VerdictKind, seed: u64) -> Case {
    let mut setup = Setup::new(seed);
    let mut also: &'static [VerdictKind] = &[];
    let mut shared_disk = false;
    let experiment = match truth {
        VerdictKind::VolumeLimit => {
            setup.deep();
            if setup.random.chance(0.2) && setup.members > 1 {
                setup.kind = ArrayKind::Linear;
            }
            setup.experiment()
        }
        VerdictKind::InstanceLimit => {
            setup.at_least(2);
            setup.deep();
            let share = setup.random.between(0.3, 0.75);
            let copies = setup.members as f64 * setup.member_limit() / setup.array_limit();
            let ops = setup.array_limit() * share * copies;
            let bytes = setup.sequential() || setup.random.chance(0.5);
            let limit = Limit::steady(if bytes { ops * setup.workload.bs.0 as f64 } else { ops });
            setup.shape.link = Some(0);
            let mut experiment = setup.experiment();
            experiment.links = vec![LinkShape {
                name: "instance".into(),
                iops: (!bytes).then_some(limit),
                throughput: bytes.then_some(limit),
                one_way: PerOp::default(),
            }];
            experiment
        }
        VerdictKind::Member => member(setup),
        VerdictKind::Cpu => {
            setup.deep();
            let share = setup.random.between(0.25, 0.7);
            let per_io = Nanos((1e9 / (setup.array_limit() * share)) as u64);
            let mut experiment = setup.experiment();
            experiment.environment.host.cpu_per_io = per_io;
            experiment
        }
        VerdictKind::Concurrency => {
            // Random, so that each operation works one member; at most 40% of the limits.
            setup.workload.access = Access::Random;
            setup.workload.bs = Bytes(setup.random.one_of(&[4, 8, 16]) << 10);
            let share = setup.random.between(0.05, 0.4);
            let depth = (setup.array_limit() * share * setup.latency).max(1.0);
            setup.workload.iodepth = depth as u32;
            // One operation at a time must not reach the limit already.
            let alone = 1.5 / setup.latency;
            let limit = setup.shape.iops.map_or(alone, |limit| limit.rate.max(2.0 * alone));
            setup.shape.iops = Some(Limit::steady(limit));
            setup.experiment()
        }
        VerdictKind::Burst => {
            also = &[VerdictKind::VolumeLimit];
            setup.workload.access = Access::Random;
            setup.workload.bs = Bytes(setup.random.one_of(&[4, 8, 16]) << 10);
            let rate = setup.random.about(100.0, 1000.0);
            let burst = rate * setup.random.between(2.5, 8.0);
            let seconds = setup.random.between(1.3, 3.5);
            setup.shape.iops =
                Some(Limit { rate, burst_rate: Some(burst), burst_credits: (burst - rate) * seconds });
            setup.deep();
            setup.workload.iodepth = (burst * setup.members as f64 * setup.latency * 3.0)
                .max(8.0 * setup.members as f64)
                .min(1024.0) as u32;
            setup.workload.stop = Stop::Runtime(Nanos::from_secs(4));
            setup.experiment()
        }
        VerdictKind::SharedDevice => {
            setup.at_least(2);
            setup.deep();
            shared_disk = true;
            setup.experiment()
        }
        VerdictKind::Cache => {
            also = &[VerdictKind::Cpu];
            let span = 64u64 << 20;
            setup.workload.mix = Mix::Read;
            setup.workload.direct = false;
            setup.workload.ioengine = IoEngine::Psync;
            setup.workload.span = Some(Bytes(span));
            setup.workload.warm_up = Nanos::from_secs(20);
            setup.workload.stop = Stop::Runtime(Nanos::from_millis(300));
            setup.workload.bs = Bytes(setup.random.one_of(&[128, 256, 512]) << 10);
            let copy_rate = setup.random.between(1e9, 4e9);
            let mut experiment = setup.experiment();
            experiment.environment.host.memory = Some(Bytes(span * 8));
            experiment.environment.host.copy_rate = copy_rate;
            experiment
        }
        VerdictKind::FirstTouch => {
            also = &[VerdictKind::Concurrency];
            setup.workload.access = Access::Random;
            setup.workload.mix = Mix::Read;
            setup.workload.bs = Bytes(setup.random.one_of(&[4, 8, 16]) << 10);
            let penalty = setup.latency * setup.random.between(4.0, 20.0);
            let share = setup.random.between(0.2, 0.6);
            let depth = setup.array_limit() * share * (setup.latency + penalty);
            setup.workload.iodepth = depth.clamp(1.0, 512.0) as u32;
            let latency = Nanos((penalty * 1e9) as u64);
            setup.shape.character.first_touch = Some(FirstTouch {
                block: Bytes(512 << 10),
                latency: Latency::Lognormal { median: latency, p99: Nanos(latency.0 * 3) },
            });
            setup.experiment()
        }
        VerdictKind::RequestSize => {
            also = &[VerdictKind::VolumeLimit];
            setup.workload.access = Access::Sequential;
            setup.shape.character.merge_sequential = false;
            let bs = setup.random.one_of(&[4u64, 8, 16]) << 10;
            setup.workload.bs = Bytes(bs);
            let iops = setup.shape.iops.map_or(1000.0, |limit| limit.rate);
            let most = iops * bs as f64 * setup.random.between(2.5, 10.0);
            setup.shape.throughput = Some(Limit::steady(most));
            setup.workload.access = Access::Random;
            setup.deep();
            setup.workload.access = Access::Sequential;
            let stripes = 4.0 * setup.stripe() / bs as f64;
            setup.workload.iodepth = f64::from(setup.workload.iodepth).max(stripes).min(2048.0) as u32;
            setup.experiment()
        }
        VerdictKind::Readahead => {
            setup.at_least(4);
            setup.kind = ArrayKind::Stripe { chunk: Bytes(setup.random.one_of(&[128, 256, 512]) << 10) };
            setup.workload.access = Access::Sequential;
            setup.workload.mix = Mix::Read;
            setup.workload.direct = false;
            setup.workload.ioengine = IoEngine::Psync;
            setup.workload.bs = Bytes(setup.random.one_of(&[64, 128]) << 10);
            let window = setup.random.one_of(&[64u64, 128, 256]) << 10;
            // The reader has at most two windows in flight: the volumes could do at least twice as much as that gives.
            let reached = 2.0 * window as f64 / setup.latency;
            let enough = 2.0 * reached / setup.members as f64;
            for limit in setup.shape.throughput.iter_mut() {
                limit.rate = limit.rate.max(enough);
            }
            for limit in setup.shape.iops.iter_mut() {
                limit.rate = limit.rate.max(enough / setup.workload.bs.0 as f64);
            }
            let mut experiment = setup.experiment();
            experiment.environment.host.memory = Some(Bytes(256 << 20));
            experiment.environment.host.readahead = Some(Bytes(window));
            experiment
        }
        VerdictKind::Background => {
            also = &[VerdictKind::VolumeLimit];
            setup.at_least(2);
            setup.members = setup.members.div_ceil(2) * 2;
            setup.kind =
                ArrayKind::Raid10 { chunk: Bytes(128 << 10), copies: 2, arrangement: Arrangement::Near };
            // Bytes are what both want, and the trial keeps no more in flight than the resync leaves room beside.
            setup.workload.access = Access::Sequential;
            setup.workload.mix = Mix::Write;
            setup.workload.bs = Bytes(setup.random.one_of(&[64, 128]) << 10);
            setup.shape.iops = None;
            setup.shape.io_unit = None;
            setup.shape.character.merge_sequential = false;
            let each = setup.random.one_of(&[3u32, 4, 6, 8]);
            setup.workload.iodepth = each * setup.members as u32;
            let in_flight = f64::from(each) * setup.workload.bs.0 as f64;
            let most = in_flight / setup.latency / setup.random.between(2.0, 4.0);
            let limit = setup.shape.throughput.map_or(most, |limit| limit.rate.min(most));
            setup.shape.throughput = Some(Limit::steady(limit));
            let rate = limit * setup.random.between(0.3, 0.8);
            let mut experiment = setup.experiment();
            experiment.environment.resync = Some(Resync { rate });
            experiment
        }
        VerdictKind::PartialStripe => {
            also = &[VerdictKind::VolumeLimit];
            let chunk = Bytes(setup.random.one_of(&[64, 128, 256]) << 10);
            let two = setup.random.chance(0.4);
            // RAID6 of four reads one page for three that it writes: whole stripes would halve that, and the limit explains as much.
            setup.members = setup.members.max(if two { 5 } else { 4 });
            setup.kind = if two { ArrayKind::Raid6 { chunk } } else { ArrayKind::Raid5 { chunk } };
            setup.workload.access = Access::Random;
            setup.workload.mix = Mix::Write;
            setup.workload.bs = Bytes(setup.random.one_of(&[4, 8, 16]) << 10);
            setup.deep();
            setup.experiment()
        }
        VerdictKind::IdleCopies => {
            also = &[VerdictKind::VolumeLimit];
            setup.members = setup.random.one_of(&[2, 3, 4, 6]);
            setup.kind = ArrayKind::Mirror;
            setup.workload.access = Access::Sequential;
            setup.workload.mix = Mix::Read;
            setup.workload.bs = Bytes(setup.random.one_of(&[128, 256, 512]) << 10);
            setup.deep();
            setup.experiment()
        }
        _ => {
            // As much as arrives is served: nothing limits it.
            let share = setup.random.between(0.1, 0.6);
            setup.deep();
            let iops = (setup.array_limit() * share).max(20.0);
            setup.workload.arrival =
                if setup.random.chance(0.5) { Arrival::Poisson { iops } } else { Arrival::Fixed { iops } };
            setup.experiment()
        }
    };
    Case { experiment, truth, also, shared_disk }
}

/// One member is slower than its siblings: a volume in a bad week, of which its limits say nothing, or a smaller one.
fn member(mut setup: Setup) -> Experiment {
    setup.at_least(3);
    setup.deep();
    setup.workload.iodepth = setup.workload.iodepth.saturating_mul(2).min(2048);
    let slow = setup.random.below(setup.members);
    let factor = setup.random.between(0.2, 0.55);
    let hidden = setup.random.chance(0.7);
    let mut experiment = setup.experiment();
    if let Some(shape) = &mut experiment.volumes[slow].shape {
        if hidden {
            let dwell = Nanos::from_secs(1 << 20);
            let mood = Mood { name: "bad".into(), dwell, weight: 1.0, rate: factor, latency: 1.0 / factor };
            shape.character.moods = vec![mood];
        } else {
            for limit in [&mut shape.iops, &mut shape.throughput].into_iter().flatten() {
                limit.rate *= factor;
            }
        }
    }
    experiment
}
