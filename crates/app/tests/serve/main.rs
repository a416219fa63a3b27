//! `ebb serve`: what it shows, and what it keeps from those who may not see it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod pages;
mod serving;
