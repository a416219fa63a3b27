//! Ctrl-C: the first one ends a session cleanly, the second one ends the program at once.

use crate::error::CliError;
use ebbtide_host::sys::{self, Sys};
use ebbtide_model::backend::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What SIGINT, SIGTERM and SIGHUP stop from now on; a second one ends the program with status 130. One that was ignored when
/// the program began stays so: that is how `nohup` and shells (in the background) keep it from its end.
///
/// # Errors
/// When the handlers cannot be set up.
pub fn stoppable(quiet: bool) -> Result<Arc<Control>, CliError> {
    let control = Arc::new(Control::default());
    stop_on_signals(control.clone(), quiet)
        .map_err(|error| CliError::Failed(format!("cannot set up signal handlers: {error}")))?;
    Ok(control)
}

fn stop_on_signals(control: Arc<Control>, quiet: bool) -> io::Result<()> {
    let mut signals = Signals::new(not_ignored(&[SIGINT, SIGTERM, SIGHUP]))?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            if control.stop.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            if !quiet {
                crate::views::say("\nebb: stopping; what is finished is kept. Once more ends at once and leaves files behind");
            }
        }
    })?;
    Ok(())
}

/// Those of `signals` that this process does not ignore.
pub fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let status = sys::text(&Sys::host().proc.join("self/status")).unwrap_or_default();
    let ignored = ignored(&status);
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// The ignored signals of a process with this `/proc/PID/status`: bit 0 is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// From now on a write beyond `ulimit -f` gives an error that can be told, instead of ending the program. Programs that it starts are
/// ended by it as ever.
pub fn file_size_limit_is_an_error() {
    // Where it cannot be set up, that is said by nobody, and nothing else is different.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
