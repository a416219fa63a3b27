//! The lock of those that change what stays on this host: one holds it, and says in it who it is.

use crate::judge::{self, Program};
use crate::sys::Sys;
use crate::sys::process::Process;
use ebbtide_door::own::{self, Locked};
use ebbtide_door::read;
use ebbtide_model::shown::Shown;
use ebbtide_provision::AtWork;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest that is written in a lock.
const LONGEST: u64 = 1 << 16;

fn path(place: &Path) -> PathBuf {
    place.join("lock")
}

/// Takes the lock of the records in `place` for `command` on `name`, until it is dropped; nothing while another one has it.
pub(crate) fn take(sys: &Sys, place: &Path, command: &str, name: &str) -> io::Result<Option<Locked>> {
    let Some(mut locked) = own::try_lock(&path(place))? else { return Ok(None) };
    let pid = std::process::id();
    let at_work = AtWork {
        command: command.to_owned(),
        name: name.to_owned(),
        pid,
        start: Process::look(sys, pid).map_or(0, |process| process.start),
        since_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        step: None,
    };
    // Whoever asks is told less where this cannot be written; nothing else depends on it.
    let _ = serde_json::to_vec(&at_work).map(|text| locked.note(&text));
    Ok(Some(locked))
}

/// Who has the lock of the records in `place`; nothing where nobody has it. The lock is not touched: whoever wants it meanwhile gets it.
pub(crate) fn ask(sys: &Sys, place: &Path) -> Option<AtWork> {
    let text = read::text(&path(place), LONGEST).ok()?;
    let at_work: AtWork = serde_json::from_str(text.lines().next()?).ok()?;
    // What a process that was killed wrote is still there.
    let process = Process::look(sys, at_work.pid)?;
    (process.start == at_work.start && !process.has_ended()).then_some(at_work)
}

/// Programs that hold the lock of the records in `place` after whoever started them was killed, in words.
pub(crate) fn left_behind(sys: &Sys, place: &Path) -> Vec<String> {
    // Whoever ends by himself leaves it empty.
    let lock = std::fs::metadata(path(place)).ok().filter(|lock| lock.len() > 0);
    let left = lock.map(|lock| judge::programs_with(sys, (lock.dev(), lock.ino()))).unwrap_or_default();
    let called =
        |program: &Program| format!("{} (process {})", Path::new(&program.name).shown(), program.pid);
    left.iter().map(called).collect()
}

/// That the lock of the records in `place` cannot be had now, and what to do; the `commands` are those that take it.
pub(crate) fn refusal(sys: &Sys, place: &Path, commands: &str) -> String {
    let left = || match left_behind(sys, place).join(", ") {
        left if left.is_empty() => format!("another {commands} is at work on this host"),
        left => format!("{left} of a killed {commands} is still at work"),
    };
    format!("{}; wait until it has ended", ask(sys, place).map_or_else(left, |at_work| at_work.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_lock_is_told_while_he_lives_and_has_it() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let (sys, place) = (Sys::host(), place.path());
        assert_eq!(ask(&sys, place), None);
        let held = take(&sys, place, "ebb apply", "data").expect("locks").expect("is free");
        let told = ask(&sys, place).expect("is held");
        assert_eq!(
            (told.command.as_str(), told.name.as_str(), told.pid),
            ("ebb apply", "data", std::process::id())
        );
        assert!(take(&sys, place, "ebb undo", "data").expect("asks").is_none());
        let said = refusal(&sys, place, "`ebb apply` or `ebb undo`");
        let begin = format!("`ebb apply` of data is at work (process {}, since 2", std::process::id());
        assert!(said.starts_with(&begin) && said.ends_with("; wait until it has ended"), "{said}");
        // Another process has its number by now.
        let other = AtWork { start: told.start + 1, ..told };
        std::fs::write(path(place), serde_json::to_vec(&other).expect("writes")).expect("writes");
        assert_eq!(ask(&sys, place), None);
        drop(held);
        assert!(std::fs::read(path(place)).expect("reads").is_empty());
    }
}
