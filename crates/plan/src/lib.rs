//! The planner: from a [`Need`](ebbtide_model::need::Need) to ranked designs.
//!
//! ```text
//! Need ─► candidates: instances × types × numbers of volumes × layouts, each ordered as small as the need allows
//!            │  rules: arithmetic with the catalogue's limits says which cannot do it, and why
//!            ▼
//!         survivors, the cheapest first
//!            │  write: each as an experiment; predict: that experiment in the simulator
//!            ▼
//!         plans, what was rejected and why, and what would change the answer
//! ```
//!
//! What one design can do by arithmetic is [`bounds`]'s, what makes it unfit is a rule's (`rules`, a file each). Pure: the catalogue
//! and the need come in as values, experiments go out as text, and who calls says on which threads designs are predicted. What is
//! printed before a run is `ebbtide_model::plan`, which this has nothing to do with.

pub mod array;
pub mod bounds;
mod candidates;
mod changes;
mod choose;
mod notes;
pub mod outgrown;
mod predict;
mod rules;
pub mod table;
mod write;

pub use candidates::{Candidate, Medium, candidates};
pub use choose::{Answer, ExistingVolumes, Plan, Rejected, Volumes, have, plan};
pub use predict::{Interval, Predict, PredictError, Prediction, predict};
pub use rules::{Shortfall, short_of};
pub use write::experiment;
