//! From the options of one job to what it does.

use super::lines::Section;
use super::options::{Draft, FileJob, Target};
use super::values::Amount;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, Arrival, Details, Mix, Regions, Stop, Workload};

/// What a job says of its file in bytes, shares of it included.
struct Sizes {
    offset: Bytes,
    size: Option<Bytes>,
    io_size: Option<Bytes>,
}

impl Draft {
    /// The job; `section` is its name unless it gives itself another, `length` the bytes of a file or device that is
    /// there.
    pub(super) fn finish(
        mut self,
        section: &Section,
        group: u32,
        length: &dyn Fn(&str) -> Option<Bytes>,
    ) -> Result<FileJob, String> {
        let name = self.name.take().unwrap_or_else(|| section.name.clone());
        if self.workload.bs.0 == 0 {
            return Err("bs is 0".to_owned());
        }
        let (target, regions) = self.target(&name)?;
        let Sizes { offset, size, io_size } = self.sizes(&target, length)?;
        let Workload { bs, numjobs, direct, .. } = self.workload;
        if direct && (!bs.0.is_multiple_of(512) || !offset.0.is_multiple_of(512)) {
            return Err("direct=1 needs bs and offset to be multiples of 512".to_owned());
        }
        let mix = match self.workload.mix {
            Mix::Mixed { .. } => Mix::Mixed { read_percent: self.read_percent },
            mix => mix,
        };
        let jobs = u64::from(numjobs);
        let rate_of_all = |rate: u64, what: &str| {
            if matches!(mix, Mix::Mixed { .. }) {
                return Err(format!(
                    "{what} limits reads and writes apart in fio and together here: give a mixed job none, or two jobs"
                ));
            }
            if rate == 0 {
                return Err(format!("{what} is 0"));
            }
            rate.checked_mul(jobs).ok_or_else(|| format!("{what} is too large"))
        };
        let rate = self.rate.map(|rate| rate_of_all(rate.0, "rate")).transpose()?.map(Bytes);
        let arrival = match self.rate_iops.map(|rate| rate_of_all(rate, "rate_iops")).transpose()? {
            None => Arrival::Closed,
            Some(iops) => {
                self.notes.push(
                    "rate_iops: operations arrive whether or not earlier ones have completed, and latency counts from \
                     their arrival (fio: from the submission)"
                        .to_owned(),
                );
                let iops = iops as f64;
                if self.poisson { Arrival::Poisson { iops } } else { Arrival::Fixed { iops } }
            }
        };
        let separate = matches!(target, Target::Each(_));
        if separate && offset.0 > 0 && numjobs > 1 {
            return Err("offset with a file for each clone is not done; give a filename".to_owned());
        }
        let each = io_size.or(size);
        let stop = match (self.runtime, each) {
            (Some(runtime), _) if self.time_based => Stop::Runtime(runtime),
            (_, Some(each)) => {
                let total = each.0.checked_mul(jobs).and_then(|all| all.checked_mul(self.loops.into()));
                let total = total.ok_or("size times numjobs times loops is too large")?;
                Stop::Size(Bytes(total))
            }
            (Some(runtime), None) => {
                self.notes.push(
                    "without a size the job runs for its runtime (fio: or once over the file)".to_owned(),
                );
                Stop::Runtime(runtime)
            }
            (None, None) => {
                return Err(
                    "neither size nor runtime says when it ends; write for example runtime=60".to_owned()
                );
            }
        };
        if stop == Stop::Runtime(Nanos(0)) || stop == Stop::Size(Bytes(0)) {
            return Err("it ends before it begins: size and runtime have to be more than 0".to_owned());
        }
        let time_limit = match stop {
            Stop::Size(_) => self.runtime.filter(|runtime| runtime.0 > 0),
            Stop::Runtime(_) => None,
        };
        if self.workload.access == Access::Random && !self.notes.iter().any(|note| note.starts_with("random"))
        {
            self.notes.push("random offsets may repeat (fio's norandommap)".to_owned());
        }
        let span = size.map(|size| if separate { Bytes(size.0.saturating_mul(jobs)) } else { size });
        let workload = Workload {
            name: name.clone(),
            mix,
            stop,
            span,
            arrival,
            rate,
            details: Details {
                offset,
                regions,
                time_limit,
                fsync_every: Some(self.fsync).filter(|n| *n > 0),
                fdatasync_every: Some(self.fdatasync).filter(|n| *n > 0),
            },
            ..self.workload
        };
        let workload = match workload.without_effect() {
            // Commonly in [global], for the jobs beside it that write.
            Some((option @ ("fsync" | "fdatasync"), _)) => {
                self.notes.push(format!("{option} changes nothing: the job does not write"));
                let details = Details { fsync_every: None, fdatasync_every: None, ..workload.details };
                Workload { details, ..workload }
            }
            _ => workload,
        };
        if let Some((option, instead)) = workload.without_effect() {
            return Err(format!("{option} changes nothing: {instead}"));
        }
        if self.time_based && self.runtime.is_none() {
            self.notes.push("time_based changes nothing without a runtime".to_owned());
        }
        let file_size = size.map(|size| Bytes(size.0.saturating_add(offset.0)));
        let (place, options) = (section.place.clone(), Vec::new());
        Ok(FileJob { name, place, group, target, file_size, workload, options, notes: self.notes })
    }

    /// Amounts in bytes; shares are taken of the file or device that is there.
    fn sizes(&self, target: &Target, length: &dyn Fn(&str) -> Option<Bytes>) -> Result<Sizes, String> {
        let whole = match target {
            Target::Shared(file) => length(file),
            Target::Each(_) => None,
        };
        let bytes = |what: &str, amount: Amount, of: Option<Bytes>| match amount {
            Amount::Bytes(bytes) => Ok(bytes),
            Amount::Percent(percent) => {
                let of = of.ok_or_else(|| {
                    format!(
                        "{what}={percent}%: that is a share of a file or device that is there; write bytes"
                    )
                })?;
                // In whole blocks, as fio has it.
                let share = (u128::from(of.0) * u128::from(percent) / 100) as u64;
                Ok::<Bytes, String>(Bytes(share / self.workload.bs.0 * self.workload.bs.0))
            }
        };
        let offset =
            self.offset.map(|offset| bytes("offset", offset, whole)).transpose()?.unwrap_or_default();
        let rest = whole.map(|whole| Bytes(whole.0.saturating_sub(offset.0)));
        // All of what is there is what a job without a size uses.
        let all = self.size == Some(Amount::Percent(100)) && rest.is_none();
        let size = self.size.filter(|_| !all).map(|size| bytes("size", size, rest)).transpose()?;
        let io_size = self.io_size.map(|io| bytes("io_size", io, size.or(rest))).transpose()?;
        Ok(Sizes { offset, size, io_size })
    }

    /// `filename` below `directory`; without one, fio's `name.clone.0` for every clone.
    fn target(&self, name: &str) -> Result<(Target, Regions), String> {
        let below = |file: &str| match &self.directory {
            Some(directory) if !file.starts_with('/') => {
                format!("{}/{file}", directory.trim_end_matches('/'))
            }
            _ => file.to_owned(),
        };
        match &self.filename {
            Some(file) if file.contains(':') => Err(format!(
                "filename={file}: several files of one job are not done; write a job for each, or a design of an \
                 experiment"
            )),
            Some(file) => Ok((Target::Shared(below(file)), Regions::Shared)),
            None => {
                let files =
                    (0..self.workload.numjobs).map(|clone| below(&format!("{name}.{clone}.0"))).collect();
                Ok((Target::Each(files), Regions::Own))
            }
        }
    }
}
