//! Several hosts' samples as one trial: the same as if one histogram had counted everything.

use super::*;
use crate::samples::{DeviceObservation, MemberObservation, Observation};
use proptest::prelude::*;

/// Samples of `members` (name, latencies of reads), in intervals of 10 ns in which each has one operation.
fn samples(members: &[(&str, &[u64])]) -> TrialSamples {
    let ops = |latencies: &[u64]| {
        let mut read = OpSamples::default();
        for latency in latencies {
            read.latency.record(*latency);
            read.count += Count { ops: 1, bytes: 512 };
        }
        PerOp { read, write: OpSamples::default() }
    };
    let all: Vec<u64> = members.iter().flat_map(|(_, latencies)| latencies.to_vec()).collect();
    let most = members.iter().map(|(_, latencies)| latencies.len()).max().unwrap_or(0);
    let series = (0..most).map(|index| {
        let count = |of: usize| PerOp {
            read: Count { ops: of as u64, bytes: 512 * of as u64 },
            write: Count::default(),
        };
        let has = |latencies: &[u64]| usize::from(index < latencies.len());
        let mut latency = Histogram::default();
        let own = members.iter().filter_map(|(_, latencies)| latencies.get(index));
        own.for_each(|value| latency.record(*value));
        Interval {
            end: Nanos(10 * (index as u64 + 1)),
            array: count(members.iter().map(|(_, latencies)| has(latencies)).sum()),
            latency,
            members: members.iter().map(|(_, latencies)| count(has(latencies))).collect(),
        }
    });
    TrialSamples {
        started_unix: UnixTime::EPOCH,
        elapsed: Nanos(10 * most as u64),
        interval: Nanos(10),
        array: ops(&all),
        members: members
            .iter()
            .map(|(name, latencies)| MemberSamples {
                name: (*name).to_owned(),
                ops: ops(latencies),
                ..MemberSamples::default()
            })
            .collect(),
        series: series.collect(),
        cpu: CpuUse {
            load_user: Nanos(5),
            cores: 2,
            busiest_thread_permille: Some(300),
            ..CpuUse::default()
        },
        mean_in_flight: Some(1.5),
        execution: Execution::default(),
        observed: None,
        hosts: Vec::new(),
        notes: Vec::new(),
    }
}

fn part(host: &str, samples: TrialSamples) -> HostPart {
    let measured = samples.elapsed;
    let clock = Offset { ahead_ns: 3, error: Nanos(4) };
    HostPart { host: host.into(), jobs: 2, samples, late: Nanos(9), measured, clock, wall: clock }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn members_are_in_the_order_of_the_design_whoever_has_them() {
    let a = part("a", samples(&[("v0", &[100, 200]), ("v2", &[300, 300])]));
    let b = part("b", samples(&[("v1", &[1000, 2000])]));
    let members = names(&["v0", "v1", "v2", "v3"]);
    let whole = merge(vec![a, b], Vec::new(), &members, UnixTime(7)).expect("a trial");
    assert_eq!(
        whole.members.iter().map(|member| &member.name).collect::<Vec<_>>(),
        members.iter().collect::<Vec<_>>()
    );
    let ops: Vec<u64> = whole.members.iter().map(|member| member.ops.read.count.ops).collect();
    assert_eq!(ops, [2, 2, 2, 0]);
    let first: Vec<u64> = whole.series[0].members.iter().map(|count| count.read.ops).collect();
    assert_eq!((first.as_slice(), whole.series[0].array.read.ops), ([1, 1, 1, 0].as_slice(), 3));
    assert_eq!((whole.started_unix, whole.elapsed, whole.array.read.count.ops), (UnixTime(7), Nanos(20), 6));
    assert_eq!((whole.cpu.cores, whole.cpu.load_user, whole.mean_in_flight), (4, Nanos(10), Some(3.0)));
    let hosts: Vec<(&str, u64)> =
        whole.hosts.iter().map(|host| (host.name.as_str(), host.ops.read.count.ops)).collect();
    assert_eq!(hosts, [("a", 4), ("b", 2)]);
    assert!(merge(Vec::new(), Vec::new(), &[], UnixTime(0)).is_none());
}

#[test]
fn notes_of_all_are_said_once_and_others_with_their_host() {
    let with = |host: &str, notes: &[&str]| part(host, TrialSamples { notes: names(notes), ..samples(&[]) });
    let whole = merge(vec![with("a", &["both", "one"]), with("b", &["both"])], Vec::new(), &[], UnixTime(0));
    assert_eq!(whole.expect("a trial").notes, ["both", "a: one"]);
}

#[test]
fn devices_have_the_names_of_their_hosts_and_their_places() {
    let seen = |member: &str| {
        let device = DeviceObservation { name: "vda".into(), number: "254:0".into(), ..Default::default() };
        let of = MemberObservation { member: member.into(), devices: vec![0], ..Default::default() };
        Some(Box::new(Observation { devices: vec![device], members: vec![of], ..Default::default() }))
    };
    let with = |host: &str, member: &str| {
        part(host, TrialSamples { observed: seen(member), ..samples(&[(member, &[1])]) })
    };
    let whole = merge(vec![with("a", "v1"), with("b", "v0")], Vec::new(), &names(&["v0", "v1"]), UnixTime(0));
    let observed = whole.and_then(|whole| whole.observed).expect("seen");
    assert_eq!(observed.devices.iter().map(|device| &device.name).collect::<Vec<_>>(), ["a:vda", "b:vda"]);
    assert_eq!(observed.devices[1].number, "b:254:0");
    let below: Vec<_> =
        observed.members.iter().map(|member| (member.member.as_str(), &member.devices[..])).collect();
    assert_eq!(below, [("v0", [1].as_slice()), ("v1", [0].as_slice())]);
}

#[test]
fn what_is_stored_comes_back_with_its_hosts() {
    let parts = vec![part("a", samples(&[("v0", &[100, 200])])), part("b", samples(&[("v1", &[7])]))];
    let whole = merge(parts, Vec::new(), &names(&["v0", "v1"]), UnixTime(7)).expect("a trial").condensed();
    assert_eq!(whole.part().join().expect("joins"), whole);
}

proptest! {
    #[test]
    fn percentiles_are_those_of_all_operations_together(
        a in proptest::collection::vec(1_u64..2_000_000, 1..60),
        b in proptest::collection::vec(1_u64..2_000_000, 1..60),
    ) {
        let parts = vec![part("a", samples(&[("v0", &a)])), part("b", samples(&[("v1", &b)]))];
        let whole = merge(parts, Vec::new(), &names(&["v0", "v1"]), UnixTime(0)).expect("a trial");
        let mut all: Vec<u64> = a.into_iter().chain(b).collect();
        all.sort_unstable();
        let mut oracle = Histogram::default();
        all.iter().for_each(|value| oracle.record(*value));
        let latency = whole.latency();
        for p in [0.1, 1.0, 50.0, 99.0, 99.9, 100.0] {
            prop_assert_eq!(latency.percentile(p), oracle.percentile(p));
        }
        prop_assert_eq!((latency.sum(), latency.count()), (all.iter().sum(), all.len() as u64));
        let by_interval: u64 = whole.series.iter().map(|interval| interval.array.read.ops).sum();
        prop_assert_eq!(by_interval, all.len() as u64);
    }
}
