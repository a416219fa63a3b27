//! What it takes to hold programs to a rate: who belongs to a program and what they have moved ([`tree`], [`sockets`]), control
//! groups of one's own ([`group`]), stopping and waking ([`hold`]), and a process that wakes them when this one is killed
//! ([`guardian`]). When they have to stop is `ebbtide_model::limit`'s to say.

pub mod command;
pub mod group;
pub mod guardian;
pub mod hold;
pub mod sockets;
pub mod tree;

pub use ebbtide_sys::signals::{Caught, Signals};
