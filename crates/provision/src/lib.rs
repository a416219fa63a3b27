//! What makes a design stay: from a design and its members to the steps that build it, the lines in the host's files that bring it back
//! at boot, the record of it, and what it should look like ever after.
//!
//! What may live here: pure functions over designs and texts, and the types that a record is made of. What may not: reading or
//! writing a file, running a program (`ebbtide-host` does), and the steps of a build themselves (`ebbtide_model::plan::build`).
//!
//! An array that stays has all its identities before it exists: uuids and labels follow from the host, the name and the members
//! ([`DesignRequest`]). So the whole of it is known before the first step ([`Desired`]), is written down ([`Record`]), and each step can be asked
//! whether it stands. `ebb apply` does what does not stand, `ebb status` says what does not, `ebb undo` takes away what does.

mod at_work;
pub mod attached;
pub mod boot;
pub mod copies;
mod desired;
mod diff;
pub mod export;
pub mod files;
pub mod hosts;
mod member;
pub mod monitor;
mod record;
mod redundancy;
mod remedy;
pub mod status;
mod system;

pub use at_work::AtWork;
pub use desired::{
    Class, DesignRequest, Desired, Member, ProvisionError, Seed, Unfit, check_mountpoint, check_name,
    default_name,
};
pub use diff::diff;
pub use member::{Carried, MemberSeen, MemberState, MemberStatus};
pub use record::{Phase, Record, TakenOut};
pub use redundancy::{can_lose, can_lose_hosts};
pub use system::{Initramfs, System};
