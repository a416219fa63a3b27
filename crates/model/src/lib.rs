//! The nouns of Ebbtide and their arithmetic: units, layouts, volume models, workloads and their streams of operations, the
//! catalogue, experiments, schedules, plans, samples, sessions, and the traits between the crates ([`backend`], [`journal`]). What is here is
//! known to at least two other crates, or is data that is stored; what reads a language, judges samples, simulates or renders
//! has a crate of its own. Pure: no files, processes, clocks, sockets or `unsafe`.
//!
//! Data flows one way: text, which `ebbtide-experiment` reads → [`experiment::Experiment`] → [`schedule`] → a
//! [`backend::Backend`] → [`samples::TrialSamples`] → `ebbtide-analysis` → `ebbtide-report`.

pub mod backend;
pub mod blank;
pub mod catalog;
pub mod civil;
pub mod experiment;
pub mod export;
mod file_id;
pub mod graph;
pub mod guard;
pub mod hosts;
pub mod journal;
pub mod layout;
pub mod limit;
pub mod made;
pub mod metric;
pub mod monitor;
pub mod near;
pub mod need;
pub mod observe;
pub mod per_op;
pub mod plan;
pub mod profile;
pub mod rbd;
pub mod remote;
pub mod samples;
pub mod schedule;
pub mod session;
pub mod shown;
pub mod stack;
pub mod sweep;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trial;
pub mod units;
pub mod verify;
pub mod volume;
pub mod workload;
