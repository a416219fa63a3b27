//! What well-known benchmarks print, ready to be read.

use super::{Reading, Source};
use crate::metric::FigureDefinition;
use strum::{AsRefStr, EnumString, VariantNames};

/// A benchmark whose output is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames, AsRefStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Known {
    /// PostgreSQL's pgbench, 9 to 17.
    Pgbench,
    /// sysbench 1.0: the OLTP scripts.
    Sysbench,
    /// RocksDB's db_bench.
    DbBench,
    /// SQLite's speedtest1.
    Speedtest1,
    /// YCSB.
    Ycsb,
}

/// A figure: its name, its unit, whether less is better, and the pattern of its number.
type Row = (&'static str, &'static str, bool, &'static str);

impl Known {
    fn rows(self) -> &'static [Row] {
        match self {
            // Up to 13 a line with and one without the time to connect; from 14 one without it, or with reconnections (-C).
            Known::Pgbench => &[
                ("tps", "tps", false, r"^tps = ([0-9.]+) \((?:excluding|without|including re)"),
                ("latency", "ms", true, r"^latency average\s*[:=] ([0-9.]+) ms"),
            ],
            Known::Sysbench => &[
                ("tps", "tps", false, r"transactions: +[0-9]+ +\(([0-9.]+) per sec"),
                ("p95", "ms", true, r"95th percentile: +([0-9.]+)"),
            ],
            Known::DbBench => &[
                ("ops", "ops/s", false, r"^\S+ +: +[0-9.]+ micros/op ([0-9]+) ops/sec"),
                ("time_per_op", "us", true, r"^\S+ +: +([0-9.]+) micros/op"),
            ],
            Known::Speedtest1 => &[("total", "s", true, r"TOTAL\.+ +([0-9.]+)s")],
            Known::Ycsb => &[
                ("ops", "ops/s", false, r"^\[OVERALL\], Throughput\(ops/sec\), ([0-9.E]+)"),
                ("read_p99", "us", true, r"^\[READ\], 99thPercentileLatency\(us\), ([0-9.]+)"),
            ],
        }
    }

    /// Its figures. pgbench's with `logs` (`-l`) have the 99th percentile of its transactions too.
    pub fn readings(self, logs: bool) -> Vec<Reading> {
        let reading = |(name, unit, lower_is_better, from): (&str, &str, bool, Source)| Reading {
            figure: FigureDefinition { name: name.to_owned(), unit: unit.to_owned(), lower_is_better }.into(),
            from,
        };
        let rows = self.rows().iter();
        let rows = rows.map(|(name, unit, lower, pattern)| {
            reading((*name, *unit, *lower, Source::Pattern((*pattern).to_owned())))
        });
        let p99 =
            (self == Known::Pgbench && logs).then(|| reading(("p99", "ms", true, Source::PgbenchLog(99))));
        rows.chain(p99).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::Output;
    use super::*;

    fn read(known: Known, text: &str) -> Vec<(String, f64)> {
        let readings = known.readings(false).into_iter();
        let read = readings.filter_map(|reading| reading.read(Output { text, latencies: &[] }).ok());
        read.map(|(figure, value)| (figure.definition().name.clone(), value)).collect()
    }

    fn figures(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn pgbench_prints_its_rate_in_three_ways() {
        let v9 = "number of transactions actually processed: 1000/1000\nlatency average: 2.000 ms\n\
                  tps = 85.184871 (including connections establishing)\ntps = 85.296346 (excluding connections establishing)\n";
        assert_eq!(read(Known::Pgbench, v9), figures(&[("tps", 85.296346), ("latency", 2.0)]));
        let v15 = include_str!("recorded/pgbench-15.txt");
        assert_eq!(read(Known::Pgbench, v15), figures(&[("tps", 1534.466715), ("latency", 2.607)]));
        let reconnects = "latency average = 11.013 ms\naverage connection time = 10.3 ms\n\
                          tps = 87.692 (including reconnection times)\n";
        assert_eq!(read(Known::Pgbench, reconnects), figures(&[("tps", 87.692), ("latency", 11.013)]));
    }

    #[test]
    fn others_print_theirs() {
        let sysbench = "    transactions:                        1294   (129.22 per sec.)\n\
                        Latency (ms):\n         95th percentile:                       11.24\n";
        assert_eq!(read(Known::Sysbench, sysbench), figures(&[("tps", 129.22), ("p95", 11.24)]));
        let db_bench = "fillseq      :       2.345 micros/op 426439 ops/sec 2.345 seconds 1000000 operations;   47.2 MB/s\n\
                        readrandom   :       5.000 micros/op 200000 ops/sec 5.000 seconds 1000000 operations;   22.1 MB/s (1000000 of 1000000 found)\n";
        assert_eq!(read(Known::DbBench, db_bench), figures(&[("ops", 200000.0), ("time_per_op", 5.0)]));
        let speedtest = " 990 - ANALYZE..................................................    0.023s\n       TOTAL.......................................................    3.456s\n";
        assert_eq!(read(Known::Speedtest1, speedtest), figures(&[("total", 3.456)]));
        let ycsb = "[OVERALL], RunTime(ms), 1234\n[OVERALL], Throughput(ops/sec), 12345.6789\n[READ], 99thPercentileLatency(us), 1503\n";
        assert_eq!(read(Known::Ycsb, ycsb), figures(&[("ops", 12345.6789), ("read_p99", 1503.0)]));
    }

    #[test]
    fn every_pattern_is_one() {
        for name in Known::VARIANTS {
            let known: Known = name.parse().expect("is one");
            for reading in known.readings(true) {
                assert_eq!(reading.from.check(), Ok(()), "{name}");
            }
        }
    }
}
