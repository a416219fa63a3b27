use super::*;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::volume::Costs;
use ebbtide_model::workload::Arrival;

#[test]
fn littles_law_holds() {
    for (depth, arrival) in [
        (1, Arrival::Closed),
        (16, Arrival::Closed),
        (512, Arrival::Closed),
        (64, Arrival::Poisson { iops: 9000.0 }),
        (64, Arrival::Fixed { iops: 500.0 }),
    ] {
        let samples =
            run(&experiment(4, stripe(), &shape()), &Workload { iodepth: depth, arrival, ..randread() });
        // Concurrency = rate × time in the system; of the service in an open loop, whose latency starts earlier.
        let side = &samples.array.read;
        let mean = side.service.as_ref().unwrap_or(&side.latency).mean().expect("has operations");
        close(iops(&samples) * mean * 1e-9, samples.mean_in_flight.expect("measured"), 0.02);
        if arrival == Arrival::Closed {
            close(samples.mean_in_flight.expect("measured"), f64::from(depth), 0.01);
        }
    }
}

#[test]
fn a_job_that_pauses_has_one_operation_in_flight() {
    let paused = |iodepth, numjobs| {
        let think_time = Nanos::from_millis(10);
        iops(&run(
            &experiment(4, stripe(), &shape()),
            &Workload { iodepth, numjobs, think_time, ..randread() },
        ))
    };
    close(paused(16, 1), paused(1, 1), 1e-9);
    close(paused(4, 3), 3.0 * paused(1, 1), 0.02);
    assert!(paused(1, 1) < 100.0);
}

#[test]
fn an_overloaded_open_loop_shows_the_wait_and_a_closed_one_hides_it() {
    let experiment = experiment(1, stripe(), &shape());
    let open = Workload { arrival: Arrival::Poisson { iops: 3300.0 }, ..randread() };
    let samples = run(&experiment, &open);
    close(iops(&samples), 3000.0, 0.01);
    // 10% too much for 6 s: the last ones wait for half a second.
    assert!(samples.array.read.latency.max() > Some(400_000_000));
    assert!(samples.array.read.service.as_ref().and_then(|service| service.max()) < Some(100_000_000));
}

#[test]
fn two_clients_share_a_server_and_have_a_link_each() {
    let mut server = Shape {
        iops: Some(Limit::steady(7000.0)),
        read_latency: Latency::Constant(Nanos::from_millis(1)),
        write_latency: Latency::Constant(Nanos::from_millis(7)),
        link: Some(0),
        ..Shape::default()
    };
    server.character.costs = Some(Costs { read: 2.0, write: 2.0, min_bytes: Bytes(4096), write_bytes: 1.0 });
    let mut experiment = experiment(1, ArrayKind::Linear, &server);
    experiment.links = vec![LinkShape {
        name: "client".into(),
        iops: Some(Limit::steady(5000.0)),
        throughput: None,
        one_way: PerOp::default(),
    }];
    let many = Workload { numjobs: 40, iodepth: 1, ..randread() };
    // One client: 5000/s of its own link count double on the server: 2500; two: the server's 3500.
    close(iops(&run(&experiment, &many)), 2500.0, 0.01);
    experiment.environment.clients = 2;
    close(iops(&run(&experiment, &Workload { numjobs: 80, ..many })), 3500.0, 0.01);
    // One writer waits for its round trip: 1000 / 7.
    let one = Workload { numjobs: 1, iodepth: 1, mix: Mix::Write, ..randread() };
    close(iops(&run(&experiment, &one)), 1000.0 / 7.0, 0.01);
}
