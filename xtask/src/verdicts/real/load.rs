//! The load of a case, as options of `ebb bench` and of fio.

use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    pub rw: &'static str,
    pub bs_kib: u64,
    pub iodepth: u32,
    pub numjobs: u32,
    /// pread and pwrite instead of io_uring.
    pub psync: bool,
    pub direct: bool,
    /// How each write is made durable: `--sync`, `--fsync` or `--fdatasync`.
    pub durable: Option<&'static str>,
    /// The part that is used, in MiB; all of it where nothing is said.
    pub span_mib: Option<u64>,
    /// Operations per second that arrive.
    pub rate_iops: Option<u64>,
    /// Seconds that are measured.
    pub seconds: f64,
}

/// Seconds of a measurement that follows another: below one nothing is judged, so that it ends there.
pub const MOMENT: f64 = 0.9;

impl Load {
    /// With O_DIRECT, for four seconds: a ladder then has all its rungs.
    pub fn new(rw: &'static str, bs_kib: u64, iodepth: u32) -> Load {
        Load {
            rw,
            bs_kib,
            iodepth,
            numjobs: 1,
            psync: false,
            direct: true,
            durable: None,
            span_mib: None,
            rate_iops: None,
            seconds: 4.0,
        }
    }

    pub fn writes(&self) -> bool {
        self.rw.contains("write")
    }

    /// The same for a moment only.
    pub fn for_a_moment(&self) -> Load {
        Load { seconds: MOMENT, ..self.clone() }
    }

    /// Options of `ebb bench`.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec![
            format!("--rw={}", self.rw),
            format!("--bs={}k", self.bs_kib),
            format!("--iodepth={}", self.iodepth),
            format!("--numjobs={}", self.numjobs),
            format!("--direct={}", u8::from(self.direct)),
            format!("--runtime={}ms", (self.seconds * 1000.0).round()),
        ];
        if self.psync {
            options.push("--ioengine=psync".to_owned());
        }
        match self.durable {
            Some("sync") => options.push("--sync".to_owned()),
            Some(how) => options.push(format!("--{how}=1")),
            None => {}
        }
        options.extend(self.span_mib.map(|mib| format!("--size={mib}m")));
        options.extend(self.rate_iops.map(|rate| format!("--rate_iops={rate}")));
        if self.writes() {
            options.push("--destroy".to_owned());
        }
        options
    }

    /// The same load as a workload of an experiment file, below its header.
    pub fn toml(&self) -> String {
        format!(
            "rw = \"{}\"\nbs = \"{}k\"\niodepth = {}\nnumjobs = {}\ndirect = {}\nruntime = \"{}ms\"\n",
            self.rw,
            self.bs_kib,
            self.iodepth,
            self.numjobs,
            self.direct,
            (self.seconds * 1000.0).round()
        )
    }

    /// Options of fio, which keeps `depth` in flight on `path` for so many seconds.
    pub fn fio(&self, path: &str, depth: u32, seconds: f64) -> Vec<String> {
        vec![
            "--name=x".to_owned(),
            format!("--filename={path}"),
            format!("--rw={}", self.rw),
            format!("--bs={}k", self.bs_kib),
            format!("--iodepth={depth}"),
            format!("--numjobs={}", self.numjobs),
            format!("--direct={}", u8::from(self.direct)),
            "--ioengine=io_uring".to_owned(),
            "--time_based".to_owned(),
            format!("--runtime={}ms", (seconds * 1000.0).round()),
            "--group_reporting".to_owned(),
            "--norandommap".to_owned(),
            // What it writes must not look like somebody's data to `ebb`.
            "--zero_buffers".to_owned(),
            "--output-format=json".to_owned(),
        ]
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}k", self.rw, self.bs_kib)?;
        if self.psync {
            f.write_str(" psync")?;
        } else {
            write!(f, " x{}", self.iodepth)?;
        }
        if self.numjobs > 1 {
            write!(f, ", {} jobs", self.numjobs)?;
        }
        if !self.direct {
            f.write_str(" buffered")?;
        }
        if let Some(how) = self.durable {
            write!(f, " {how}")?;
        }
        self.rate_iops.map_or(Ok(()), |rate| write!(f, " at {rate}/s"))
    }
}
