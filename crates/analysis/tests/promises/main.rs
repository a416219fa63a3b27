//! What the statistics promise, over many made-up sessions: apart from the unit tests, so that what draws thousands of samples is optimised.

mod attribution;
mod between;
mod factors;
#[path = "../../src/fixtures/normal.rs"]
mod normal;
mod race;

use normal::normal;
