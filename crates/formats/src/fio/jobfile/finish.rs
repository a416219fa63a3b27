//! From the options of one job to what it does.

use super::lines::Section;
use super::options::{FileJob, JobDraft, Target};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::options::Amount;
use ebbtide_model::workload::{Access, Mix, Regions};

impl JobDraft {
    /// The job; `section` is its name unless it gives itself another, `length` the bytes of a file or device that is
    /// there.
    pub(super) fn finish(
        mut self,
        section: &Section,
        group: u32,
        length: &dyn Fn(&str) -> Option<Bytes>,
    ) -> Result<FileJob, String> {
        let name = self.name.take().unwrap_or_else(|| section.name.clone());
        let (target, regions) = self.target(&name)?;
        self.take_shares(&target, length)?;
        let draft = &mut self.draft;
        draft.workload.details.regions = regions;
        let size = draft.region.and_then(Amount::bytes);
        let offset = draft.offset.bytes().unwrap_or_default();
        let jobs = u64::from(draft.workload.numjobs);
        let of_all = |each: Bytes, what: &str| {
            each.0.checked_mul(jobs).map(Bytes).ok_or_else(|| format!("{what} times numjobs is too large"))
        };
        let mixed = matches!(draft.workload.mix, Mix::Mixed { .. });
        if let Some(what) = ["rate", "rate_iops"].into_iter().find(|what| mixed && draft.has(what)) {
            return Err(format!(
                "{what} limits reads and writes apart in fio and together here: give a mixed job none, or two jobs"
            ));
        }
        draft.workload.rate = draft.workload.rate.map(|rate| of_all(rate, "rate")).transpose()?;
        if let Some(iops) = &mut draft.iops {
            *iops *= jobs as f64;
            draft.notes.push(
                "rate_iops: operations arrive whether or not earlier ones have completed, and latency counts from their \
                 arrival (fio: from the submission)"
                    .to_owned(),
            );
        }
        let separate = matches!(target, Target::Each(_));
        if separate && offset.0 > 0 && jobs > 1 {
            return Err("offset with a file for each clone is not done; give a filename".to_owned());
        }
        let moved = draft.moved.and_then(Amount::bytes).or(size);
        draft.moved = moved.map(|each| of_all(each, "size")).transpose()?.map(Amount::Bytes);
        if separate {
            draft.region = size.map(|size| Amount::Bytes(Bytes(size.0.saturating_mul(jobs))));
        }
        if draft.runtime.is_some() && !draft.time_based && moved.is_none() {
            let note = "without a size the job runs for its runtime (fio: or once over the file)";
            draft.notes.push(note.to_owned());
        }
        if draft.workload.access == Access::Random {
            draft.notes.push("random offsets may repeat (fio's norandommap)".to_owned());
        }
        let workload = draft.finish(&name).map_err(|refusals| {
            let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            said.join("; ")
        })?;
        let file_size = size.map(|size| Bytes(size.0.saturating_add(offset.0)));
        let (place, options, notes) = (section.place.clone(), Vec::new(), self.draft.notes);
        Ok(FileJob { name, place, group, target, file_size, workload, options, notes })
    }

    /// Makes amounts that are shares of the file or device that is there into bytes.
    fn take_shares(&mut self, target: &Target, length: &dyn Fn(&str) -> Option<Bytes>) -> Result<(), String> {
        let whole = match target {
            Target::Shared(file) => length(file),
            Target::Each(_) => None,
        };
        let draft = &mut self.draft;
        let bs = draft.workload.bs.0;
        let bytes = |what: &str, amount: Amount, of: Option<Bytes>| match amount {
            Amount::Bytes(bytes) => Ok(bytes),
            Amount::Percent(percent) => {
                let of = of.ok_or_else(|| {
                    format!(
                        "{what}={percent}%: that is a share of a file or device that is there; write bytes"
                    )
                })?;
                // In whole blocks, as fio has it.
                let share = (u128::from(of.0) * u128::from(percent) / 100) as u64 / bs * bs;
                if share == 0 && what != "offset" {
                    return Err(format!(
                        "{what}={percent}% ends before it begins: that is not a block of {of}"
                    ));
                }
                Ok(Bytes(share))
            }
        };
        let offset = bytes("offset", draft.offset, whole)?;
        let rest = whole.map(|whole| Bytes(whole.0.saturating_sub(offset.0)));
        // All of what is there is what a job without a size uses.
        let all = draft.region == Some(Amount::Percent(100)) && rest.is_none();
        let size = draft.region.filter(|_| !all).map(|size| bytes("size", size, rest)).transpose()?;
        let moved = draft.moved.map(|moved| bytes("io_size", moved, size.or(rest))).transpose()?;
        draft.offset = Amount::Bytes(offset);
        (draft.region, draft.moved) = (size.map(Amount::Bytes), moved.map(Amount::Bytes));
        Ok(())
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
                let files = (0..self.draft.workload.numjobs)
                    .map(|clone| below(&format!("{name}.{clone}.0")))
                    .collect();
                Ok((Target::Each(files), Regions::Own))
            }
        }
    }
}
