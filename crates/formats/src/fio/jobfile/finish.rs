//! From the options of one job to what it does.

use super::files::size_of_each;
use super::jobs::{FileJob, JobDraft, Target};
use super::lines::Section;
use super::{Mistake, NotOnFiles};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::options::Amount;
use ebbtide_model::workload::{Access, Floor, Mix, Regions};

impl JobDraft {
    /// The job; `section` is its name unless it gives itself another, `length` the bytes of a file or device that is
    /// there.
    pub(super) fn finish(
        mut self,
        section: &Section,
        group: u32,
        length: &dyn Fn(&str) -> Option<Bytes>,
    ) -> Result<FileJob, Mistake> {
        let name = self.name.take().unwrap_or_else(|| section.name.clone());
        let (target, regions) = self.target(&name)?;
        self.take_shares(&target, length)?;
        let files = self.files_of_size(&target)?;
        let draft = &mut self.draft;
        draft.workload.details.regions = regions;
        let size = draft.region.and_then(Amount::bytes);
        let jobs = u64::from(draft.workload.numjobs);
        let separate = !matches!(target, Target::Shared(_));
        let mut step = draft.step.bytes().unwrap_or_default();
        if separate && step.0 > 0 && jobs > 1 {
            draft.notes.push("offset_increment changes nothing: each clone has a file of its own".to_owned());
            (step, draft.step) = (Bytes(0), Amount::Bytes(Bytes(0)));
        }
        let offset = draft.offset.bytes().unwrap_or_default();
        let steps = step.0.checked_mul(jobs - 1).ok_or(Mistake::TimesNumjobs("offset_increment"))?;
        let of_all =
            |each: Bytes, what| each.0.checked_mul(jobs).map(Bytes).ok_or(Mistake::TimesNumjobs(what));
        let mixed = matches!(draft.workload.mix, Mix::Mixed { .. });
        if let Some(what) = ["rate", "rate_iops", "rate_min", "rate_iops_min"]
            .into_iter()
            .find(|what| mixed && draft.has(what))
        {
            return Err(Mistake::MixedLimit(what));
        }
        draft.workload.rate = draft.workload.rate.map(|rate| of_all(rate, "rate")).transpose()?;
        let least = draft.floor.throughput.map(|rate| of_all(rate, "rate_min")).transpose()?;
        draft.floor =
            Floor { throughput: least, iops: draft.floor.iops.map(|iops| iops * jobs as f64), ..draft.floor };
        if let Some(iops) = &mut draft.iops {
            *iops *= jobs as f64;
            draft.notes.push(
                "rate_iops: operations arrive whether or not earlier ones have completed, and latency counts from their \
                 arrival (fio: from the submission)"
                    .to_owned(),
            );
        }
        if separate && offset.0 > 0 && jobs > 1 {
            return Err(Mistake::OffsetOfEach);
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
        let workload = draft.finish(&name).map_err(Mistake::Refused)?;
        let file_size =
            size.map(|size| Bytes((size.0 / files).saturating_add(offset.0).saturating_add(steps)));
        let (place, options, notes) = (section.place.clone(), Vec::new(), self.draft.notes);
        let verified = self.verified;
        Ok(FileJob { name, place, group, target, file_size, workload, verified, options, notes })
    }

    /// Makes amounts that are shares of the file or device that is there into bytes.
    fn take_shares(
        &mut self,
        target: &Target,
        length: &dyn Fn(&str) -> Option<Bytes>,
    ) -> Result<(), Mistake> {
        let whole = match target {
            Target::Shared(file) => length(file),
            Target::Each(_) | Target::Several { .. } => None,
        };
        let draft = &mut self.draft;
        let bs = draft.workload.bs.0;
        draft.take_shares(whole)?;
        let step = draft.step.bytes().unwrap_or_default();
        let offset = draft.offset.bytes().unwrap_or_default();
        let rest = whole.map(|whole| Bytes(whole.0.saturating_sub(offset.0)));
        let ends = draft.runtime.is_some() || draft.moved.is_some() || draft.latency.target > Nanos(0);
        if let (None, Some(rest), false) = (draft.region, rest, ends) {
            // As in fio: once over what is there.
            draft.region = Some(Amount::Bytes(rest));
        }
        let size = draft.region.and_then(Amount::bytes);
        let jobs = u64::from(draft.workload.numjobs);
        let last = rest.map(|rest| Bytes(rest.0.saturating_sub(step.0.saturating_mul(jobs - 1))));
        if let (Some(last), Some(each), true) = (last, size.or(rest), step > Bytes(0) && jobs > 1)
            && last < each
            && (last.0 < bs || draft.runtime.is_none() || !draft.time_based)
        {
            let instead = match last.0 / bs * bs {
                0 => "or fewer jobs".to_owned(),
                size => format!("or size={size}"),
            };
            return Err(Mistake::ShortOfClones { step, jobs, rest: last, each, instead });
        }
        Ok(())
    }

    /// How many files each clone has; their size becomes whole blocks of each.
    fn files_of_size(&mut self, target: &Target) -> Result<u64, Mistake> {
        if self.files > 1 && matches!(target, Target::Shared(_)) {
            self.draft.notes.push("nrfiles changes nothing: filename names the one file".to_owned());
        }
        if !matches!(target, Target::Several { .. }) {
            return Ok(1);
        }
        let none = Mistake::FilesOfNoSize(self.files);
        let size = self.draft.region.and_then(Amount::bytes).filter(|_| !self.sized_each).ok_or(none)?;
        let each = size_of_each(size, self.files, self.draft.workload.bs)
            .map_err(|wrong| self.in_no_order(wrong))?;
        self.draft.region = Some(Amount::Bytes(Bytes(each.0 * self.files)));
        Ok(self.files)
    }

    /// Bytes that go to one of several files before the next has its turn; nothing where one is finished before the next.
    fn in_turn(&mut self) -> Result<Option<Bytes>, Mistake> {
        let in_turn = self.service.in_turn(&self.draft.workload).map_err(|wrong| self.in_no_order(wrong))?;
        self.draft.notes.extend(in_turn.note.map(str::to_owned));
        Ok(in_turn.chunk)
    }

    fn in_no_order(&self, NotOnFiles { why, instead }: NotOnFiles) -> Mistake {
        Mistake::FilesInNoOrder { files: self.files, why, instead }
    }

    /// `filename` below `directory`; without one, fio's `name.clone.0` for every clone.
    fn target(&mut self, name: &str) -> Result<(Target, Regions), Mistake> {
        let directory = self.directory.clone();
        let below = |file: &str| match &directory {
            Some(directory) if !file.starts_with('/') => {
                format!("{}/{file}", directory.trim_end_matches('/'))
            }
            _ => file.to_owned(),
        };
        match &self.filename {
            Some(file) if file.contains(':') => Err(Mistake::SeveralFiles(file.clone())),
            Some(file) => Ok((Target::Shared(below(file)), Regions::Shared)),
            None => {
                let clones = 0..self.draft.workload.numjobs;
                if self.files == 1 {
                    let files = clones.map(|clone| below(&format!("{name}.{clone}.0"))).collect();
                    return Ok((Target::Each(files), Regions::Own));
                }
                let (files, in_turn) = (self.files, self.in_turn()?);
                let of = |clone| (0..files).map(|file| below(&format!("{name}.{clone}.{file}"))).collect();
                Ok((Target::Several { clones: clones.map(of).collect(), in_turn }, Regions::Own))
            }
        }
    }
}
