use super::common::{Home, status};
use super::states::{FREE, PROTECTED, State};
use super::ways::{May, WAYS, Way};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// States at once: most of the time goes into waiting for programs.
const AT_ONCE: usize = 4;

/// What came of a way.
struct Tried {
    status: i32,
    changed: bool,
    said: String,
}

/// Of what there is to try, every so many are: of the ways others at the next state, so that each state and each way are tried.
/// `EBB_TEST_EVERY=1` tries all.
pub fn every() -> usize {
    ebbtide_host::testing::every(3)
}

/// Tries the ways in turn at `state`, the one of this number, which is built anew after one that changed it; what `wrong` makes of it.
fn try_ways(number: usize, state: &State, wrong: &dyn Fn(&Way, &Tried) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let every = every();
    let wanted = WAYS.iter().enumerate().filter(|(way, _)| (way + number).is_multiple_of(every));
    let mut ways = wanted.map(|(_, way)| way).peekable();
    while ways.peek().is_some() {
        let home = Home::new();
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let standing = (state.build)(place.path());
        let before = standing.bytes();
        for way in ways.by_ref() {
            let output = (way.command)(&home, &standing.target).output().unwrap();
            let changed = standing.bytes() != before;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let tried = Tried { status: status(&output), changed, said };
            if wrong(way, &tried) {
                let Tried { status, changed, said } = tried;
                found.push(format!(
                    "{} / {}: status {status}, changed: {changed}: {said}",
                    state.name, way.name
                ));
            }
            if changed {
                break;
            }
        }
    }
    found
}

/// Tries every state, or with `EBB_TEST_STATE` those alone that have its words in their name.
fn each(states: &[State], wrong: impl Fn(&State, &Way, &Tried) -> bool + Sync) -> Vec<String> {
    let words = std::env::var("EBB_TEST_STATE").unwrap_or_default();
    let states: Vec<&State> = states.iter().filter(|state| state.name.contains(&words)).collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(state) = states.get(number) else { break };
                    let bad = try_ways(number, state, &|way, tried| wrong(state, way, tried));
                    found.lock().unwrap().extend(bad);
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
#[ignore = "requires root and loop devices"]
fn no_way_to_write_touches_what_is_somebody_s() {
    assert!(PROTECTED.len() >= 30, "{}", PROTECTED.len());
    let wrong = each(PROTECTED, |_, _, tried| tried.changed || !matches!(tried.status, 1 | 2));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), PROTECTED.len() * WAYS.len(), wrong.join("\n"));
}

/// The same ways write where they may: otherwise the other test could not fail.
#[test]
#[ignore = "requires root and loop devices"]
fn what_is_free_is_written_by_those_that_may() {
    let wrong = each(FREE, |state, way, tried| {
        let is_file = state.name.starts_with("file");
        let may = match way.may {
            May::Anything => true,
            May::Files => is_file,
            May::Devices => !is_file,
            May::DevicesPerhaps => !is_file && tried.changed,
            May::Nothing => false,
        };
        may != (tried.changed && matches!(tried.status, 0 | 3)) || (!may && tried.changed)
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the matrix compares can tell a change.
#[test]
#[ignore = "requires root and loop devices"]
fn a_change_is_seen() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let standing = (PROTECTED[0].build)(place.path());
    let before = standing.bytes();
    assert!(standing.bytes() == before);
    let mounted = place.path().join("mounted");
    super::common::tool("mount", &["-o", "remount,rw", mounted.to_str().unwrap()]);
    std::fs::write(mounted.join("another"), [8; 5000]).unwrap();
    super::common::tool("sync", &["-f", mounted.to_str().unwrap()]);
    assert!(standing.bytes() != before);
    assert!(Path::new(&standing.target).exists());
}
