//! A workload shared out among hosts: each runs some of its jobs, with their share of what is said of all jobs together.

use crate::units::{Bytes, Nanos};
use crate::workload::{Arrival, Stop, Workload};

/// What each of `hosts` hosts runs of `workload`: as many jobs, and one more on the first ones where they do not divide; nothing where
/// there are fewer jobs than hosts. Rates, sizes and the part of the target that are given for all jobs go with the jobs.
pub fn among(workload: &Workload, hosts: usize) -> Vec<Option<Workload>> {
    let (all, hosts) = (workload.numjobs.max(1), u32::try_from(hosts).unwrap_or(u32::MAX).max(1));
    let mut before = 0;
    (0..hosts)
        .map(|host| {
            let jobs = all / hosts + u32::from(host < all % hosts);
            let first = before;
            before += jobs;
            (jobs > 0).then(|| part(workload, (first, jobs), hosts))
        })
        .collect()
}

/// The jobs of `workload` from number `first` on, so many.
fn part(workload: &Workload, (first, jobs): (u32, u32), hosts: u32) -> Workload {
    let all = u64::from(workload.numjobs.max(1));
    // What is left over goes to the earlier ones, as whole numbers.
    let upto = |total: u64, jobs: u32| (u128::from(total) * u128::from(jobs) / u128::from(all)) as u64;
    let bytes = |total: Bytes| Bytes(upto(total.0, first + jobs) - upto(total.0, first));
    let rate = |iops: f64| iops * f64::from(jobs) / all as f64;
    // The target is one member of as many.
    let place =
        |bytes: Bytes| Bytes(bytes.0 / u64::from(hosts) / workload.bs.0.max(1) * workload.bs.0.max(1));
    let mut part = Workload { numjobs: jobs, ..workload.clone() };
    part.stop = match workload.stop {
        Stop::Size(total) => Stop::Size(bytes(total)),
        Stop::Runtime(time) => Stop::Runtime(time),
    };
    part.arrival = match workload.arrival {
        Arrival::Closed => Arrival::Closed,
        Arrival::Fixed { iops } => Arrival::Fixed { iops: rate(iops) },
        Arrival::Poisson { iops } => Arrival::Poisson { iops: rate(iops) },
    };
    part.rate = workload.rate.map(bytes);
    part.span = workload.span.map(|span| place(span).max(workload.bs));
    part.details.offset = place(workload.details.offset);
    // All wait together, for the one instant at which all begin.
    part.details.start_delay = Nanos(0);
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Access, Mix};
    use proptest::prelude::*;

    fn workload(jobs: u32) -> Workload {
        let stop = Stop::Size(Bytes(1_000_003));
        Workload {
            numjobs: jobs,
            arrival: Arrival::Poisson { iops: 1000.0 },
            rate: Some(Bytes(7_777_777)),
            ..Workload::new("w", Access::Random, Mix::Write, stop)
        }
    }

    #[test]
    fn each_of_two_has_half_of_the_jobs_and_one_job_is_on_the_first() {
        let jobs = |all, hosts| {
            let parts = among(&workload(all), hosts);
            parts.iter().map(|part| part.as_ref().map_or(0, |part| part.numjobs)).collect::<Vec<_>>()
        };
        assert_eq!(jobs(80, 2), [40, 40]);
        assert_eq!(jobs(1, 2), [1, 0]);
        assert_eq!(jobs(7, 3), [3, 2, 2]);
        assert_eq!(jobs(5, 1), [5]);
    }

    #[test]
    fn the_part_of_a_target_is_as_much_of_each() {
        let mut whole = workload(4);
        (whole.span, whole.details.offset) = (Some(Bytes(1 << 20)), Bytes(1 << 16));
        let part = among(&whole, 2).remove(1).expect("some jobs");
        assert_eq!((part.span, part.details.offset), (Some(Bytes(1 << 19)), Bytes(1 << 15)));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_comes_twice(all in 1_u32..200, hosts in 1_usize..20) {
            let whole = workload(all);
            let parts: Vec<Workload> = among(&whole, hosts).into_iter().flatten().collect();
            prop_assert_eq!(parts.iter().map(|part| part.numjobs).sum::<u32>(), all);
            let most = parts.iter().map(|part| part.numjobs).max().unwrap_or(0);
            prop_assert!(parts.iter().all(|part| part.numjobs + 1 >= most));
            let size = |workload: &Workload| match workload.stop {
                Stop::Size(bytes) => bytes.0,
                Stop::Runtime(_) => 0,
            };
            prop_assert_eq!(parts.iter().map(size).sum::<u64>(), size(&whole));
            prop_assert_eq!(parts.iter().filter_map(|part| part.rate).map(|rate| rate.0).sum::<u64>(), 7_777_777);
            let iops: f64 = parts.iter().map(|part| match part.arrival {
                Arrival::Poisson { iops } => iops,
                _ => 0.0,
            }).sum();
            prop_assert!((iops - 1000.0).abs() < 1e-6);
        }
    }
}
