//! The store: sessions and their trials in one SQLite file.
//!
//! Every write is one durable transaction (WAL, `synchronous=FULL`): when [`Store::add_trial`]
//! returns, the trial survives `kill -9` and a power cut. Several processes may use a store at once.

mod by_design;
mod canary;
mod encoding;
mod error;
mod keep;
mod listing;
mod location;
mod open;
mod rows;
mod schema;
#[cfg(test)]
mod tests;

pub use canary::{HOURS_DAYS, Monitored, SINGLE_DAYS};
pub use error::StoreError;
pub use keep::{Keep, Packed};
pub use listing::Listing;
pub use location::default_path;
pub use open::Store;
pub use rows::Summary;
