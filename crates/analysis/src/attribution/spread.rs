//! Components of variance, as standard deviations.

use super::cells::Variance;
use super::distribution::chi_squared_at;
use serde::Serialize;

/// What leaves 95% between.
const TAIL: f64 = 0.025;

/// By how much something varies: the standard deviation of the logarithm of the speed, about the relative one (0.05 is 5%).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Standard deviation, as a share of the mean.
    pub sd: f64,
    /// Lower end of its 95% interval.
    pub ci_low: Option<f64>,
    /// Upper end of the interval of `sd`.
    pub ci_high: Option<f64>,
}

impl Spread {
    /// Of a variance that nothing else is part of; nothing without degrees of freedom.
    pub(super) fn known(variance: Variance) -> Option<Spread> {
        Spread::without(variance, 0.0)
    }

    /// Of what is seen to vary so much, of which `error` is by chance. Its interval is that of the whole (chi-squared) without the
    /// error, which is taken as known (Williams, Biometrika 49, 1962, without his second line).
    pub(super) fn without(seen: Variance, error: f64) -> Option<Spread> {
        let Variance { value, freedom } = seen;
        let root = |variance: f64| (variance - error).max(0.0).sqrt();
        let end = |below| chi_squared_at(below, freedom).map(|quantile| root(value * freedom / quantile));
        (freedom > 0.0).then(|| Spread { sd: root(value), ci_low: end(1.0 - TAIL), ci_high: end(TAIL) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_interval_of_chi_squared() {
        let spread = Spread::known(Variance { value: 4.0, freedom: 10.0 }).expect("has freedom");
        assert!((spread.sd - 2.0).abs() < 1e-12);
        // 40 / 20.483 and 40 / 3.247.
        assert!((spread.ci_low.unwrap_or_default() - 1.397).abs() < 1e-3, "{spread:?}");
        assert!((spread.ci_high.unwrap_or_default() - 3.510).abs() < 1e-3, "{spread:?}");
        let less = Spread::without(Variance { value: 4.0, freedom: 10.0 }, 5.0).expect("has freedom");
        assert_eq!((less.sd, less.ci_low), (0.0, Some(0.0)));
        assert_eq!(Spread::known(Variance::default()), None);
    }
}
