//! The pure core of Ebbtide: data and arithmetic, no files, processes, clocks, sockets or `unsafe`.
//!
//! Data flows one way:
//! `experiment` text → [`experiment::Experiment`] → [`plan`] → a [`backend::Backend`] →
//! [`samples::TrialSamples`] → [`analysis`] → [`report`].

pub mod backend;
pub mod blank;
pub mod catalog;
pub mod civil;
pub mod experiment;
pub mod guard;
pub mod journal;
pub mod layout;
pub mod metric;
pub mod observe;
pub mod plan;
pub mod profile;
pub mod samples;
pub mod session;
pub mod shown;
pub mod stack;
pub mod units;
pub mod verify;
pub mod volume;
pub mod workload;

// Fixtures that the crates above include name this crate as they do.
#[cfg(test)]
extern crate self as ebbtide_model;
