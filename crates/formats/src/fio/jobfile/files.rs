//! Several files of one job: fio's `nrfiles` and `file_service_type`.

use super::OptionMistake;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Access, Sequence, Workload};

/// Most files that a job, or a clone of it, may have.
pub const FILES_MOST: u64 = 1024;
/// Files are of whole pages.
const PAGE: u64 = 4096;

/// Which file of several the next operation goes to (fio's `file_service_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Service {
    /// One after the other, for one operation each.
    #[default]
    RoundRobin,
    /// The next when one is done.
    Sequential,
    /// One chosen at random for each operation.
    Random,
}

/// How operations go to several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOrder {
    /// So many bytes go to one file before the next has its turn; else one is finished before the next.
    pub chunk: Option<Bytes>,
    /// What the reader must know.
    pub note: Option<&'static str>,
}

/// Why a workload is not done on several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOnFiles {
    /// What does not go together.
    pub why: &'static str,
    /// What to write instead, as a clause.
    pub instead: &'static str,
}

impl Service {
    /// The one of that name.
    ///
    /// # Errors
    /// The names there are.
    pub fn named(name: &str) -> Result<Service, OptionMistake> {
        match name {
            "roundrobin" => Ok(Service::RoundRobin),
            "sequential" => Ok(Service::Sequential),
            "random" => Ok(Service::Random),
            other => {
                let words = "roundrobin, sequential, random";
                Err(OptionMistake::Word { found: other.to_owned(), words })
            }
        }
    }

    /// How operations of `workload` go to files served like this.
    ///
    /// # Errors
    /// When they are not done in such an order.
    pub fn in_turn(self, workload: &Workload) -> Result<FileOrder, NotOnFiles> {
        let plain = |chunk| Ok(FileOrder { chunk, note: None });
        let wrong = |why, instead| Err(NotOnFiles { why, instead });
        match (workload.access, self) {
            (Access::Sequential, Service::Sequential) | (Access::Random, Service::Random) => plain(None),
            (Access::Sequential, Service::RoundRobin) => {
                let simple = workload.split.is_none() && workload.details.sequence == Sequence::Plain;
                if simple
                    && workload.bs.0.is_multiple_of(1024)
                    && (PAGE..=Bytes::GIB).contains(&workload.bs.0)
                {
                    return plain(Some(workload.bs));
                }
                let why = "file_service_type=roundrobin and other than blocks of one size, whole KiB from 4 to 1GiB";
                wrong(why, "write file_service_type=sequential")
            }
            (Access::Sequential, Service::Random) => wrong(
                "file_service_type=random and a sequential order",
                "write file_service_type=roundrobin or sequential",
            ),
            (Access::Random, Service::Sequential) => {
                wrong("file_service_type=sequential and a random order", "write file_service_type=random")
            }
            (Access::Random, Service::RoundRobin) => Ok(FileOrder {
                chunk: None,
                note: Some(
                    "file_service_type=roundrobin: of random operations each goes to any of the files (fio: to the next)",
                ),
            }),
        }
    }
}

/// Bytes of each of `files` that have `size` together, in whole blocks of `bs`.
///
/// # Errors
/// When that is less than a block.
pub fn size_of_each(size: Bytes, files: u64, bs: Bytes) -> Result<Bytes, NotOnFiles> {
    let unit = if bs.0.is_multiple_of(PAGE) { bs.0 } else { PAGE };
    match size.0 / files.max(1) / unit * unit {
        0 => Err(NotOnFiles { why: "a size of less than a block for each", instead: "write a larger size" }),
        each => Ok(Bytes(each)),
    }
}
