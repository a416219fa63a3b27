//! What commands of the project share.

pub mod packages;
pub mod pages;
pub mod run;
