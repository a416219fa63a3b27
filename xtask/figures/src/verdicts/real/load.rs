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

    /// What `ebb bench` and fio call the same.
    fn common(&self, depth: u32, seconds: f64) -> String {
        let Load { rw, bs_kib, numjobs, direct, .. } = self;
        let (direct, millis) = (u8::from(*direct), (seconds * 1000.0).round());
        format!(
            "--rw={rw} --bs={bs_kib}k --iodepth={depth} --numjobs={numjobs} --direct={direct} --runtime={millis}ms"
        )
    }

    /// Options of `ebb bench`.
    pub fn options(&self) -> String {
        let mut options = self.common(self.iodepth, self.seconds);
        if self.psync {
            options += " --ioengine=psync";
        }
        match self.durable {
            Some("sync") => options += " --sync",
            Some(how) => options += &format!(" --{how}=1"),
            None => {}
        }
        options += &self.span_mib.map_or(String::new(), |mib| format!(" --size={mib}m"));
        options += &self.rate_iops.map_or(String::new(), |rate| format!(" --rate_iops={rate}"));
        if self.writes() {
            options += " --destroy";
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
    pub fn fio(&self, path: &str, depth: u32, seconds: f64) -> String {
        // What it writes must not look like somebody's data to `ebb`.
        format!(
            "--name=x --filename={path} {} --ioengine=io_uring --time_based --group_reporting --norandommap --zero_buffers \
             --output-format=json",
            self.common(depth, seconds)
        )
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
