//! How far another host's clock is ahead of this one's, by asking it what time it is.
//!
//! The answer was read at some instant between question and answer. Half way is the best guess, and it is wrong by at most half of the
//! round trip, whatever the ways there and back took. So the exchange with the least round trip says most, and the
//! others say nothing more (D. L. Mills, RFC 5905, section 10: the clock filter).

use crate::units::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Exchanges that an estimate is made of, at least.
pub const EXCHANGES: usize = 8;

/// One question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When the question was sent, by this host's clock.
    pub sent: Nanos,
    /// What the other host's clock said.
    pub there: Nanos,
    /// When the answer had come, by this host's clock.
    pub back: Nanos,
}

impl Exchange {
    /// Time from the question to its answer.
    pub fn round_trip(&self) -> Nanos {
        Nanos(self.back.0.saturating_sub(self.sent.0))
    }
}

/// How far another host's clock is ahead of this one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offset {
    /// Nanoseconds that the other clock shows more; negative where it shows less.
    pub ahead_ns: i64,
    /// How wrong that may be, either way: half of the round trip.
    pub error: Nanos,
}

impl Offset {
    /// By the exchange with the least round trip; nothing without any.
    pub fn of(exchanges: &[Exchange]) -> Option<Offset> {
        let best = exchanges.iter().min_by_key(|exchange| exchange.round_trip())?;
        let middle = (i128::from(best.sent.0) + i128::from(best.back.0)).div_euclid(2);
        let ahead = i128::from(best.there.0) - middle;
        let ahead_ns = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
        Some(Offset { ahead_ns, error: Nanos(best.round_trip().0.div_ceil(2)) })
    }

    /// What the other clock shows at `here` of this one's; a clock shows nothing before its start.
    pub fn there(&self, here: Instant) -> Instant {
        Instant(here.0.saturating_add_signed(self.ahead_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exchanges with a clock that is `ahead`, whose ways there and back took so long.
    fn exchanges(ahead: i64, ways: &[(u64, u64)]) -> Vec<Exchange> {
        let mut now = 1_000_000_000_000_u64;
        let exchange = |(there, back): &(u64, u64)| {
            let sent = now;
            now += there + back + 17;
            Exchange {
                sent: Nanos(sent),
                there: Nanos((sent + there).saturating_add_signed(ahead)),
                back: Nanos(sent + there + back),
            }
        };
        ways.iter().map(exchange).collect()
    }

    /// What one exchange allows: the answer was read after the question was sent and before the answer had come.
    fn allowed(exchange: &Exchange) -> (i128, i128) {
        let there = i128::from(exchange.there.0);
        (there - i128::from(exchange.back.0), there - i128::from(exchange.sent.0))
    }

    #[test]
    fn the_least_round_trip_counts_and_its_half_is_the_error() {
        let made = exchanges(-3_000_000_000, &[(900, 100), (40, 60), (5000, 5000)]);
        assert_eq!(Offset::of(&made), Some(Offset { ahead_ns: -3_000_000_010, error: Nanos(50) }));
        assert_eq!(Offset::of(&[]), None);
        let offset = Offset { ahead_ns: -10, error: Nanos(1) };
        assert_eq!((offset.there(Instant(100)), offset.there(Instant(4))), (Instant(90), Instant(0)));
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_error_whatever_the_ways_take(
            ahead in -900_000_000_000_i64..900_000_000_000,
            ways in proptest::collection::vec((0_u64..2_000_000_000, 0_u64..2_000_000_000), 1..12),
        ) {
            let made = exchanges(ahead, &ways);
            let offset = Offset::of(&made).expect("some exchange");
            prop_assert!(offset.ahead_ns.abs_diff(ahead) <= offset.error.0, "{offset:?} of {ahead}");
            // The slow oracle: of all that the exchanges allow one by one, the narrowest, and its middle.
            let (low, high) = made.iter().map(allowed).min_by_key(|(low, high)| high - low).expect("some");
            let middle = i128::from(offset.ahead_ns);
            prop_assert!((2 * middle - (low + high)).abs() <= 1, "{offset:?} in {low} to {high}");
            prop_assert!(i128::from(offset.error.0) * 2 >= high - low);
        }

        #[test]
        fn more_exchanges_never_make_it_worse(
            ahead in -1_000_000_i64..1_000_000,
            ways in proptest::collection::vec((0_u64..1_000_000, 0_u64..1_000_000), 2..12),
        ) {
            let made = exchanges(ahead, &ways);
            let error = |count: usize| Offset::of(&made[..count]).expect("some").error;
            prop_assert!((1..made.len()).all(|count| error(count + 1) <= error(count)));
        }
    }
}
