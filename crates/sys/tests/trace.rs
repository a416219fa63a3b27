//! A program that is traced, in a process of its own: [`next`] would wait for children of other tests.

use ebbtide_sys::trace::*;
use std::collections::BTreeSet;
use std::io;
use std::process::Command;

const CHILD: i32 = 17;
const USR1: i32 = 10;

fn wait() -> (u32, Change) {
    loop {
        if let Some(change) = next() {
            return change;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_program_is_traced_with_all_that_it_begins_and_goes_on_without_its_tracer() {
    let missing = start(Command::new("./no-such-program")).expect("traces").expect_err("is not there");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let mut shell = Command::new("sh");
    shell.args(["-c", "sh -c 'exit 3'; kill -USR1 $$; exit 4"]);
    let main = start(shell).expect("traces").expect("starts");
    assert_eq!(wait(), (main, Change::Stopped(Stop::Exec(main))));
    with_children(main).expect("is stopped");
    go_on(main, Until::Call, 0).expect("is stopped");
    let (mut seen, mut calls, mut begun, mut signals) = (BTreeSet::new(), 0, 0, Vec::new());
    let end = loop {
        let (thread, change) = wait();
        seen.insert(thread);
        let signal = match change {
            Change::Stopped(Stop::Signal(signal)) => signal,
            Change::Stopped(stop) => {
                if stop == Stop::Call {
                    calls += 1;
                    begun += u32::from(is_before_call(thread).expect("is stopped at a call"));
                }
                0
            }
            end if thread == main => break end,
            end => {
                assert_eq!(end, Change::Exited(3));
                continue;
            }
        };
        signals.extend(Some(signal).filter(|signal| *signal != 0));
        go_on(thread, Until::Call, signal).expect("is stopped");
    };
    assert_eq!(end, Change::Killed(USR1));
    assert!(seen.len() == 2 && calls > 20, "{seen:?} {calls}");
    // Some never come to an end, as that which ends a program.
    assert!((calls / 2..=calls / 2 + 5).contains(&begun), "{begun} of {calls}");
    assert_eq!(signals, [CHILD, USR1]);
    // The kernel lets a program go on whose tracer has ended.
    let left = std::thread::spawn(|| {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 5"]);
        let left = start(command).expect("traces").expect("starts");
        assert_eq!(wait(), (left, Change::Stopped(Stop::Exec(left))));
        left
    });
    let left = left.join().expect("traces");
    assert_eq!(wait(), (left, Change::Exited(5)));
}
