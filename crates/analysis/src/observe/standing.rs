//! Members that differ from their siblings lastingly: over a span, and in most readings of it.
//!
//! One reading says little. Random requests to equal disks at their limit leave most of the queue now with one disk,
//! now with another, and each waits many times as long as its siblings while it has it. Simulated (four disks of 300
//! requests/s, 32 requests in flight), 29% of the intervals of 1 s mark one of them; with the span and the rules here
//! none in 590 does, while a disk of a third of the rate is marked in nine of ten. The deeper the queue, the longer it
//! stays: with 64 requests over four disks 2% of the spans still mark one, over two disks 18%.

use super::outlier::{MemberFigures, Outlier, outliers, shows};
use std::collections::VecDeque;

/// Shortest span that is judged, in seconds.
pub const LEAST_SECONDS: f64 = 10.0;
/// Fewest readings that are judged.
pub const LEAST_READINGS: usize = 3;

/// The last readings of one array's members.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecentReadings {
    readings: VecDeque<(f64, Vec<MemberFigures>)>,
}

impl RecentReadings {
    /// Takes the members' figures over the last `seconds`. Other members than before begin anew.
    pub fn push(&mut self, seconds: f64, members: Vec<MemberFigures>) {
        let names = |m: &[MemberFigures]| m.iter().map(|m| m.name.clone()).collect::<Vec<_>>();
        if self.readings.back().is_some_and(|(_, last)| names(last) != names(&members)) {
            self.readings.clear();
        }
        self.readings.push_back((seconds, members));
        while self.readings.len() > LEAST_READINGS
            && self.readings.front().is_some_and(|(oldest, _)| self.seconds() - oldest >= LEAST_SECONDS)
        {
            self.readings.pop_front();
        }
    }

    /// The span that is judged, in seconds.
    pub fn seconds(&self) -> f64 {
        self.readings.iter().map(|(seconds, _)| seconds).sum()
    }

    /// Members that differ over the whole span and in more than half of its readings; none while it is too short.
    pub fn outliers(&self) -> Vec<Outlier> {
        let seconds = self.seconds();
        if self.readings.len() < LEAST_READINGS || seconds < LEAST_SECONDS {
            return Vec::new();
        }
        let mut found = outliers(&self.means(), seconds);
        found.retain(|o| {
            let often = self.readings.iter().filter(|(_, m)| shows(m, o.member, o.difference)).count();
            often * 2 > self.readings.len()
        });
        found
    }

    /// Means over the span; waits are weighted by requests.
    fn means(&self) -> Vec<MemberFigures> {
        let seconds = self.seconds();
        let Some((_, last)) = self.readings.back() else { return Vec::new() };
        let of_member = |(index, last): (usize, &MemberFigures)| {
            let over = |figure: &dyn Fn(&MemberFigures) -> f64| -> f64 {
                let parts = self.readings.iter().filter_map(|(s, m)| Some(s * figure(m.get(index)?)));
                parts.sum()
            };
            let requests = over(&|m| m.requests_per_second);
            let waited = over(&|m| m.requests_per_second * m.await_ms.unwrap_or_default());
            MemberFigures {
                name: last.name.clone(),
                requests_per_second: requests / seconds,
                bytes_per_second: over(&|m| m.bytes_per_second) / seconds,
                await_ms: (requests > 0.0).then(|| waited / requests),
                queue: over(&|m| m.queue) / seconds,
                util: last.util.map(|_| over(&|m| m.util.unwrap_or_default()) / seconds),
            }
        };
        last.iter().enumerate().map(of_member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::outlier::Difference;

    fn member(name: &str, requests: f64, await_ms: f64) -> MemberFigures {
        MemberFigures {
            name: name.to_owned(),
            requests_per_second: requests,
            bytes_per_second: requests * 16384.0,
            await_ms: Some(await_ms),
            queue: requests * await_ms / 1000.0,
            util: Some(0.9),
        }
    }

    /// Four members; the one at `slow` waits twenty times as long.
    fn reading(slow: Option<usize>) -> Vec<MemberFigures> {
        (0..4).map(|i| member(&format!("m{i}"), 300.0, if Some(i) == slow { 40.0 } else { 2.0 })).collect()
    }

    fn standing(readings: impl IntoIterator<Item = Option<usize>>, seconds: f64) -> RecentReadings {
        let mut standing = RecentReadings::default();
        readings.into_iter().for_each(|slow| standing.push(seconds, reading(slow)));
        standing
    }

    #[test]
    fn a_member_is_named_when_it_differs_for_long_enough() {
        let named = |readings, seconds| -> Vec<(String, Difference)> {
            let found = standing(vec![Some(2); readings], seconds).outliers();
            found.into_iter().map(|o| (o.name, o.difference)).collect()
        };
        assert_eq!(named(9, 1.0), []);
        assert_eq!(named(10, 1.0), [("m2".to_owned(), Difference::Slow)]);
        assert_eq!(named(2, 60.0), []);
        assert_eq!(named(3, 60.0), [("m2".to_owned(), Difference::Slow)]);
        assert_eq!(standing(vec![None; 10], 1.0).outliers(), []);
    }

    #[test]
    fn a_queue_that_wanders_names_none() {
        let wandering = (0..30).map(|i| Some(i / 3 % 4));
        assert_eq!(standing(wandering, 1.0).outliers(), []);
        // One long pause outweighs the mean of ten readings, but is one of ten.
        let mut pause = standing(vec![None; 9], 1.0);
        let mut paused = reading(None);
        paused[1] = member("m1", 300.0, 900.0);
        pause.push(1.0, paused);
        assert!(pause.means()[1].await_ms > Some(90.0));
        assert_eq!(pause.outliers(), []);
    }

    #[test]
    fn the_span_slides_and_begins_anew_with_other_members() {
        let mut standing = standing(vec![Some(2); 40], 1.0);
        assert_eq!(standing.seconds(), 10.0);
        assert_eq!(standing.outliers().len(), 1);
        standing.push(1.0, reading(Some(2)).split_off(1));
        assert_eq!((standing.seconds(), standing.outliers().len()), (1.0, 0));
    }

    /// Means against the sum over each request: 100 requests of 1 ms in one second, 300 of 5 ms in three.
    #[test]
    fn means_weigh_by_time_and_waits_by_requests() {
        let mut standing = RecentReadings::default();
        standing.push(1.0, vec![member("a", 100.0, 1.0)]);
        standing.push(3.0, vec![member("a", 200.0, 5.0)]);
        let mean = &standing.means()[0];
        assert_eq!(mean.requests_per_second, 175.0);
        assert_eq!(mean.await_ms, Some((100.0 + 3000.0) / 700.0));
        assert_eq!(mean.queue, (0.1 + 3.0) / 4.0);
    }
}
