//! Whom made-up measurements accuse, where it is known whose fault it is.

use super::normal;
use ebbtide_analysis::attribution::{
    self, Array, Attribution, Bounds, Effect, Finding, Measured, Observed, Spread, Subject, attribute,
};
use ebbtide_analysis::estimate;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// How measurements are made up.
#[derive(Clone)]
struct Made {
    /// Of each session: the volumes on each host.
    sessions: Vec<Vec<Vec<usize>>>,
    rounds: u32,
    /// Factors of slow volumes and hosts.
    slow_volumes: Vec<(usize, f64)>,
    slow_hosts: Vec<(usize, f64)>,
    /// Correlation of neighbouring rounds.
    correlation: f64,
}

/// Standard deviations of logarithms: of volumes and hosts at birth, of a volume and a host from session to session, of a round of
/// a host, of a trial.
const BIRTH: f64 = 0.02;
const BY_SESSION: f64 = 0.03;
const BY_ROUND: f64 = 0.05;
const BY_TRIAL: f64 = 0.07;

impl Made {
    /// The swap of "EC2 Disk Overview": 14 volumes on 3 instances, in 4 sessions; two change places after each.
    fn swap() -> Made {
        let mut hosts: Vec<Vec<usize>> = vec![(0..2).collect(), (2..6).collect(), (6..14).collect()];
        let mut sessions = vec![hosts.clone()];
        for _ in 0..3 {
            for host in 0..3 {
                let moved: Vec<usize> = hosts[host].drain(..2).collect();
                hosts[(host + 1) % 3].extend(moved);
            }
            sessions.push(hosts.clone());
        }
        Made { sessions, rounds: 8, slow_volumes: Vec::new(), slow_hosts: Vec::new(), correlation: 0.0 }
    }

    /// So many volumes on one host in so many sessions.
    fn one_host(volumes: usize, sessions: usize, rounds: u32) -> Made {
        Made { sessions: vec![vec![(0..volumes).collect()]; sessions], rounds, ..Made::swap() }
    }

    fn observed(&self, seed: u64) -> Observed {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
        let volumes = 1 + self.sessions.iter().flatten().flatten().max().copied().unwrap_or(0);
        let hosts = self.sessions.iter().map(Vec::len).max().unwrap_or(0);
        let mut born = |number: usize, slow: &[(usize, f64)]| -> Vec<f64> {
            let factor = |one| slow.iter().find(|(of, _)| *of == one).map_or(0.0, |(_, factor)| factor.ln());
            (0..number).map(|one| BIRTH * normal(rng) + factor(one)).collect()
        };
        let of_volumes = born(volumes, &self.slow_volumes);
        let of_hosts = born(hosts, &self.slow_hosts);
        let mut rows = Vec::new();
        for (session, placed) in self.sessions.iter().enumerate() {
            for (host, own) in placed.iter().enumerate() {
                let of_visit = of_hosts[host] + BY_SESSION * normal(rng);
                let mut weather: Vec<f64> = own.iter().map(|_| normal(rng)).collect();
                let today: Vec<f64> = own.iter().map(|_| BY_SESSION * normal(rng)).collect();
                for round in 0..self.rounds {
                    let of_round = BY_ROUND * normal(rng);
                    for (at, volume) in own.iter().enumerate() {
                        let r = self.correlation;
                        weather[at] = r * weather[at] + (1.0 - r * r).sqrt() * normal(rng);
                        let log =
                            of_volumes[*volume] + of_visit + today[at] + of_round + BY_TRIAL * weather[at];
                        rows.push(Measured {
                            volume: *volume,
                            host,
                            session,
                            round,
                            load: 0,
                            speed: 5e7 * log.exp(),
                        });
                    }
                }
            }
        }
        let subject = |number| Subject { name: format!("vol{number}"), kind: String::new() };
        let names = (0..hosts).map(|host| format!("i-{host}")).collect();
        Observed { volumes: (0..volumes).map(subject).collect(), hosts: names, rows }
    }

    /// In how many of 100 seeds exactly those are accused who are slow, and in how many anybody is who is not.
    fn of_100(&self) -> (u32, u32) {
        let (mut right, mut wrong) = (0, 0);
        for seed in 0..100 {
            let found = attribute(&self.observed(seed), Bounds::default());
            let accused = |of: &[Effect]| -> Vec<usize> {
                of.iter().enumerate().filter(|(_, effect)| effect.accused).map(|(number, _)| number).collect()
            };
            let (volumes, hosts) = (accused(&found.volumes), accused(&found.hosts));
            let named = |of: &[(usize, f64)]| -> Vec<usize> { of.iter().map(|(one, _)| *one).collect() };
            let (slow_volumes, slow_hosts) = (named(&self.slow_volumes), named(&self.slow_hosts));
            right += u32::from(volumes == slow_volumes && hosts == slow_hosts);
            let innocent = volumes.iter().any(|volume| !slow_volumes.contains(volume))
                || hosts.iter().any(|host| !slow_hosts.contains(host));
            wrong += u32::from(innocent);
        }
        (right, wrong)
    }
}

#[test]
fn with_nobody_at_fault_nobody_is_accused() {
    for correlation in [0.0, 0.5, 0.9] {
        for made in [Made::swap(), Made::one_host(8, 1, 8), Made::one_host(2, 1, 30), Made::one_host(8, 3, 8)]
        {
            let (_, wrong) = Made { correlation, ..made.clone() }.of_100();
            assert!(wrong <= 5, "{wrong} at {correlation}: {:?}", made.sessions);
        }
    }
}

#[test]
fn slow_volumes_are_named_and_hosts_cleared() {
    for correlation in [0.0, 0.5] {
        let made = Made { slow_volumes: vec![(3, 0.45), (9, 0.6)], correlation, ..Made::swap() };
        let (right, wrong) = made.of_100();
        assert!(right >= 95 && wrong <= 5, "{right} right, {wrong} wrong at {correlation}");
    }
    let (right, wrong) = Made { slow_volumes: vec![(5, 0.6)], ..Made::one_host(8, 1, 8) }.of_100();
    assert!(right >= 95 && wrong <= 5, "{right} right, {wrong} wrong on one host");
}

#[test]
fn a_slow_host_is_named_and_volumes_cleared() {
    for correlation in [0.0, 0.5] {
        let made = Made { slow_hosts: vec![(2, 0.55)], correlation, ..Made::swap() };
        let (right, wrong) = made.of_100();
        assert!(right >= 95 && wrong <= 5, "{right} right, {wrong} wrong at {correlation}");
    }
}

#[test]
fn volumes_and_hosts_that_never_change_places_are_not_told_apart() {
    let placed = vec![vec![0, 1, 2], vec![3, 4, 5]];
    let made = Made { sessions: vec![placed.clone(), placed], slow_hosts: vec![(1, 0.5)], ..Made::swap() };
    let found = attribute(&made.observed(1), Bounds::default());
    assert_eq!(found.accused().count(), 0, "{found:?}");
    assert!(!found.is_told());
    let need = found.needs.iter().find(|need| need.what.contains("told apart")).expect("is said");
    assert!(need.what.contains("i-1"), "{need:?}");
    assert!(need.measure.starts_with("attach vol") && need.measure.contains("to i-1"), "{need:?}");
}

#[test]
fn one_session_of_each_host_is_one_day() {
    let sessions = vec![vec![vec![0, 1, 2, 3], vec![]], vec![vec![], vec![2, 3, 4, 5]]];
    let made = Made { sessions, slow_hosts: vec![(1, 0.5)], ..Made::swap() };
    let found = attribute(&made.observed(1), Bounds::default());
    assert!(found.hosts.iter().all(|host| host.finding == Finding::Untold), "{:?}", found.hosts);
    let slow = found.hosts[1].effect.unwrap_or_default();
    assert!((0.4..0.6).contains(&slow), "{slow}: what is seen is shown");
    assert!(found.needs.iter().any(|need| need.what.contains("bad day")), "{:?}", found.needs);
    assert!(!found.is_told());
}

#[test]
fn volumes_of_another_kind_are_not_compared() {
    let mut observed =
        Made { slow_volumes: vec![(0, 0.3), (1, 0.3)], ..Made::one_host(6, 1, 12) }.observed(3);
    observed.volumes[0].kind = "aws:st1".to_owned();
    observed.volumes[1].kind = "aws:st1".to_owned();
    let found = attribute(&observed, Bounds::default());
    assert_eq!(found.accused().count(), 0, "{found:?}");
    assert_eq!(found.volumes.iter().map(|volume| volume.others).collect::<Vec<u32>>(), [1, 1, 3, 3, 3, 3]);
}

#[test]
fn one_that_is_uncommonly_fast_makes_nobody_slow() {
    let made = Made { slow_volumes: vec![(1, 2.0)], ..Made::one_host(3, 3, 12) };
    let found = attribute(&made.observed(1), Bounds::default());
    assert_eq!(found.accused().count(), 0, "{:?}", found.volumes);
    let made = Made { slow_hosts: vec![(0, 1.8)], ..Made::swap() };
    let found = attribute(&made.observed(1), Bounds::default());
    assert_eq!(found.accused().count(), 0, "{:?}", found.hosts);
}

#[test]
fn nothing_measured_is_nothing_told() {
    let none = attribute(&Observed::default(), Bounds::default());
    assert!(!none.is_told() && none.needs.len() == 1, "{none:?}");
    let one = attribute(&Made::one_host(1, 1, 8).observed(1), Bounds::default());
    assert_eq!(one.volumes[0].finding, Finding::Untold);
    assert!(!one.is_told());
    let short = attribute(&Made::one_host(4, 1, 1).observed(1), Bounds::default());
    assert_eq!((short.accused().count(), short.is_told()), (0, false), "{short:?}");
}

#[test]
fn a_volume_with_one_bad_session_of_three_is_not_accused() {
    let mut observed = Made::one_host(8, 3, 8).observed(2);
    for row in observed.rows.iter_mut().filter(|row| row.volume == 4 && row.session == 1) {
        row.speed *= 0.3;
    }
    let found = attribute(&observed, Bounds::default());
    assert_eq!(found.accused().count(), 0, "{:?}", found.volumes);
    assert_eq!(found.volumes[4].finding, Finding::Open);
}

#[test]
fn components_are_what_was_made_up() {
    let median = |of: &dyn Fn(&Attribution) -> Option<Spread>| {
        let made = Made { slow_volumes: vec![(3, 0.5)], ..Made::swap() };
        let found = (0..40).filter_map(|seed| of(&attribute(&made.observed(seed), Bounds::default())));
        estimate::median(found.map(|spread| spread.sd).collect::<Vec<f64>>()).unwrap_or_default()
    };
    let rounds = median(&|found| found.time.rounds);
    assert!((rounds / BY_ROUND - 1.0).abs() < 0.15, "{rounds}");
    let residual = median(&|found| found.residual);
    assert!((residual / BY_TRIAL - 1.0).abs() < 0.15, "{residual}");
    let sessions = median(&|found| found.time.sessions);
    assert!((0.5..1.6).contains(&(sessions / BY_SESSION)), "{sessions}");
    // One of 14 at half speed: 0.69 * sqrt(1 / 14).
    let volumes = median(&|found| found.volume_spread);
    assert!((0.15..0.23).contains(&volumes), "{volumes}");
}

#[test]
fn an_array_gains_what_its_slowest_member_lacks() {
    let observed = Made { slow_volumes: vec![(5, 0.4)], ..Made::one_host(8, 1, 12) }.observed(4);
    let found = attribute(&observed, Bounds::default());
    let array =
        |volumes: std::ops::Range<usize>| Array { name: "all".to_owned(), volumes: volumes.collect() };
    let gain = |array: &Array| attribution::gain(&found, array);
    let all = gain(&array(0..8)).expect("one is accused");
    assert_eq!(all.replaced, ["vol5"]);
    assert!((2.0..2.7).contains(&all.ratio) && all.ci_low < all.ratio && all.ratio < all.ci_high, "{all:?}");
    assert_eq!(gain(&array(0..5)), None);
}

#[test]
fn any_numbers_are_answered() {
    let speeds = [f64::NAN, 0.0, -1.0, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX, 1.0];
    let rows = (0..400usize).map(|number| Measured {
        volume: number % 5,
        host: number % 3,
        session: number % 4,
        round: (number % 7) as u32,
        load: number % 2,
        speed: speeds[number * 31 % 7],
    });
    let subject = |number| Subject { name: format!("vol{number}"), kind: String::new() };
    let hosts = ["a", "b", "c"].map(str::to_owned).into();
    let observed = Observed { volumes: (0..5).map(subject).collect(), hosts, rows: rows.collect() };
    let found = attribute(&observed, Bounds::default());
    assert_eq!((found.volumes.len(), found.hosts.len()), (5, 3));
}
