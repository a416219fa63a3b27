//! What a worker says and when it ends, over a socket in the place of a connection.

use super::*;
use ebbtide_lab::backend::talk::{Order, Word};
use ebbtide_model::experiment::VolumeSource;
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::Stop;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// A worker on a thread, and the end of its connection.
fn worker() -> (JoinHandle<io::Result<()>>, UnixStream, BufReader<UnixStream>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let from = BufReader::new(theirs.try_clone().expect("clones"));
    let thread = std::thread::spawn(move || serve(from, theirs, Whereabouts::Host));
    let said = BufReader::new(ours.try_clone().expect("clones"));
    (thread, ours, said)
}

/// The next word that is no progress.
fn next(said: &mut impl BufRead) -> Option<Word> {
    loop {
        let mut text = String::new();
        if said.read_line(&mut text).expect("reads") == 0 {
            return None;
        }
        match serde_json::from_str(&text).expect("a word") {
            Word::Progress { .. } => {}
            word => return Some(word),
        }
    }
}

#[test]
fn it_says_what_it_is_and_what_time_it_is_and_ends_with_its_orders() {
    let (thread, mut to, mut said) = worker();
    assert!(matches!(next(&mut said), Some(Word::Here { .. })));
    let mut times = Vec::new();
    for _ in 0..3 {
        to.write_all(&line(&Order::Clock).expect("a line")).expect("tells");
        match next(&mut said) {
            Some(Word::Clock { now, .. }) => times.push(now),
            other => panic!("{other:?}"),
        }
    }
    assert!(times.is_sorted(), "{times:?}");
    // What was never begun can be told all the same.
    for order in [Order::Alive, Order::Stop, Order::Finish { keep: false }] {
        to.write_all(&line(&order).expect("a line")).expect("tells");
    }
    assert!(matches!(next(&mut said), Some(Word::Finished(Ok(())))));
    to.shutdown(std::net::Shutdown::Write).expect("hangs up");
    thread.join().expect("ends").expect("well");
    drop(to);
    assert!(next(&mut said).is_none());
}

#[test]
fn what_is_no_order_ends_it_with_an_error() {
    let (thread, mut to, mut said) = worker();
    assert!(matches!(next(&mut said), Some(Word::Here { .. })));
    to.write_all(b"Welcome to alpha\n").expect("tells");
    assert!(thread.join().expect("ends").is_err());
}

#[test]
fn trials_before_anything_is_prepared_fail() {
    let (thread, mut to, mut said) = worker();
    assert!(matches!(next(&mut said), Some(Word::Here { .. })));
    let experiment = ebbtide_model::testing::experiment(1, 1);
    let trial = ebbtide_model::schedule::Schedule::new(&experiment, 1).round(0)[0];
    let order = Order::Together(trial, Box::new(experiment.workloads[0].clone()));
    to.write_all(&line(&order).expect("a line")).expect("tells");
    assert!(matches!(next(&mut said), Some(Word::Ran(Err(_)))));
    let one = (trial, experiment.workloads[0].clone());
    to.write_all(&line(&Order::Batch(vec![one.clone(), one])).expect("a line")).expect("tells");
    let Some(Word::RanBatch(ran)) = next(&mut said) else { panic!("something else") };
    assert!(ran.len() == 2 && ran.iter().all(Result::is_err));
    drop((to, said));
    thread.join().expect("ends").expect("well");
}

#[test]
fn a_batch_runs_at_the_same_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut experiment = ebbtide_model::testing::experiment(1, 2);
    for volume in &mut experiment.volumes {
        volume.source = VolumeSource::NewFile { directory: Some(directory.path().to_owned()) };
    }
    for workload in &mut experiment.workloads {
        workload.group = Some("g".to_owned());
        workload.stop = Stop::Runtime(Nanos::from_millis(600));
        workload.warm_up = Nanos(0);
    }
    let trials = ebbtide_model::schedule::Schedule::new(&experiment, 1).round(0);
    let batch: Vec<_> =
        trials[..2].iter().map(|trial| (*trial, experiment.workloads[trial.workload].clone())).collect();
    let control = Control::default();
    let options = Options { name: "batch".to_owned(), ..Options::default() };
    let around = surroundings::with_journal_in(directory.path(), "batch");
    let mut backend: Box<dyn Backend> = Box::new(FilesBackend::new(options, around));
    let observer = Observer::new("", &backend.prepare(&experiment, &control).expect("prepares"));
    let mut work = Work { backend, observer, experiment };
    let ran = work.run_batch(&batch, &control);
    let [Ok(one), Ok(other)] = ran.as_slice() else { panic!("{ran:?}") };
    assert!(one.started_unix.0.abs_diff(other.started_unix.0) < 300_000_000);
    assert!(one.array.read.count.ops > 0 && other.array.read.count.ops > 0);
    work.backend.finish(false).expect("puts back");
}
