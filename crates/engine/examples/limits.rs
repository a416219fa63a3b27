//! How closely shaped volumes keep their limits: several volumes at once for ten seconds, each with its own block size
//! and depth. `limits [DIR]` makes its files in DIR (the system's directory for temporary files) and removes them.
#![allow(clippy::disallowed_methods)]

use ebbtide_door::Handle;
use ebbtide_engine::{Shaper, Target, TargetMember, run};
use ebbtide_model::backend::Control;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::{Latency, Limit, Shape};
use ebbtide_model::workload::{Access, Mix, Stop, Workload};
use std::error::Error;
use std::fs::File;
use std::sync::Arc;

/// (block size, iodepth, jobs, limit of operations per second, limit of bytes per second)
const CASES: [(u64, u32, u32, f64, f64); 7] = [
    (4096, 1, 1, 3000.0, 125e6),
    (4096, 32, 1, 3000.0, 125e6),
    (4096, 8, 4, 3000.0, 125e6),
    (16_384, 16, 1, 3000.0, 125e6),
    (65_536, 8, 1, 3000.0, 125e6),
    (262_144, 4, 2, 3000.0, 125e6),
    (1_048_576, 2, 1, 3000.0, 125e6),
];
const SIZE: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    std::thread::scope(|scope| {
        let trials: Vec<_> = (0..CASES.len())
            .map(|index| {
                scope.spawn({
                    let dir = &dir;
                    move || case(dir, index).map_err(|error| error.to_string())
                })
            })
            .collect();
        println!(
            "{:>9} {:>8} {:>5} {:>18} {:>14} {:>10}",
            "bs", "iodepth", "jobs", "limit", "measured", "off by"
        );
        for trial in trials {
            match trial.join() {
                Ok(line) => println!("{}", line?),
                Err(_) => return Err("a trial panicked".into()),
            }
        }
        Ok(())
    })
}

fn case(dir: &std::path::Path, index: usize) -> Result<String, Box<dyn Error>> {
    let (bs, iodepth, numjobs, iops, bytes) = CASES[index];
    let shape = Shape {
        iops: Some(Limit::steady(iops)),
        throughput: Some(Limit::steady(bytes)),
        read_latency: Latency::Constant(Nanos(200_000)),
        write_latency: Latency::Constant(Nanos(200_000)),
        ..Shape::default()
    };
    let path = dir.join(format!("ebbtide-limits-{}-{index}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.set_len(SIZE)?;
    let shaper = Some(Arc::new(Shaper::new(&shape, index as u64, None)));
    let target = Target::single(TargetMember {
        name: format!("vol{index}"),
        file: Handle::unjudged(file),
        size: Bytes(SIZE),
        shaper,
    })?;
    let workload = Workload {
        bs: Bytes(bs),
        iodepth,
        numjobs,
        warm_up: Nanos::from_secs(1),
        direct: false,
        ..Workload::new(
            "limits",
            Access::Random,
            Mix::Mixed { read_percent: 50 },
            Stop::Runtime(Nanos::from_secs(10)),
        )
    };
    let samples = run(&target, &workload, 1, &Control::default())?;
    let ops = (samples.array.read.count.ops + samples.array.write.count.ops) as f64;
    let measured = ops / samples.elapsed.as_secs_f64();
    // Whichever limit is reached first at this block size.
    let limit = iops.min(bytes / bs as f64);
    let off = (measured / limit - 1.0) * 100.0;
    Ok(format!("{bs:>9} {iodepth:>8} {numjobs:>5} {limit:>13.1} IOPS {measured:>9.1} IOPS {off:>+9.2}%"))
}
