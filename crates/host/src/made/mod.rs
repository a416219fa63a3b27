//! The engine of what is made to stay: makes it, looks at it, mends it and takes it away, whatever it is.
//!
//! A kind ([`Plan`]) is a list of resources ([`Resource`]) in the order in which they are made. The engine asks each what there is of it, notes in
//! the record that it is begun, makes it, and notes that it is made; it takes away in reverse. What fails is taken away again, as far as this
//! attempt has made it where the whole stood before. The journal of the run says that something is under way, the record what
//! ([`ebbtide_model::made`] has the table of states).

mod context;
mod error;
mod host;
pub(crate) mod records;
#[cfg(test)]
pub(crate) mod tests;
mod units;

pub use context::Context;
pub use error::Failure;
pub(crate) use host::ssh;
pub use host::{Host, ThisHost};
pub(crate) use units::Units;

use crate::build::Outcome;
use crate::monitor::{MONITOR, Monitoring, is_installed};
use crate::sys::Sys;
use ebbtide_model::export::Exporting;
use ebbtide_model::journal::Entry;
use ebbtide_model::made::{Content, Kind, Record, State, Thing};
use ebbtide_model::plan::build::BuildUndo;
use ebbtide_provision::attached::Attachment;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

/// The number that what is under way has in its journal.
const UNDER_WAY: u64 = 0;

/// What there is of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    /// It is as it should be, or is not wanted.
    Stands,
    /// It is not there.
    Absent,
    /// Some of it is there, or it is not as it should be.
    Partly,
    /// Somebody else's is in its place: what, and what to do.
    Others(String),
}

/// What is made, looked at and taken away as one. Making it again, where it was begun and did not end, does no harm.
pub trait Resource<P: Plan>: Sync {
    /// What there is of it. What is found is noted in `record`.
    ///
    /// # Errors
    /// When it must not be made, or cannot be looked at.
    fn state(&self, on: &Engine<'_, P>, record: &mut Record<P>) -> Result<Now, Failure>;

    /// Makes it.
    ///
    /// # Errors
    /// What failed.
    fn make(&self, on: &Engine<'_, P>, record: &mut Record<P>) -> Result<(), Failure>;

    /// Takes away what there is of it; what stays is `left` with why.
    ///
    /// # Errors
    /// What failed.
    fn unmake(&self, on: &Engine<'_, P>, record: &Record<P>, left: &mut Vec<String>) -> Result<(), Failure>;

    /// What [`unmake`](Self::unmake) would do, in words.
    fn unmaking(&self, _on: &Engine<'_, P>, _record: &Record<P>) -> Vec<String> {
        Vec::new()
    }
}

/// Resources by what they are called in the record.
pub type Resources<P> = &'static [(&'static str, &'static dyn Resource<P>)];

/// A kind of what is made to stay.
pub trait Plan: Content + Clone + Serialize + DeserializeOwned + 'static {
    /// Directory of its records, below the root of a host.
    const RECORDS: &'static str;
    /// In the order in which they are made.
    const RESOURCES: Resources<Self>;
    /// How long another `ebb` that is at work is waited for.
    const PATIENCE: Duration = Duration::ZERO;

    /// The record of `name`, where there is one of that name.
    ///
    /// # Errors
    /// When it cannot be read.
    fn find(on: &Engine<'_, Self>, name: &str) -> Result<Option<Record<Self>>, Failure> {
        on.record(name)
    }

    /// Notes in `record` what is known once all of it stands.
    fn becomes_whole(_on: &Engine<'_, Self>, _record: &mut Record<Self>) {}

    /// Whether `record` may be taken away, or who uses it; with `force` that does not matter.
    ///
    /// # Errors
    /// Why not.
    fn may_unmake(_on: &Engine<'_, Self>, _record: &mut Record<Self>, _force: bool) -> Result<(), Failure> {
        Ok(())
    }

    /// Keeps of `record` what has to be known after it is taken away.
    ///
    /// # Errors
    /// When it cannot be written.
    fn ends(_on: &Engine<'_, Self>, _record: &Record<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Makes, looks at and takes away what is of one kind.
pub struct Engine<'a, P> {
    context: &'a Context<'a>,
    of: PhantomData<P>,
}

impl<'a, P> Deref for Engine<'a, P> {
    type Target = Context<'a>;

    fn deref(&self) -> &Context<'a> {
        self.context
    }
}

impl<'a, P: Plan> Engine<'a, P> {
    /// Works in `context`.
    pub fn new(context: &'a Context<'a>) -> Engine<'a, P> {
        Engine { context, of: PhantomData }
    }

    /// Whether all of `record` stands: nothing has to be made.
    pub(crate) fn stands(&self, record: &mut Record<P>) -> Result<bool, Failure> {
        for (name, resource) in P::RESOURCES {
            if self.is_pending(name, *resource, record)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What there is of `resource`, where it has to be made.
    fn is_pending(
        &self,
        name: &str,
        resource: &dyn Resource<P>,
        record: &mut Record<P>,
    ) -> Result<Option<Now>, Failure> {
        Ok(match resource.state(self, record)? {
            // What was begun may be there and not be done.
            Now::Stands if record.has_begun(name) && !record.made.contains(name) => Some(Now::Partly),
            Now::Stands => None,
            now => Some(now),
        })
    }

    /// Makes what does not stand of `record`; what was made now, by name.
    ///
    /// # Errors
    /// What failed; with it what could not be taken away again.
    pub(crate) fn make(&self, record: &mut Record<P>) -> Result<Vec<&'static str>, Failure> {
        if record.state == State::Made && self.stands(record)? {
            return Ok(Vec::new());
        }
        self.announce(record)?;
        let mut new = Vec::new();
        let mut made = Vec::new();
        let done = self.make_all(record, &mut new, &mut made);
        if let Err(why) = done {
            (self.tell)(&format!("taking away what was made of {}", record.name));
            let left = match record.whole {
                true => self.give_back(record, &new),
                false => self.take_away(record).map(drop),
            };
            return Err(match left {
                Ok(()) => {
                    self.settled(Entry::Undone(UNDER_WAY))?;
                    why
                }
                Err(left) => Failure::Both { why: Box::new(why), left: Box::new(left) },
            });
        }
        (self.boundary)();
        self.settled(Entry::Stays(UNDER_WAY))?;
        Ok(made)
    }

    /// What was not there is noted as `new` before it is made, what was made as `made` after it.
    fn make_all(
        &self,
        record: &mut Record<P>,
        new: &mut Vec<&'static dyn Resource<P>>,
        made: &mut Vec<&'static str>,
    ) -> Result<(), Failure> {
        record.state = State::Making;
        self.write(record)?;
        for (name, resource) in P::RESOURCES {
            match self.is_pending(name, *resource, record)? {
                None => continue,
                Some(Now::Others(what)) => return Err(Failure::Refused(what)),
                Some(Now::Absent) => new.push(*resource),
                Some(_) => {}
            }
            self.next()?;
            record.begun.insert((*name).to_owned());
            record.made.remove(*name);
            self.write(record)?;
            self.next()?;
            resource.make(self, record)?;
            (self.boundary)();
            made.push(name);
            record.made.insert((*name).to_owned());
            self.write(record)?;
        }
        P::becomes_whole(self, record);
        (record.state, record.whole) = (State::Made, true);
        self.put(record)
    }

    /// Takes away what this attempt has made of what was whole before, and leaves it as that.
    fn give_back(&self, record: &mut Record<P>, new: &[&'static dyn Resource<P>]) -> Result<(), Failure> {
        let mut left = Vec::new();
        for resource in new.iter().rev() {
            resource.unmake(self, record, &mut left)?;
            (self.boundary)();
        }
        left.iter().for_each(|left| (self.tell)(left));
        record.made = record.begun.clone();
        record.state = State::Made;
        self.put(record)
    }

    /// Takes the one called `name` away; what it was, and what stays with why.
    ///
    /// # Errors
    /// When there is none, somebody uses it, or it cannot be taken away.
    pub fn undo(&self, name: &str, force: bool) -> Result<(Record<P>, Vec<String>), Failure> {
        let _lock = self.lock("ebb undo", name, P::PATIENCE)?;
        let mut record = self.known(name)?;
        P::may_unmake(self, &mut record, force)?;
        let left = self.unmake(&mut record)?;
        Ok((record, left))
    }

    /// What [`undo`](Self::undo) would do, in words.
    ///
    /// # Errors
    /// When there is none.
    pub fn plan_undo(&self, name: &str) -> Result<Vec<String>, Failure> {
        let record = self.known(name)?;
        let begun = P::RESOURCES.iter().rev().filter(|(name, _)| record.has_begun(name));
        Ok(begun.flat_map(|(_, resource)| resource.unmaking(self, &record)).collect())
    }

    /// Takes `record` away; what stays with why. What is in use stays as a whole.
    ///
    /// # Errors
    /// What could not be taken away.
    pub(crate) fn unmake(&self, record: &mut Record<P>) -> Result<Vec<String>, Failure> {
        self.announce(record)?;
        let before = record.state;
        let left = match self.take_away(record) {
            Err(why) if before == State::Made => {
                record.state = before;
                self.put(record).and(Err(why))
            }
            taken => taken,
        };
        // A failure that left something unsaid is still to be cleaned up.
        if left.is_ok() || record.state == State::Made {
            self.settled(Entry::Undone(UNDER_WAY))?;
        }
        left
    }

    /// The same of what is announced.
    fn take_away(&self, record: &mut Record<P>) -> Result<Vec<String>, Failure> {
        let mut left = Vec::new();
        if record.state != State::Unmaking {
            record.state = State::Unmaking;
            self.write(record)?;
        }
        for (_, resource) in P::RESOURCES.iter().rev().filter(|(name, _)| record.has_begun(name)) {
            resource.unmake(self, record, &mut left)?;
            (self.boundary)();
        }
        P::ends(self, record)?;
        self.forget(&record.name)?;
        Ok(left)
    }

    /// Writes down that `record` is being made or taken away: after a kill `ebb cleanup` looks after it.
    fn announce(&self, record: &Record<P>) -> Result<(), Failure> {
        let Some(journal) = self.journal else { return Ok(()) };
        journal.write(&Entry::Step { number: UNDER_WAY, undo: BuildUndo::Unmake(record.thing()) })?;
        (self.boundary)();
        Ok(())
    }

    fn settled(&self, entry: Entry) -> Result<(), Failure> {
        Ok(self.journal.map_or(Ok(()), |journal| journal.write(&entry))?)
    }

    /// Why nothing is to be put back of the one with this name and id; its record where something is.
    fn unsettled(&self, name: &str, id: &str) -> Result<Result<Record<P>, Outcome>, Failure> {
        let Some(record) = self.record(name)?.filter(|record| record.id == id) else {
            return Ok(Err(Outcome::Before));
        };
        Ok(match (record.state, record.whole) {
            (State::Made, _) => {
                Err(Outcome::Left(format!("{name} was made as a whole: `ebb undo {name}` takes it away")))
            }
            (State::Making, true) => Err(Outcome::Left(format!(
                "{name} was whole before, and stays: the same `{}` makes it whole again, `ebb undo {name}` takes it away",
                P::KIND.command()
            ))),
            _ => Ok(record),
        })
    }

    /// Puts back what a killed run left of the one with this name and id: what never came to be whole goes, and what was being taken away. Says what
    /// that `would` do, and touches nothing.
    pub(crate) fn clean_up(&self, name: &str, id: &str, would: bool) -> Result<Outcome, Failure> {
        let _lock = if would { None } else { Some(self.lock("ebb cleanup", name, P::PATIENCE)?) };
        let mut record = match self.unsettled(name, id)? {
            Ok(_) if would => return Ok(Outcome::Done),
            Ok(record) => record,
            Err(outcome) => return Ok(outcome),
        };
        let left = self.take_away(&mut record)?;
        Ok(if left.is_empty() { Outcome::Done } else { Outcome::Left(left.join("; ")) })
    }
}

/// Puts back what a killed run left of `thing`, or says what that `would` do and touches nothing.
///
/// # Errors
/// When it cannot be taken away, or its record cannot be read.
pub(crate) fn clean_up(context: &Context<'_>, thing: &Thing, would: bool) -> Result<Outcome, Failure> {
    let Thing { kind, name, id } = thing;
    match kind {
        Kind::Export => Engine::<Exporting>::new(context).clean_up(name, id, would),
        Kind::Monitor => Engine::<Monitoring>::new(context).clean_up(name, id, would),
        Kind::Attached => Engine::<Attachment>::new(context).clean_up(name, id, would),
        // Its record is the journal of its making.
        Kind::Array => Ok(Outcome::Left(format!("`ebb undo {name}` takes it away"))),
    }
}

/// What was made to stay on the host of `sys`, as far as it has a record; an earlier version's monitor has none.
pub fn recorded(sys: &Sys) -> Vec<(Kind, String)> {
    let of = |kind: Kind| {
        let place = match kind {
            Kind::Array => crate::build::lasting::RECORDS,
            Kind::Attached => Attachment::RECORDS,
            Kind::Export => Exporting::RECORDS,
            Kind::Monitor => Monitoring::RECORDS,
        };
        let mut names = records::names(sys, place);
        if kind == Kind::Monitor && names.is_empty() && is_installed(sys) {
            names.push(MONITOR.to_owned());
        }
        names.into_iter().map(move |name| (kind, name))
    };
    Kind::ALL.into_iter().flat_map(of).collect()
}
