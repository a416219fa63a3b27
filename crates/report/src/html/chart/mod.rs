//! Charts as inline SVG. See docs/decisions/html-charts.md.

mod plot;
mod scale;

pub(super) use plot::{Curve, Plot, curves, percent};
pub(super) use scale::{Quantity, Scale};
