//! Ctrl-C: the first one ends a session cleanly, the second one ends the program at once.

use ebbtide_core::backend::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From now on SIGINT, SIGTERM and SIGHUP set `control.stop`; a second one ends the program with status 130.
///
/// # Errors
/// When the handlers cannot be set up.
pub fn stop_on_signals(control: Arc<Control>, quiet: bool) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
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

/// A write beyond `ulimit -f` gives an error that can be told, instead of ending the program.
///
/// # Errors
/// When the handler cannot be set up.
pub fn file_size_limit_is_an_error() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(|_| ())
}
