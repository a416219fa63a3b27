//! `[host]` and `[resync]`: what a simulated array is surrounded by.

use super::limits::positive;
use super::read::{Duration, Given, Size, Throughput, required, section, valid};
use crate::problems::{Problems, Span};
use ebbtide_model::experiment::{Environment, Host, Resync};

section! {
    /// The host that a simulation runs on. Real backends have a real one and ignore this.
    #[schemars(rename = "Host")]
    "the host"
    struct RawHost {
        /// Hosts that run the workload at the same time, each with its own links; job n runs on host n modulo
        /// this [default: 1].
        #[schemars(range(min = 1, max = 64))]
        count: u32,
        /// Cores of each; jobs beyond this number share them [default: 8].
        #[schemars(range(min = 1, max = 1024))]
        cores: u32,
        /// CPU time that a job spends on each I/O [default: 0, the CPU never limits].
        cpu_per_io: Duration,
        /// The same for each write, where writes cost differently [default: cpu_per_io].
        cpu_per_write: Duration,
        /// Rate at which the page cache copies to and from the application [default: 4GB/s].
        copy_rate: Throughput,
        /// Largest request that a device takes; larger ones are split (`max_sectors_kb`) [default: any].
        max_request: Size,
        /// Memory for the page cache; workloads with `direct = false` need it.
        memory: Size,
        /// Readahead of buffered sequential reads (`read_ahead_kb`; `blockdev --setra` counts 512-byte sectors)
        /// [default: as Linux, 128KiB or two whole stripes].
        readahead: Size,
    }
}

section! {
    /// A resync of the array during every trial, as after a member was replaced; the simulator only.
    #[schemars(rename = "Resync")]
    "the resync"
    struct RawResync {
        /// Most bytes per second on each member (`sync_speed_max`).
        #[schemars(required)]
        rate: Throughput,
    }
}

pub(super) fn resolve(
    host: &Given<RawHost>,
    resync: &Given<RawResync>,
    problems: &mut Problems,
) -> Environment {
    let mut environment = Environment::default();
    if let Some((raw, _)) = valid(host) {
        environment.clients = counted("count", &raw.count, 64, problems).unwrap_or(1);
        environment.host = resolve_host(raw, problems);
    }
    environment.resync = valid(resync).and_then(|(raw, span)| {
        let (rate, span) = required(&raw.rate, "rate", "rate = \"200MB/s\"", ("the resync", span), problems)?;
        flowing("rate", rate.0, span, problems).map(|rate| Resync { rate })
    });
    environment
}

fn resolve_host(raw: &RawHost, problems: &mut Problems) -> Host {
    let default = Host::default();
    let mut size =
        |key, given: &Given<Size>| valid(given).and_then(|(size, span)| positive(key, *size, span, problems));
    let max_request = size("max_request", &raw.max_request);
    let memory = size("memory", &raw.memory);
    let readahead = size("readahead", &raw.readahead);
    if let (Some(max), Some(at)) = (max_request, &raw.max_request)
        && max.0 < 4096
    {
        let remedy = "write for example `max_request = \"256KiB\"`";
        problems.out_of_range(&at.span, "max_request", max, "at least 4KiB", remedy);
    }
    Host {
        cores: counted("cores", &raw.cores, 1024, problems).unwrap_or(default.cores),
        cpu_per_io: valid(&raw.cpu_per_io).map_or(default.cpu_per_io, |(time, _)| *time),
        cpu_per_write: valid(&raw.cpu_per_write).map(|(time, _)| *time),
        copy_rate: valid(&raw.copy_rate)
            .and_then(|(rate, span)| flowing("copy_rate", rate.0, span, problems))
            .unwrap_or(default.copy_rate),
        max_request,
        memory,
        readahead,
    }
}

fn counted(key: &'static str, given: &Given<u32>, most: u32, problems: &mut Problems) -> Option<u32> {
    let (count, span) = valid(given)?;
    if (1..=most).contains(count) {
        return Some(*count);
    }
    let remedy = format!("write for example `{key} = 2`");
    problems.out_of_range(span, key, count, format!("from 1 to {most}"), remedy);
    None
}

fn flowing(key: &'static str, rate: f64, span: &Span, problems: &mut Problems) -> Option<f64> {
    if rate > 0.0 {
        return Some(rate);
    }
    let remedy = format!("write for example `{key} = \"200MB/s\"`");
    problems.out_of_range(span, key, rate, "more than 0 bytes per second", remedy);
    None
}
