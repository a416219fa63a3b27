//! What a boot does: starts what is there, and makes instance store anew that came back blank.

use super::apply::{APPLY, Applied, By};
use super::{Failure, Keeper};
use crate::build::STEP;
use ebbtide_model::shown::Shown;
use ebbtide_provision::{Class, Member, Phase, Record, can_lose};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long udev's events of a boot are waited for, in seconds.
const SETTLE_AT_BOOT: u32 = 30;

impl Keeper<'_> {
    /// What a boot does for the array `name`: starts what is there, and makes an ephemeral one anew where all its members came back blank,
    /// and only then; where that was interrupted it goes on, but writes over nothing. The host's files stay as they are.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); when a member is not there after `patience`.
    pub fn at_boot(&self, name: &str, patience: Duration) -> Result<Applied, Failure> {
        let _lock = self.lock(APPLY, name)?;
        let record = self.record(name)?;
        let record = record.filter(|record| record.phase == Phase::Applied || record.is_made_anew());
        let Some(mut record) = record else {
            return Err(Failure::Refused(format!(
                "there is no {name} that `ebb apply` has made as a whole on this host"
            )));
        };
        let until = Instant::now() + patience;
        while let Some(path) = self.absent(&record) {
            if Instant::now() >= until {
                let works = |volume: usize| {
                    let mut of_it = record.desired.members.iter().filter(|member| member.volume == volume);
                    of_it.all(|member| self.is_there_at(&member.path))
                };
                if record.desired.has_hosts() || can_lose(&record.desired.layout, &works).is_some() {
                    // Whether the others may be run without it is judged, where nobody runs them yet.
                    break;
                }
                let path = Path::new(path).shown();
                return Err(Failure::Refused(format!(
                    "{path} is not there after {} s: {name} is left as it is",
                    patience.as_secs()
                )));
            }
            std::thread::sleep(STEP);
        }
        // What udev is about to start and name is not started a second time beside it.
        let _ = self.runner.run("udevadm", &["settle", &format!("--timeout={SETTLE_AT_BOOT}")]);
        self.refuse_suspended(&record.desired)?;
        // What is made anew is mounted after that, over whatever is there.
        if record.is_made_anew() {
            self.may_mount(&record)?;
        }
        self.begin_anew_if_blank(&mut record)?;
        let mut steps = self.make(&mut record, By::Boot)?;
        match self.bring_back(&mut record, false) {
            Ok(back) => steps += back,
            Err(why) => (self.tell)(&why.to_string()),
        }
        self.is_applied(&mut record)?;
        Ok(Applied { steps, ..Applied::default() })
    }

    /// The first member of `record` that is not there.
    pub(super) fn absent<'a>(&self, record: &'a Record) -> Option<&'a str> {
        let mut paths = record.desired.members.iter().map(|member| member.path.as_str());
        paths.find(|path| !self.is_there_at(path))
    }

    /// Whether there is something at `path`.
    pub(super) fn is_there_at(&self, path: &str) -> bool {
        self.sys.at(Path::new(path)).exists()
    }

    /// Has an ephemeral array be made anew where nothing of it is on any of its members, and nothing else.
    pub(super) fn begin_anew_if_blank(&self, record: &mut Record) -> Result<(), Failure> {
        match self.came_back_blank(record)? {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.may_mount(record)?;
                (self.tell)("all members are blank: everything is made anew");
                // Where files or tunables were about to change, only an apply can end that.
                record.anew = record.phase == Phase::Applied || record.is_made_anew();
                (record.begun, record.done, record.phase) = (0, 0, Phase::Applying);
                self.write(record)
            }
            Err(why) => {
                (self.tell)(&format!(
                    "{} is not made anew, because not all of its members are blank: {why}",
                    record.desired.name
                ));
                Ok(())
            }
        }
    }

    /// Whether an ephemeral array that was made has come back with blank members. Inside: why they are not blank, where nothing of the array is
    /// on them.
    pub(super) fn came_back_blank(&self, record: &Record) -> Result<Result<bool, String>, Failure> {
        if record.desired.class != Class::Ephemeral || record.done == 0 || !self.nothing_is_there(record)? {
            return Ok(Ok(false));
        }
        let members: Vec<&Member> = record.desired.members.iter().collect();
        Ok(self.host.may_build(&members, false).map(|()| true))
    }
}
