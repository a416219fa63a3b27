//! What can be wrong with a job file.

use super::Place;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::options::{Refusal, ShareError};
use std::fmt;
use std::io;

/// Everything that is wrong with a job file, in its order.
#[derive(Debug)]
pub struct JobFileErrors(pub Vec<JobFileError>);

/// Mistakes of a file that are told.
const TOLD: usize = 50;

impl std::error::Error for JobFileErrors {}

impl fmt::Display for JobFileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = self.0.iter().take(TOLD).map(ToString::to_string).collect();
        f.write_str(&told.join("\n"))?;
        match self.0.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// One thing that is wrong with a job file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {mistake}")]
pub struct JobFileError {
    /// Where in the job file.
    pub place: Place,
    /// What, and what to write instead.
    pub mistake: Mistake,
}

/// One kind of mistake; `Display` says what is wrong and what to write instead.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Mistake {
    /// A heading in an included file.
    #[error("an included file has no [sections] of its own: its options join the section that includes it")]
    SectionInInclude,
    /// A heading that is not closed.
    #[error("`{0}` has no closing bracket; write `[name]`")]
    OpenHeading(String),
    /// Includes that go too deep.
    #[error("include {name}: {most} files inside each other; is it a circle?")]
    Circle {
        /// The file that would come next.
        name: String,
        /// Files inside each other that are read.
        most: usize,
    },
    /// More files than anybody includes: this many.
    #[error("more than {0} files are included; do some of them include one another?")]
    TooManyIncludes(usize),
    /// An included file that cannot be read.
    #[error("include {name}: {error}")]
    Include { name: String, error: io::Error },
    /// More options than any job file has: this many.
    #[error("more than {0} options")]
    TooMany(usize),
    /// An option before the first heading.
    #[error("`{0}` stands before the first section; write `[global]` above it")]
    NoSection(String),
    /// A variable whose name does not end.
    #[error("`{0}` has `${{` without `}}`")]
    OpenVariable(String),
    /// An option beside the file that all of its jobs have.
    #[error(
        "it changes nothing: the jobs of the file say {0} themselves, which goes before it as in fio; remove it, or write it there"
    )]
    SaidInFile(String),
    /// No section but [global].
    #[error("there is no job; write a section `[name]` beside [global]")]
    NoJob,
    /// A value that an option of a workload cannot have, or options that cannot stand together.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Refusal>),
    /// An option that says nothing of the workload.
    #[error("{name}: {wrong}")]
    Option { name: String, wrong: OptionMistake },
    /// A job that waits for one that does not stand before it.
    #[error("wait_for={0}: no job before it is called so")]
    WaitsForNobody(String),
    /// A job that fio begins with the first ones, after one that waits for others.
    #[error(
        "it would begin while jobs before it wait for others: write it before them, or wait_for or stonewall in it"
    )]
    BeginsBefore,
    /// A limit of each clone that is too large for them all.
    #[error("{0} times numjobs is too large")]
    TimesNumjobs(&'static str),
    /// A limit that reads and writes have apart in fio.
    #[error("{0} limits reads and writes apart in fio and together here: give a mixed job none, or two jobs")]
    MixedLimit(&'static str),
    /// Clones whose parts end where there is nothing more.
    #[error(
        "offset_increment={step}: the last of {jobs} jobs would have {rest} of {each}; write a smaller offset_increment, {instead}"
    )]
    ShortOfClones { step: Bytes, jobs: u64, rest: Bytes, each: Bytes, instead: String },
    /// An offset, and a file for each clone.
    #[error("offset with a file for each clone is not done; give a filename")]
    OffsetOfEach,
    /// A share that is no number of bytes.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// Several files, whose size nobody knows.
    #[error(
        "nrfiles={0}: write size, that of all of them together (filesize, that of each, is not done with it)"
    )]
    FilesOfNoSize(u64),
    /// Several files, and an order that they are not used in.
    #[error("nrfiles={files} with {why}; {instead}")]
    FilesInNoOrder {
        files: u64,
        /// What it does not go with.
        why: &'static str,
        instead: &'static str,
    },
    /// A list of files.
    #[error(
        "filename={0}: several files of one job are not done; write a job for each, or a design of an experiment"
    )]
    SeveralFiles(String),
}

impl Mistake {
    /// Whether it is an option that is not done, so that the others of its job say what is asked all the same.
    pub(super) fn is_of_an_option_not_done(&self) -> bool {
        use OptionMistake::{NotDone, OnlyDefault, Unlisted};
        matches!(self, Mistake::Option { wrong: NotDone(_) | OnlyDefault(_) | Unlisted, .. })
    }
}

/// What is wrong with one option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionMistake {
    /// A value that cannot be read.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A switch that is neither on nor off.
    #[error("{0}")]
    Switch(String),
    /// A word that is not one of these.
    #[error("`{found}` is not one of {words}")]
    Word {
        /// As it is written.
        found: String,
        /// Those that there are.
        words: &'static str,
    },
    /// Another value than the only one that is done.
    #[error("only {0}")]
    Only(&'static str),
    /// An option of fio's that there is not: what to write instead.
    #[error("ebb does not support this fio option: {0}")]
    NotDone(&'static str),
    /// An option of fio's that there is not, with a value that asks for it.
    #[error("ebb does not support this fio option but for its default, {0}")]
    OnlyDefault(&'static str),
    /// A name that no option has, and the nearest that one has.
    #[error("this option is not known; is it `{0}`?")]
    Misspelt(&'static str),
    /// Not done, and there is nothing to write instead.
    #[error("ebb does not support this fio option (docs/reference/bench.md lists those that are)")]
    Unlisted,
}

/// Why a value is not what its option takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Nothing behind the `=`.
    #[error("it has no value")]
    Absent,
    /// No number in fio's way.
    #[error("`{0}` is not a number; write for example 4k or 10g")]
    NoNumber(String),
    /// No time in fio's way.
    #[error("`{0}` is not a time; write for example 30s or 500ms")]
    NoTime(String),
    /// A number that 64 bits cannot hold.
    #[error("`{0}` is more than 64 bits hold")]
    TooLarge(String),
    /// A time that 64 bits of nanoseconds cannot hold.
    #[error("`{0}` is more than 64 bits of nanoseconds")]
    TooLong(String),
    /// A number that 63 bits cannot hold.
    #[error("{0} is too large")]
    Unsigned(u64),
    /// More than all of it.
    #[error("{0} is more than 100 percent")]
    Percent(u64),
    /// Values that differ for reads and writes.
    #[error("`{0}`: one value for reads and another for writes is not done")]
    Different(String),
    /// Block sizes from one to another.
    #[error("`{0}`: a range of block sizes is not done")]
    Range(String),
}

impl From<ValueError> for Option<String> {
    fn from(error: ValueError) -> Self {
        Some(error.to_string())
    }
}
