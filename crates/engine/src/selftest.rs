//! What the engine itself costs on this host, so that a result can be told from the tool's own limit.

use crate::clock::Clock;
use crate::cpu::CpuTime;
use crate::error::EngineError;
use crate::ring::{Ring, unavailable};
use crate::run::run;
use crate::target::{Target, TargetMember};
use ebbtide_model::backend::Control;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, Mix, Stop, Workload};

/// Length of a measurement in [`self_test`].
const LENGTH: Nanos = Nanos::from_millis(300);
/// Length of each of the measurements of [`ceiling`].
const SHORT: Nanos = Nanos::from_millis(45);
/// How many [`ceiling`] makes.
const TRIES: usize = 4;
/// Operations in one submission of the empty ring.
const BATCH: u32 = 32;

/// What the engine itself costs on this host.
#[derive(Debug, Clone, PartialEq)]
pub struct SelfTest {
    /// What the clock reads: `tsc` (the CPU's counter) or `vdso` (the kernel's clock).
    pub clock_source: &'static str,
    /// Nanoseconds of one reading of the clock.
    pub clock_cost_ns: f64,
    /// Smallest step of the clock that was seen, in nanoseconds.
    pub clock_resolution_ns: u64,
    /// Writes of 4 KiB to `/dev/null` at iodepth 128, one job, every operation recorded: the engine's ceiling.
    pub null_write: Option<Ceiling>,
    /// Empty operations through a ring, nothing recorded: the kernel's part of it.
    pub nop: Option<Ceiling>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// How fast something goes when no device is in the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Operations per second of one job.
    pub iops: f64,
    /// CPU time per operation, user and system, in nanoseconds.
    pub cpu_ns_per_io: f64,
}

/// Measures the clock and the engine's ceiling on this host; takes less than a second.
pub fn self_test() -> SelfTest {
    let clock = Clock::get();
    let mut notes = Vec::new();
    let mut kept = |result: Result<Ceiling, EngineError>, what: &str| {
        result.map_err(|error| notes.push(format!("{what} was not measured: {error}"))).ok()
    };
    let null_write = kept(null_write(LENGTH), "the ceiling on /dev/null");
    let nop = match unavailable() {
        Some(reason) => {
            notes.push(format!("the empty ring was not measured: {reason}"));
            None
        }
        None => kept(nop(clock), "the empty ring"),
    };
    SelfTest {
        clock_source: clock.source(),
        clock_cost_ns: clock_cost(clock),
        clock_resolution_ns: clock_resolution(clock).0,
        null_write,
        nop,
        notes,
    }
}

/// Nanoseconds of one reading: the fastest of several runs, since anything else is an interruption.
fn clock_cost(clock: Clock) -> f64 {
    const READINGS: u32 = 20_000;
    let runs = (0..10).map(|_| {
        let start = clock.now();
        for _ in 0..READINGS {
            std::hint::black_box(clock.now());
        }
        clock.now() - start
    });
    runs.min().unwrap_or_default().0 as f64 / f64::from(READINGS)
}

/// Smallest difference of two readings in a row that is not 0.
fn clock_resolution(clock: Clock) -> Nanos {
    let mut last = clock.now();
    let mut least = Nanos(u64::MAX);
    for _ in 0..20_000 {
        let now = clock.now();
        if now > last {
            least = least.min(now - last);
        }
        last = now;
    }
    least
}

/// The engine's ceiling on this host, in about 0.2 s: the fastest of several short measurements, since whatever else
/// runs meanwhile only takes away.
///
/// # Errors
/// When none of them could be made.
pub fn ceiling() -> Result<Ceiling, EngineError> {
    let mut best = null_write(SHORT)?;
    for _ in 1..TRIES {
        let again = null_write(SHORT)?;
        if again.iops > best.iops {
            best = again;
        }
    }
    Ok(best)
}

fn null_write(length: Nanos) -> Result<Ceiling, EngineError> {
    let failed = |source| EngineError::System { what: "open /dev/null", source };
    let file = ebbtide_door::kernel::null().map_err(failed)?;
    let member = TargetMember { name: "/dev/null".into(), file, size: Bytes(1 << 30), shaper: None };
    let target = Target::single(member)?;
    let workload = Workload {
        iodepth: 128,
        warm_up: Nanos(length.0 / 10),
        direct: false,
        ..Workload::new("self-test", Access::Random, Mix::Write, Stop::Runtime(length))
    };
    let samples = run(&target, &workload, 1, &Control::default())?;
    let ops = samples.array.write.count.ops as f64;
    let cpu = samples.cpu.load_user.0 + samples.cpu.load_system.0;
    Ok(Ceiling { iops: ops / samples.elapsed.as_secs_f64(), cpu_ns_per_io: cpu as f64 / ops.max(1.0) })
}

fn nop(clock: Clock) -> Result<Ceiling, EngineError> {
    let mut ring = Ring::for_probe(None::<&std::fs::File>, Bytes(4096), BATCH)?.ring;
    let mut seen = [(0, 0); BATCH as usize];
    let cpu = CpuTime::of_thread();
    let start = clock.now();
    let mut ops = 0u64;
    let elapsed = loop {
        for _ in 0..BATCH {
            let submitted = ring.nothing();
            debug_assert!(submitted);
        }
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(EngineError::System { what: "submit to the io_uring", source }),
        }
        ops += ring.reap(&mut seen) as u64;
        let elapsed = clock.now() - start;
        if elapsed >= LENGTH {
            break elapsed;
        }
    };
    let cpu = CpuTime::of_thread().since(cpu);
    Ok(Ceiling {
        iops: ops as f64 / elapsed.as_secs_f64(),
        cpu_ns_per_io: cpu.all().0 as f64 / ops.max(1) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_measurement_gives_a_ceiling_too() {
        assert!(ceiling().is_ok_and(|ceiling| ceiling.iops > 0.0));
    }

    #[test]
    fn everything_has_a_figure() {
        let test = self_test();
        assert!(test.clock_cost_ns > 0.0 && test.clock_resolution_ns > 0);
        let ceiling = test.null_write.expect("/dev/null can be written");
        assert!(ceiling.iops > 0.0 && ceiling.cpu_ns_per_io > 0.0);
    }
}
