//! Trials on several hosts at once: who runs what ([`placing`], [`share`]), how their clocks compare ([`offset`]), which part
//! of a trial counts ([`window`]), and how what each has seen becomes one trial ([`merge`]).
//!
//! The hosts begin at one instant: each is told when, by its own clock. Only the time in which all of them were at work counts.
//! Histograms are added up bucket by bucket; percentiles are never averaged.

pub mod merge;
pub mod offset;
pub mod placing;
pub mod share;
pub mod window;

pub use offset::{Exchange, Offset};
pub use window::Window;
