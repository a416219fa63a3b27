//! Members on a file server: where their calls wait.

use super::*;
use crate::fixtures::trial;
use VerdictKind::{Concurrency, Cpu, InstanceLimit, RemoteQueue, Unknown, VolumeLimit};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    CallUse, ConnectionUse, MemberObservation, NetworkUse, Observation, RemoteUse, TcpUse, TrialSamples,
};
use ebbtide_model::session::Rung;

/// A call's microseconds before it was sent and from then on; calls for each operation.
#[derive(Clone, Copy)]
struct Call {
    queued: u64,
    round_trip: u64,
    calls: u64,
}

/// Operations of this many a second and this latency in microseconds, on NFS over one connection of a gigabit.
fn on_nfs(ops: u64, latency: u64, call: Call, sent_share: f64) -> TrialSamples {
    let mut samples = trial(&[("v0", ops, latency * 1000)]);
    let calls = samples.array.read.count.ops * call.calls;
    let sum = |each: u64| Nanos(calls * each * 1000);
    let read = CallUse {
        calls,
        sent: calls + calls / 100,
        queued: sum(call.queued),
        round_trip: sum(call.round_trip),
        whole: sum(call.queued + call.round_trip),
    };
    let remote = RemoteUse {
        fstype: "nfs4".into(),
        source: "files:/export".into(),
        mountpoint: "/mnt".into(),
        largest: None,
        connections: Some(1),
        calls: Some(PerOp { read, write: CallUse::default() }),
    };
    let received = (1.25e8 * sent_share * samples.elapsed.as_secs_f64()) as u64;
    samples.observed = Some(Box::new(Observation {
        members: vec![MemberObservation {
            member: "v0".into(),
            remote: Some(remote),
            ..MemberObservation::default()
        }],
        network: vec![NetworkUse {
            interface: "eth0".into(),
            received,
            sent: 0,
            speed_bits: Some(1_000_000_000),
        }],
        ..Observation::default()
    }));
    samples
}

fn reads(iodepth: u32) -> Experiment {
    let mut experiment = stripe(1);
    experiment.workloads[0].direct = true;
    experiment.workloads[0].iodepth = iodepth;
    experiment
}

const WAITS: Call = Call { queued: 6000, round_trip: 2000, calls: 1 };
const SENT: Call = Call { queued: 100, round_trip: 1100, calls: 1 };

/// More in flight than are let out, and a short run with half of it, in which calls took so long.
fn with_half(in_flight: u32, trial: impl Fn() -> TrialSamples, half: (u64, Call)) -> Session {
    let experiment = reads(in_flight);
    let mut session = six_rounds(&experiment, |_| trial());
    session.meta.rungs = vec![Rung {
        design: experiment.designs[0].name.clone(),
        workload: experiment.workloads[0].name.clone(),
        in_flight: in_flight / 2,
        bs: experiment.workloads[0].bs,
        samples: Box::new(on_nfs(half.0, (half.1.queued + half.1.round_trip) / half.1.calls, half.1, 0.2)),
    }];
    session
}

/// 64 in flight of which 16 are at the server, answered in 2 ms; of 32 the 10 that are there in as many.
const HALF: (u64, Call) = (5000, Call { queued: 4400, round_trip: 2000, calls: 1 });

#[test]
fn calls_that_wait_at_the_client() {
    let waits = |share: f64| move || on_nfs(8000, 8000, WAITS, share);
    let verdict = &verdicts(&with_half(64, waits(0.3), HALF))[0];
    assert_eq!(verdict.kind, RemoteQueue);
    assert!(
        verdict.sentence.starts_with(
            "calls to files:/export wait at this client for 75% of their time, 6.00 ms each, before they are sent: 16 at a time are \
             at the server over one connection, answered in 2.00 ms each, no later than 10 at a time (2.00 ms)"
        ),
        "{}",
        verdict.sentence
    );
    // Opposites: the server answered fewer of them sooner: it is full, and more at a time would wait there.
    let sooner = (8000, Call { queued: 2750, round_trip: 1250, calls: 1 });
    let (why, figures) = ruled_out(&with_half(64, waits(0.3), sooner), RemoteQueue);
    assert!(why.contains("take longer the more"), "{why}");
    assert!((figures[0].0 - 1.6).abs() < 1e-6, "{figures:?}");
    // No short run, or one that had as many at the server.
    let as_many = (8000, Call { queued: 2000, round_trip: 2000, calls: 1 });
    for session in [six_rounds(&reads(64), |_| waits(0.3)()), with_half(64, waits(0.3), as_many)] {
        let (why, _) = ruled_out(&session, RemoteQueue);
        assert!(why.contains("no short run had so few"), "{why}");
    }
    // They are sent soon; the interface is full; the page cache decides; a thread is full; nothing was counted.
    assert_eq!(kinds(&six_rounds(&reads(8), |_| on_nfs(6000, 1200, SENT, 0.3))), [Unknown]);
    let (why, _) = ruled_out(&with_half(64, waits(0.95), HALF), RemoteQueue);
    assert!(why.starts_with("eth0 is full"), "{why}");
    let mut buffered = with_half(64, waits(0.3), HALF);
    buffered.experiment.workloads[0].direct = false;
    let (why, _) = ruled_out(&buffered, RemoteQueue);
    assert!(why.starts_with("through the page cache"), "{why}");
    let full = || {
        let mut samples = waits(0.3)();
        samples.cpu.busiest_thread_permille = Some(990);
        samples
    };
    assert_eq!(kinds(&with_half(64, full, HALF)), [Cpu]);
    let cifs = || {
        let mut samples = waits(0.3)();
        let remote = samples.observed.as_mut().and_then(|o| o.members[0].remote.as_mut()).expect("is remote");
        (remote.fstype, remote.calls) = ("cifs".into(), None);
        samples
    };
    let (why, _) = ruled_out(&with_half(64, cifs, HALF), RemoteQueue);
    assert!(why.starts_with("too few calls were counted"), "{why}");
}

#[test]
fn one_operation_at_a_time_is_a_round_trip() {
    let one = six_rounds(&reads(1), |_| on_nfs(800, 1250, SENT, 0.1));
    let verdict = &verdicts(&one)[0];
    assert_eq!(verdict.kind, Concurrency);
    assert!(
        verdict.sentence.ends_with(
            "; each operation is one round trip to files:/export of 1.10 ms: 1 in flight have at most 909 a second"
        ),
        "{}",
        verdict.sentence
    );
    // Four calls of a large operation go out together.
    let four = Call { calls: 4, ..SENT };
    let verdict = &verdicts(&six_rounds(&reads(1), |_| on_nfs(700, 1400, four, 0.1)))[0];
    assert!(verdict.sentence.contains("is 4.0 calls, a round trip at least, to"), "{}", verdict.sentence);
    // Where the round trip is a small part of it, it is not what it consists of.
    let verdict = &verdicts(&six_rounds(&reads(1), |_| on_nfs(100, 10_000, SENT, 0.1)))[0];
    assert_eq!(verdict.kind, Concurrency);
    assert!(!verdict.sentence.contains("round trip"), "{}", verdict.sentence);
}

/// A session with rungs of these operations in flight and a second, and calls as long as these make them.
fn climbed(rungs: &[(u32, u64)], call: fn(u64) -> Call) -> Session {
    let experiment = reads(16);
    let run = |in_flight: u32, ops: u64| {
        let latency = u64::from(in_flight) * 1_000_000 / ops;
        on_nfs(ops, latency, call(latency), 0.2)
    };
    let mut session = six_rounds(&experiment, |_| run(16, 5000));
    let rung = |(in_flight, ops): &(u32, u64)| Rung {
        design: experiment.designs[0].name.clone(),
        workload: experiment.workloads[0].name.clone(),
        in_flight: *in_flight,
        bs: experiment.workloads[0].bs,
        samples: Box::new(run(*in_flight, *ops)),
    };
    session.meta.rungs = rungs.iter().map(rung).collect();
    session
}

#[test]
fn a_server_that_serves_no_faster() {
    let at_server = |latency: u64| Call { queued: latency / 20, round_trip: latency * 19 / 20, calls: 1 };
    let session = climbed(&[(16, 5000), (32, 5050), (64, 5020)], at_server);
    let verdict = &verdicts(&session)[0];
    assert_eq!((verdict.kind, verdict.basis), (VolumeLimit, Some(crate::Basis::Inferred)));
    assert!(verdict.sentence.starts_with("files:/export is the limit"), "{}", verdict.sentence);
    // Opposites: more in flight raise the rate; they wait at the client.
    let more = climbed(&[(16, 5000), (32, 9500), (64, 18_000)], at_server);
    assert!(!kinds(&more).contains(&VolumeLimit));
    let waiting = |latency: u64| Call { queued: latency * 7 / 10, round_trip: latency * 3 / 10, calls: 1 };
    let at_client = climbed(&[(16, 5000), (32, 5050), (64, 5020)], waiting);
    let (why, _) = ruled_out(&at_client, VolumeLimit);
    assert!(why.contains("wait at this client"), "{why}");
    let helped = climbed(&[(8, 2500), (16, 5000), (32, 9500), (64, 18_000)], waiting);
    let (why, _) = ruled_out(&helped, RemoteQueue);
    assert!(why.contains("lets more of them out"), "{why}");
}

/// A volume of iSCSI's behind a gigabit, of which so much is used.
fn on_iscsi(ops: u64, share: f64) -> TrialSamples {
    let mut samples = on_nfs(ops, 500, SENT, share);
    if let Some(observed) = &mut samples.observed {
        observed.members[0].remote = None;
        let peer =
            ConnectionUse { peer: "10.9.1.1:3260".into(), bytes: 1 << 30, round_trip: Some(Nanos(450_000)) };
        observed.tcp = Some(TcpUse { sent: 20_000, sent_again: 40, connections: vec![peer] });
    }
    samples
}

#[test]
fn the_interface_of_a_remote_volume_is_full() {
    // 28,000 operations of 4 KiB are 115 MB/s of a gigabit's 125.
    let full = six_rounds(&reads(16), |_| on_iscsi(28_000, 0.97));
    let verdict = &verdicts(&full)[0];
    assert_eq!(verdict.kind, InstanceLimit);
    assert!(
        verdict.sentence.starts_with("the network interface eth0 carries 121 MB/s of its 125 MB/s"),
        "{}",
        verdict.sentence
    );
    let figure = |what: &str| verdict.evidence.iter().find(|e| e.what.starts_with(what)).map(|e| e.value);
    assert!(
        figure("share of the network interface's speed").is_some_and(|share| (share - 0.97).abs() < 0.01)
    );
    // Opposites: it has room; others fill it.
    for (ops, share) in [(14_000, 0.5), (3_000, 0.97)] {
        let session = six_rounds(&reads(16), |_| on_iscsi(ops, share));
        assert!(!kinds(&session).contains(&InstanceLimit), "{ops}");
        let (why, _) = ruled_out(&session, InstanceLimit);
        assert!(why.contains("known to be full of the load"), "{why}");
    }
}
