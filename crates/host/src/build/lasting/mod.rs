//! Arrays that stay: made from their record, looked at, taken away.
//!
//! The record ([`Record`]) has every identity before anything exists, and is on disk before the first step. Each step is asked whether it
//! stands, by identity; what does not is done. A step that destroys what was there (a superblock, a file system) is noted as begun before
//! it and as done after it: what is noted as done is never done again, what is only begun is put back and begun anew. So it does not matter
//! where a kill or a power cut came: the next `ebb apply` goes on, `ebb undo` takes away, and until then the host boots, because its files
//! name only what was there when they were written, and nothing that boot waits for.

mod ahead;
mod apply;
mod boot;
mod cache;
mod copies;
mod files;
mod grow;
mod look;
mod records;
mod refuse;
mod renew;
mod running;
mod site;
mod spread;
mod start;
#[cfg(test)]
mod tests;
mod undo;
mod used;
mod waits;
mod whose;

pub use apply::{Applied, Planned};
pub use look::StepState;
pub(crate) use site::may_build;
pub use site::{free_disks, kind, machine, stable_path, system};
pub use undo::Undone;

pub use crate::made::Failure;

use super::BuildError;
use crate::made::Context;
use std::ops::Deref;
use std::path::PathBuf;

/// Where records are, below the root of a host.
pub const RECORDS: &str = "var/lib/ebbtide/apply";

/// Makes, looks at and takes away the arrays that stay on one host.
pub struct Keeper<'a>(pub &'a Context<'a>);

impl<'a> Deref for Keeper<'a> {
    type Target = Context<'a>;

    fn deref(&self) -> &Context<'a> {
        self.0
    }
}

impl Keeper<'_> {
    /// Directory of the records.
    fn place(&self) -> PathBuf {
        self.sys.root().join(RECORDS)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.record_path(RECORDS, name)
    }
}
