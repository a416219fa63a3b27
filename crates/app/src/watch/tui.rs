//! The live screen: a reading per interval, keys in between; the terminal is put back whatever happens.

use super::Watch;
use super::keys::{self, Screen};
use super::screen::draw;
use super::source::Source;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs until the user quits, `stop` is set, or `count` readings are shown.
///
/// # Errors
/// When the terminal or the counters cannot be used.
pub fn run(
    watch: &mut Watch,
    source: &mut Source,
    count: Option<u64>,
    stop: &AtomicBool,
    clock: fn() -> String,
) -> io::Result<()> {
    // `try_init` also puts the terminal back when the program panics.
    let mut terminal = ratatui::try_init()?;
    let result = live(&mut terminal, watch, source, count, stop, clock);
    ratatui::try_restore()?;
    result
}

fn live(
    terminal: &mut DefaultTerminal,
    watch: &mut Watch,
    source: &mut Source,
    count: Option<u64>,
    stop: &AtomicBool,
    clock: fn() -> String,
) -> io::Result<()> {
    let mut screen = Screen::default();
    // Until the first interval is over.
    let mut picture = source.since_boot(watch).unwrap_or_else(|| watch.clone());
    let mut time = clock();
    let mut due = Instant::now() + watch.interval;
    terminal.draw(|frame| draw(frame, &picture, &screen, &time))?;
    while !screen.quit && !stop.load(Ordering::Relaxed) {
        // Signals end a wait only through `stop`, so none is longer than this.
        let wait = due.saturating_duration_since(Instant::now()).min(Duration::from_millis(250));
        let mut changed = false;
        if event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    keys::press(key, &mut screen, watch);
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        if Instant::now() >= due {
            source.read(watch)?;
            due = next_due(due, watch.interval);
            changed = true;
        }
        if changed {
            if watch.readings > 0 && !screen.frozen {
                picture = watch.clone();
                time = clock();
            } else {
                copy_view(watch, &mut picture);
            }
            terminal.draw(|frame| draw(frame, &picture, &screen, &time))?;
        }
        if count.is_some_and(|count| watch.readings >= count) {
            break;
        }
    }
    Ok(())
}

/// A picture that stands still keeps its figures but not how they are shown.
fn copy_view(from: &Watch, to: &mut Watch) {
    (to.sort, to.unit, to.idle) = (from.sort, from.unit, from.idle);
    to.filter.clone_from(&from.filter);
}

/// The next instant on the grid that is not in the past: late readings are not made up for.
pub fn next_due(due: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    let mut next = due + interval;
    while next <= now {
        next += interval;
    }
    next
}
