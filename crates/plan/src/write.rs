//! A design as an experiment file: what its prediction is computed from, and what measures it.

use crate::bounds::{Bottleneck, Bound, Load, tightest};
use crate::candidates::{Candidate, Medium, link, random, sequential};
use ebbtide_model::need::Need;
use ebbtide_model::units::{Bytes, Nanos, format_hours};
use ebbtide_model::volume::{Limit, LinkShape};
use std::fmt::Write;

/// Size of the file that stands for a volume when the experiment runs on files.
const FILE: Bytes = Bytes(256 * Bytes::MIB);
/// Operations that a trial is to have, for its 99th percentile.
const OPERATIONS: f64 = 20_000.0;
/// Seconds that a trial takes at least and at most.
const SECONDS: (f64, f64) = (1.0, 10.0);
/// Most operations in flight.
const DEPTH_MOST: f64 = 4096.0;

/// The workload of random operations, as many as there can be.
pub(crate) const RANDOM: &str = "random";
/// The workload of which the latency counts.
pub(crate) const LATENCY: &str = "latency";
/// The workload of sequential bytes.
pub(crate) const SEQUENTIAL: &str = "sequential";

/// The design of `candidate` for `need` as an experiment file. Its name is `plan-DESIGN`.
pub fn experiment(candidate: &Candidate<'_>, need: &Need) -> String {
    let mut text = String::new();
    // Writing to a text never fails.
    let _infallible = write(&mut text, candidate, need);
    text
}

fn write(text: &mut String, candidate: &Candidate<'_>, need: &Need) -> std::fmt::Result {
    let name = candidate.name();
    let members = candidate.array.members;
    writeln!(text, "# A design of `ebb plan` for the need {:?}.", need.name)?;
    writeln!(text, "#")?;
    writeln!(text, "#     ebb run FILE --on sim --seed 1                what the plan predicts")?;
    writeln!(
        text,
        "#     ebb run FILE --on files --scale 1/20          the same on files that are held to these limits"
    )?;
    writeln!(text, "#")?;
    match candidate.array.hosts {
        1 => writeln!(
            text,
            "# On the volumes themselves: in [volumes.vol] their paths as `device` instead of all else.\n"
        )?,
        _ => writeln!(
            text,
            "# On the volumes themselves: `ebb export` on each host, `ebb attach` here, and what that says as `device` instead of all else\n\
             # but `host` (docs/reference/remote.md).\n"
        )?,
    }
    writeln!(text, "name = \"{}\"", short_name(&format!("plan-{name}")))?;
    if let Some(day) = need.as_of {
        writeln!(text, "as_of = {day}")?;
    }
    let local = candidate.medium == Medium::Local;
    if let Some(instance) = candidate.instance.filter(|_| local) {
        writeln!(text, "instance = {:?}", instance.id)?;
    }
    let bursting = candidate.bursting(need);
    let given = |what: Bottleneck, limit: &Limit| rate_given(candidate, need, what, limit);
    let link = link(need, candidate.instance, local);
    if let Some(link) = &link {
        let bursts = bursting.iter().any(|what| !what.is_volumes());
        let why = match bursts {
            true => in_burst(need),
            false => "its baseline; what it does in a burst is left out".to_owned(),
        };
        let whose = match candidate.array.hosts {
            1 => "The instance towards its volumes",
            _ => "All storage hosts towards their volumes, and the client's network in each direction",
        };
        writeln!(text, "\n# {whose}: {why}.")?;
        writeln!(text, "[links.{:?}]", link.name)?;
        limits(text, link, given)?;
    }
    let each = members / candidate.array.hosts;
    let groups: Vec<String> = match candidate.array.hosts {
        1 => vec!["vol".to_owned()],
        hosts => (b'a'..=b'z').take(hosts as usize).map(|letter| char::from(letter).to_string()).collect(),
    };
    for group in &groups {
        let host = (groups.len() > 1).then(|| format!("storage-{group}"));
        volume(text, candidate, need, (group, each, host.as_deref()), link.as_ref())?;
    }
    let array = &candidate.array;
    writeln!(text, "\n[designs.{}]", array.name())?;
    writeln!(text, "layout = \"{}\"", if array.hosts > 1 { "replicated" } else { array.kind.name() })?;
    if let Some(chunk) = array.kind.chunk() {
        writeln!(text, "chunk = \"{chunk}\"")?;
    }
    if array.hosts > 1 || array.kind.copies().is_some() {
        writeln!(text, "copies = {}", array.copies())?;
    }
    let named = groups.iter().map(|group| match each {
        1 => format!("\"{group}\""),
        _ => format!("\"{group}[0..{}]\"", each - 1),
    });
    writeln!(text, "members = [{}]", named.collect::<Vec<_>>().join(", "))?;
    workloads(text, candidate, need)?;
    writeln!(text, "\n[answer]\nbudget = \"1h\"")
}

/// The volumes `group`, `each` of them, of a host where there are several.
fn volume(
    text: &mut String,
    candidate: &Candidate<'_>,
    need: &Need,
    (group, each, host): (&str, u32, Option<&str>),
    link: Option<&LinkShape>,
) -> std::fmt::Result {
    let bursting = candidate.bursting(need);
    let given = |what: Bottleneck, limit: &Limit| rate_given(candidate, need, what, limit);
    let in_burst = in_burst(need);
    writeln!(text, "\n[volumes.{group}]")?;
    if each > 1 {
        writeln!(text, "count = {each}")?;
    }
    if let Some(host) = host {
        writeln!(text, "host = \"{host}\"")?;
    }
    writeln!(
        text,
        "size = \"{FILE}\"          # of the file that stands for it; the speed is that of the size below"
    )?;
    writeln!(text, "type = {:?}", candidate.type_name())?;
    if let Medium::Ordered(_, order) = candidate.medium {
        writeln!(text, "provisioned_size = \"{}\"", order.size)?;
        if let Some(iops) = order.iops {
            writeln!(text, "provisioned_iops = {iops:.0}")?;
        }
        if let Some(rate) = order.throughput {
            writeln!(text, "provisioned_throughput = \"{}/s\"", Bytes(rate.round() as u64))?;
        }
    }
    let shape = &candidate.shape;
    let of = |limit: Option<Limit>, what| {
        let limit = limit.filter(|limit| limit.burst_rate.is_some())?;
        Some((bursting.contains(&what), given(what, &limit)))
    };
    let credits =
        [of(shape.iops, Bottleneck::VolumeIops), of(shape.throughput, Bottleneck::VolumeThroughput)];
    if link.is_some() || credits.iter().any(Option::is_some) {
        writeln!(text, "\n[volumes.{group}.shape]")?;
    }
    if let Some(link) = link {
        writeln!(text, "link = {:?}", link.name)?;
    }
    if let Some((true, iops)) = credits[0] {
        writeln!(text, "iops = {iops:.0}       # {in_burst}")?;
    }
    if let Some((true, bytes)) = credits[1] {
        writeln!(text, "throughput = \"{}\"       # {in_burst}", rate(bytes))?;
    }
    if credits.iter().flatten().any(|(bursts, _)| !bursts) {
        writeln!(text, "credits_at_start = 0       # what is sustained, not the burst")?;
    }
    Ok(())
}

/// What `limit` gives as long as the need takes.
fn rate_given(candidate: &Candidate<'_>, need: &Need, what: Bottleneck, limit: &Limit) -> f64 {
    let hours = if candidate.bursting(need).contains(&what) { need.hours_a_day } else { 24.0 };
    Bound::new(what, limit, 1.0).rate_for(hours)
}

fn in_burst(need: &Need) -> String {
    format!("what its burst credits give for {} a day", format_hours(need.hours_a_day))
}

/// Names of experiments have an end.
fn short_name(name: &str) -> String {
    name.chars().take(100).collect()
}

fn limits(
    text: &mut String,
    link: &LinkShape,
    given: impl Fn(Bottleneck, &Limit) -> f64,
) -> std::fmt::Result {
    if let Some(limit) = &link.iops {
        writeln!(text, "iops = {:.0}", given(Bottleneck::InstanceIops, limit))?;
    }
    if let Some(limit) = &link.throughput {
        writeln!(text, "throughput = \"{}\"", rate(given(Bottleneck::InstanceThroughput, limit)))?;
    }
    for (key, way) in [("reads", &link.one_way.read), ("writes", &link.one_way.write)] {
        if let Some(limit) = &way.throughput {
            writeln!(text, "[links.{:?}.{key}]\nthroughput = \"{}\"", link.name, rate(limit.rate))?;
        }
    }
    Ok(())
}

/// A rate of bytes as the language reads it.
fn rate(bytes: f64) -> String {
    let tenths = (bytes / 1e5).round();
    if (tenths * 1e5 - bytes).abs() < 0.5 {
        format!("{}MB/s", tenths / 10.0)
    } else {
        format!("{bytes:.0}B/s")
    }
}

fn workloads(text: &mut String, candidate: &Candidate<'_>, need: &Need) -> std::fmt::Result {
    let reads = need.read_percent;
    let direction = |read, write, mixed| match reads {
        100 => read,
        0 => write,
        _ => mixed,
    };
    let mix = |text: &mut String| match reads {
        0 | 100 => Ok(()),
        _ => writeln!(text, "rwmixread = {reads}"),
    };
    let most = |bounds| candidate.most(bounds, need).map_or(1.0, |(_, rate)| rate);
    let members = f64::from(candidate.array.members);
    let shape = &candidate.shape;
    let service = shape.read_latency.mean().max(shape.write_latency.mean()) * 1e-9;
    // Four times what is in flight without waiting (Little's law), and enough for chance to leave no member idle.
    let depth = |rate: f64, least: f64| {
        let depth = (4.0 * rate * service).max(least).clamp(1.0, DEPTH_MOST);
        (depth.ceil() as u32).next_power_of_two()
    };
    let times = |text: &mut String, rate: f64| {
        let seconds = (OPERATIONS / rate.max(1.0)).clamp(SECONDS.0, SECONDS.1);
        let runtime = Nanos::from_millis((seconds * 10.0).ceil() as u64 * 100);
        writeln!(text, "runtime = \"{runtime}\"\nramp_time = \"{}\"", Nanos(runtime.0 / 4))
    };
    let operations = most(&candidate.random);
    let access = direction("randread", "randwrite", "randrw");
    writeln!(text, "\n# As many operations as there can be.\n[workloads.{RANDOM}]\nrw = \"{access}\"")?;
    mix(text)?;
    writeln!(text, "bs = \"{}\"\niodepth = {}", need.bs, depth(operations, 32.0 * members))?;
    times(text, operations)?;
    let what = if need.iops.is_some() { "while as many arrive as are needed" } else { "of one at a time" };
    writeln!(text, "\n# Their latency {what}.\n[workloads.{LATENCY}]\nrw = \"{access}\"")?;
    mix(text)?;
    writeln!(text, "bs = \"{}\"", need.bs)?;
    match need.iops {
        Some(rate) => {
            writeln!(text, "iodepth = {}", depth(operations, 32.0 * members))?;
            writeln!(text, "rate_iops = {rate}\nrate_process = \"poisson\"")?;
            times(text, rate)?;
        }
        None => {
            writeln!(text, "iodepth = 1")?;
            times(text, 1.0 / service.max(1e-6))?;
        }
    }
    let load = sequential(need);
    let block = load.block(&candidate.array);
    let blocks = most(&candidate.sequential) / block.0 as f64;
    let access = direction("read", "write", "rw");
    writeln!(text, "\n# From one end to the other.\n[workloads.{SEQUENTIAL}]\nrw = \"{access}\"")?;
    mix(text)?;
    writeln!(text, "bs = \"{block}\"\niodepth = {}", depth(blocks, 4.0 * members))?;
    // Blocks are large: as long as a tenth of the operations take.
    times(text, blocks * 10.0)
}

/// Operations that a simulated trial of each workload has: what its prediction costs.
pub(crate) fn work(candidate: &Candidate<'_>, need: &Need) -> f64 {
    let of = |rate: f64| rate.max(1.0) * (OPERATIONS / rate.max(1.0)).clamp(SECONDS.0, SECONDS.1) * 1.25;
    let most = |bounds| tightest(bounds, |_| 24.0).map_or(1.0, |(_, rate)| rate);
    let copies = f64::from(candidate.array.copies().max(1 + 2 * candidate.array.parity()));
    let block = |load: Load| load.block(&candidate.array).0 as f64;
    let operations = most(&candidate.random);
    let blocks = most(&candidate.sequential) / block(sequential(need));
    let paced = need.iops.map_or(OPERATIONS, of);
    let chunks = block(sequential(need))
        / candidate.array.kind.chunk().map_or(block(random(need)).max(1e6), |c| c.0 as f64);
    copies * (of(operations) + paced + of(blocks * 10.0) / 10.0 * chunks.max(1.0))
}
