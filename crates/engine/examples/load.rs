//! Runs the engine alone on one file or device, for comparisons with other load generators (`cargo xtask bench`).
//!
//! `load FILE key=value...` with `rw` (read, write, randread, randwrite), `bs`, `iodepth`, `numjobs`, `runtime`
//! or `size`, `span`,
//! `direct` (0 or 1), `ioengine` (io_uring or psync), `hipri`, `sqpoll` (0 or 1); prints `key=value` lines.
#![allow(clippy::disallowed_methods)]

use ebbtide_door::Handle;
use ebbtide_engine::{Target, TargetMember, run};
use ebbtide_model::backend::Control;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, IoEngine, Mix, Stop, Workload};
use std::error::Error;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: load FILE [key=value...]")?;
    let mut w = Workload {
        iodepth: 32,
        direct: false,
        ..Workload::new("load", Access::Random, Mix::Read, Stop::Runtime(Nanos::from_secs(2)))
    };
    for argument in arguments {
        let (key, value) = argument.split_once('=').ok_or_else(|| format!("{argument} is not key=value"))?;
        match key {
            "rw" => {
                w.access = if value.starts_with("rand") { Access::Random } else { Access::Sequential };
                w.mix = if value.ends_with("write") { Mix::Write } else { Mix::Read };
            }
            "bs" => w.bs = value.parse()?,
            "iodepth" => w.iodepth = value.parse()?,
            "numjobs" => w.numjobs = value.parse()?,
            "runtime" => w.stop = Stop::Runtime(value.parse()?),
            "size" => w.stop = Stop::Size(value.parse()?),
            "span" => w.span = Some(value.parse()?),
            "direct" => w.direct = value == "1",
            "ioengine" => w.ioengine = if value == "psync" { IoEngine::Psync } else { IoEngine::IoUring },
            "hipri" => w.engine.hipri = value == "1",
            "sqpoll" => w.engine.sqthread_poll = value == "1",
            _ => return Err(format!("unknown key {key}").into()),
        }
    }
    let flags = if w.direct { libc::O_DIRECT } else { 0 };
    let writes = w.writes();
    let mut file = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(&path)?;
    let size = match file.seek(SeekFrom::End(0))? {
        // A character device such as /dev/null: as large as the span says.
        0 => w.span.map_or(1 << 30, |span| span.0),
        size => size,
    };
    let target = Target::single(TargetMember {
        name: path,
        file: Handle::unjudged(file),
        size: Bytes(size),
        shaper: None,
    })?;
    let samples = run(&target, &w, 1, &Control::default())?;
    let of = if writes { &samples.array.write } else { &samples.array.read };
    let ops = of.count.ops.max(1) as f64;
    println!("ops={}", of.count.ops);
    println!("iops={:.0}", of.count.ops as f64 / samples.elapsed.as_secs_f64());
    println!("cpu_ns={:.1}", (samples.cpu.load_user.0 + samples.cpu.load_system.0) as f64 / ops);
    println!("user_ns={:.1}", samples.cpu.load_user.0 as f64 / ops);
    for (name, p) in [("p50", 50.0), ("p99", 99.0)] {
        println!("{name}_ns={}", of.latency.percentile(p).unwrap_or(0));
    }
    println!("mean_ns={:.0}", of.latency.mean().unwrap_or(0.0));
    samples.notes.iter().for_each(|note| println!("note={note}"));
    Ok(())
}
