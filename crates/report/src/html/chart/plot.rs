//! A plot with two axes that is as wide as its place on the page.
//!
//! Positions along x are percentages and text has its natural size, so that nothing is scaled and a phone shows the
//! same letters as a desk. Curves live in an inner `svg` that is stretched; their strokes are not
//! (`vector-effect` in the style sheet).

use super::scale::Scale;
use maud::{Markup, html};

/// Most ticks along x: five labels fit beside each other on a phone.
const X_TICKS: usize = 5;

/// Units of the stretched inner `svg` in both directions.
const UNITS: f64 = 1000.0;

#[derive(Debug, Clone)]
pub(in crate::html) struct Curve {
    /// Name in the tooltip.
    pub(in crate::html) name: String,
    /// Classes that give it its colour and weight.
    pub(in crate::html) class: String,
    /// Points, by x; one without a value (NaN) interrupts the line.
    pub(in crate::html) points: Vec<(f64, f64)>,
    /// Filled down to the axis.
    pub(in crate::html) filled: bool,
}

/// A plot of curves.
#[derive(Debug, Clone)]
pub(in crate::html) struct Plot {
    /// What it shows, for those who cannot see it.
    pub(in crate::html) label: String,
    /// Height of the drawing area in CSS pixels.
    pub(in crate::html) height: u32,
    pub(in crate::html) x: Scale,
    pub(in crate::html) y: Scale,
    /// Ticks along x in place of the scale's own.
    pub(in crate::html) x_ticks: Option<Vec<(f64, String)>>,
    pub(in crate::html) curves: Vec<Curve>,
}

/// A place along an axis as a percentage.
pub(in crate::html) fn percent(place: f64) -> String {
    let text = format!("{:.2}", place * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The path of `points` on the two scales in the units of the inner `svg`.
pub(in crate::html) fn path(x: &Scale, y: &Scale, points: &[(f64, f64)], filled: bool) -> String {
    let mut d = String::new();
    let at =
        |(px, py): (f64, f64)| (libm::round(x.place(px) * UNITS), libm::round((1.0 - y.place(py)) * UNITS));
    let mut goes_on = false;
    for &point in points {
        if point.1.is_nan() {
            goes_on = false;
            continue;
        }
        let (px, py) = at(point);
        d.push_str(&format!("{}{px},{py}", if goes_on { 'L' } else { 'M' }));
        goes_on = true;
    }
    if let (true, Some(&first), Some(&last)) = (filled, points.first(), points.last()) {
        d.push_str(&format!("L{},{UNITS}L{},{UNITS}Z", at(last).0, at(first).0));
    }
    d
}

/// Curves without axes, stretched over `height` pixels.
pub(in crate::html) fn curves(x: &Scale, y: &Scale, height: u32, curves: &[Curve]) -> Markup {
    html! {
        svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height=(height) {
            @for curve in curves {
                path class={ "curve " (curve.class) @if curve.filled { " filled" } } data-name=(curve.name)
                    d=(path(x, y, &curve.points, curve.filled)) {}
            }
        }
    }
}

impl Plot {
    pub(in crate::html) fn render(&self) -> Markup {
        let height = f64::from(self.height);
        let y_ticks = self.y.ticks((self.height as usize / 32 + 1).clamp(3, 6));
        let x_ticks = self.x_ticks.clone().unwrap_or_else(|| self.x.ticks(X_TICKS));
        html! {
            svg.plot role="img" aria-label=(self.label) height=(self.height)
                data-x=(self.x.data()) data-y=(self.y.data()) {
                g.grid {
                    @for (value, _) in &y_ticks {
                        @let y = format!("{:.1}", (1.0 - self.y.place(*value)) * height);
                        line x1="0" x2="100%" y1=(y) y2=(y) {}
                    }
                    @for (value, _) in &x_ticks {
                        @let x = percent(self.x.place(*value));
                        line x1=(x) x2=(x) y1=(self.height) y2=(self.height + 4) {}
                    }
                }
                g.ticks {
                    @for (value, label) in &y_ticks {
                        text x="-8" y=(format!("{:.1}", (1.0 - self.y.place(*value)) * height + 4.0)) text-anchor="end" { (label) }
                    }
                    @for (value, label) in &x_ticks {
                        text x=(percent(self.x.place(*value))) y=(self.height + 18) text-anchor="middle" { (label) }
                    }
                }
                (curves(&self.x, &self.y, self.height, &self.curves))
                line.crosshair y1="0" y2=(self.height) x1="0" x2="0" {}
            }
        }
    }
}
