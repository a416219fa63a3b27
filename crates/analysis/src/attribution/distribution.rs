//! Student's and the chi-squared distribution, by the incomplete beta and gamma functions: tails far out and few degrees of
//! freedom, where [`student`](crate::estimate::student) stops.

/// Terms after which a fraction or a series is cut; it has converged long before for what is asked here.
const TERMS: usize = 100_000;
/// Relative change of a fraction that counts as none.
const CONVERGED: f64 = 1e-14;

/// Relative width of a bisection that is close enough.
const CLOSE: f64 = 1e-9;
/// Most halvings of a bisection.
const HALVINGS: usize = 2000;

/// The value of `t` that is exceeded with probability `tail`; `None` for no degrees of freedom or a tail outside (0, 1/2).
pub(super) fn student_beyond(tail: f64, freedom: f64) -> Option<f64> {
    if !(tail > 0.0 && tail < 0.5 && freedom > 0.0 && freedom.is_finite()) {
        return None;
    }
    // Tails of one degree of freedom are as long as 1 / (pi tail).
    let (mut below, mut above) = (0.0f64, 1.0f64);
    while student_tail(above, freedom) > tail {
        above *= 2.0;
        if above > 1e12 {
            return None;
        }
    }
    for _ in 0..HALVINGS {
        if above - below <= CLOSE * above {
            break;
        }
        let middle = f64::midpoint(below, above);
        if student_tail(middle, freedom) > tail { below = middle } else { above = middle }
    }
    Some(above)
}

/// Probability that a variate of Student's distribution is above `t >= 0` (DLMF 8.17.2 with 26.7.1 of Abramowitz and Stegun).
fn student_tail(t: f64, freedom: f64) -> f64 {
    0.5 * beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front =
        (libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let term = |n: usize| {
        let (n, m) = (n as f64, (n / 2) as f64);
        if n % 2.0 == 0.0 {
            m * (b - m) * x / ((a + n - 1.0) * (a + n))
        } else {
            -(a + m) * (a + b + m) * x / ((a + n - 1.0) * (a + n))
        }
    };
    front / fraction(1.0, |n| (term(n), 1.0))
}

/// `first + a1 / (b1 + a2 / (b2 + ...))` by Lentz's method, modified by Thompson and Barnett (J. Comput. Phys. 64, 1986).
fn fraction(first: f64, term: impl Fn(usize) -> (f64, f64)) -> f64 {
    const TINY: f64 = 1e-300;
    let kept = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut value = kept(first);
    let (mut c, mut d) = (value, 0.0);
    for n in 1..TERMS {
        let (a, b) = term(n);
        d = 1.0 / kept(b + a * d);
        c = kept(b + a / c);
        value *= c * d;
        if (c * d - 1.0).abs() < CONVERGED {
            break;
        }
    }
    value
}

/// The value below which a chi-squared variate is with probability `below`; `None` for no degrees of freedom or a probability
/// outside (0, 1).
pub(super) fn chi_squared_at(below: f64, freedom: f64) -> Option<f64> {
    if !(below > 0.0 && below < 1.0 && freedom > 0.0 && freedom.is_finite()) {
        return None;
    }
    let (mut low, mut high) = (0.0f64, freedom.max(1.0));
    while gamma(freedom / 2.0, high / 2.0) < below {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        if high - low <= CLOSE * high {
            break;
        }
        let middle = f64::midpoint(low, high);
        if gamma(freedom / 2.0, middle / 2.0) < below { low = middle } else { high = middle }
    }
    Some(high)
}

/// The regularised lower incomplete gamma function: its series (DLMF 8.7.1), or the continued fraction of the upper one (8.9.2).
fn gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..TERMS {
            term *= x / (a + n as f64);
            sum += term;
            if term < sum * CONVERGED {
                break;
            }
        }
        return front * sum;
    }
    let upper = front
        / fraction(x + 1.0 - a, |n| {
            let n = n as f64;
            (-n * (n - a), x + 2.0 * n + 1.0 - a)
        });
    1.0 - upper
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_student_are_those_of_the_tables() {
        for (tail, freedom, quantile) in [
            (0.025, 1.0, 12.706),
            (0.025, 2.0, 4.303),
            (0.025, 5.0, 2.571),
            (0.005, 10.0, 3.169),
            (0.0005, 3.0, 12.924),
            (0.0005, 30.0, 3.646),
            (0.025, 1e7, 1.960),
        ] {
            let found = student_beyond(tail, freedom).expect("is one");
            assert!((found - quantile).abs() < 6e-4, "{tail} {freedom}: {found}");
        }
        assert_eq!((student_beyond(0.025, 0.0), student_beyond(0.6, 5.0)), (None, None));
        assert_eq!((student_beyond(f64::NAN, 3.0), student_beyond(0.1, f64::NAN)), (None, None));
    }

    #[test]
    fn quantiles_of_chi_squared_are_those_of_the_tables() {
        for (below, freedom, quantile) in [
            (0.025, 1.0, 0.000_982),
            (0.975, 1.0, 5.024),
            (0.025, 10.0, 3.247),
            (0.975, 10.0, 20.483),
            (0.975, 100.0, 129.561),
        ] {
            let found = chi_squared_at(below, freedom).expect("is one");
            assert!((found - quantile).abs() < 6e-4, "{below} {freedom}: {found}");
        }
        assert_eq!((chi_squared_at(0.0, 3.0), chi_squared_at(0.5, 0.0)), (None, None));
    }
}
