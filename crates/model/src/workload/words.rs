//! A workload in words, as every plan and report writes it.

use super::{Access, Arrival, IoEngine, Mix, Sequence, Stop, Workload};
use crate::units::{Bytes, format_count, format_throughput};

impl Workload {
    /// What it does and how, with every setting that differs from the plainest one.
    pub fn in_words(&self) -> String {
        if let Some(program) = &self.program {
            return program.in_words();
        }
        let mut parts = self.parts();
        if self.ioengine == IoEngine::Psync {
            parts.push("pread and pwrite".to_owned());
        }
        parts.join(", ")
    }

    /// The same where it ran, or is to run, on `engine`.
    pub fn in_words_on(&self, engine: &str) -> String {
        if let Some(program) = &self.program {
            return program.in_words();
        }
        let mut parts = self.parts();
        parts.push(engine.to_owned());
        parts.join(", ")
    }

    fn parts(&self) -> Vec<String> {
        let order = match self.access {
            Access::Sequential => "sequential",
            Access::Random => "random",
        };
        let mix = match self.mix {
            Mix::Read => "read".to_owned(),
            Mix::Write => "write".to_owned(),
            Mix::Rewrite => "rewrite".to_owned(),
            Mix::Mixed { read_percent } => format!("mix with {read_percent}% reads"),
        };
        let arrival = match self.arrival {
            Arrival::Closed => None,
            Arrival::Fixed { iops } => Some(format!("{iops} IOPS at a fixed pace")),
            Arrival::Poisson { iops } => Some(format!("{iops} IOPS at random instants")),
        };
        let (engine, details) = (&self.engine, &self.details);
        let cpus = || engine.cpus_allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let synced = |every: Option<u32>, what: &str| {
            every.map(|every| format!("{what} after {}", format_count(every.into(), "write")))
        };
        let given = |given: bool, what: &str| given.then(|| what.to_owned());
        [
            Some(format!("{order} {mix}")),
            match details.sequence {
                Sequence::Plain => None,
                Sequence::Holes(bytes) if bytes < 0 => {
                    Some(format!("each {} before the end of the one before", Bytes(bytes.unsigned_abs())))
                }
                Sequence::Holes(bytes) => Some(format!("holes of {}", Bytes(bytes.unsigned_abs()))),
                Sequence::Runs { length, identical: true } => Some(format!("{length} times at each offset")),
                Sequence::Runs { length, identical: false } => {
                    Some(format!("{length} in a row from each offset"))
                }
            },
            (!self.distribution.is_uniform()).then(|| format!("offsets {}", self.distribution)),
            Some(
                self.split
                    .as_ref()
                    .map_or_else(|| format!("bs {}", self.bs), |split| format!("sizes {split}")),
            ),
            Some(format!("iodepth {}", self.iodepth)),
            (self.numjobs > 1).then(|| format!("{} jobs", self.numjobs)),
            arrival,
            self.conditions.latency.map(|latency| {
                format!(
                    "looking for the most that keeps {} in windows of {}",
                    latency.in_words(),
                    latency.window
                )
            }),
            self.conditions.steady.map(|steady| format!("until {}", steady.in_words())),
            self.conditions.floor.map(|floor| floor.in_words()),
            self.conditions.go_on.name().map(|name| {
                let what = if name == "io" { "operations" } else { name };
                format!("on after failed {what}{}", if name == "io" { "" } else { "s" })
            }),
            self.rate.map(|rate| format!("at most {}", format_throughput(rate.0 as f64))),
            (self.think_time.0 > 0).then(|| format!("think time {}", self.think_time)),
            match (self.span, details.offset) {
                (None, Bytes(0)) => None,
                (None, offset) => Some(format!("from offset {offset}")),
                (Some(span), Bytes(0)) => Some(format!("on the first {span}")),
                (Some(span), offset) => Some(format!("on {span} from offset {offset}")),
            },
            (details.offset_increment.0 > 0)
                .then(|| format!("each job {} behind the one before", details.offset_increment)),
            Some(match self.stop {
                Stop::Runtime(time) => format!("for {time}"),
                Stop::Size(bytes) => format!("until {bytes} are moved"),
            }),
            Some(if self.direct { "O_DIRECT" } else { "through the page cache" }.to_owned()),
            given(details.keep_cache && !self.direct, "with what is cached already"),
            (details.start_delay.0 > 0).then(|| format!("after {}", details.start_delay)),
            given(self.sync, "O_SYNC"),
            synced(details.fsync_every, "fsync"),
            synced(details.fdatasync_every, "fdatasync"),
            (details.compress_percent > 0).then(|| format!("{}% compressible", details.compress_percent)),
            (details.dedupe_percent > 0).then(|| format!("{}% written before", details.dedupe_percent)),
            given(self.end_fsync, "fsync at the end"),
            given(details.refill, "refilled buffers"),
            given(details.verify, "read back and compared after it"),
            given(engine.hipri, "polled completions"),
            given(engine.sqthread_poll, "a kernel thread submits"),
            given(engine.huge_pages, "huge pages"),
            engine.nice.map(|nice| format!("nice {nice}")),
            (!engine.cpus_allowed.is_empty()).then(|| format!("CPUs {}", cpus())),
            self.group.as_ref().map(|group| format!("beside the other jobs of {group}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    #[test]
    fn only_what_is_not_plain_is_told() {
        let plain = Workload::new("w", Access::Random, Mix::Read, Stop::Runtime(Nanos::from_secs(3)));
        let plain = Workload { bs: Bytes(4096), iodepth: 4, ..plain };
        assert_eq!(plain.in_words(), "random read, bs 4KiB, iodepth 4, for 3s, O_DIRECT");
        assert_eq!(plain.in_words_on("io_uring"), format!("{}, io_uring", plain.in_words()));
        let mut told = Workload {
            mix: Mix::Mixed { read_percent: 70 },
            numjobs: 2,
            arrival: Arrival::Fixed { iops: 100.0 },
            stop: Stop::Size(Bytes(1 << 20)),
            direct: false,
            ioengine: IoEngine::Psync,
            ..plain
        };
        told.details.fsync_every = Some(1);
        told.engine.cpus_allowed = vec![1, 3];
        told.group = Some("oltp".to_owned());
        assert_eq!(
            told.in_words(),
            "random mix with 70% reads, bs 4KiB, iodepth 4, 2 jobs, 100 IOPS at a fixed pace, until 1MiB are moved, \
             through the page cache, fsync after 1 write, CPUs 1,3, beside the other jobs of oltp, pread and pwrite"
        );
    }
}
