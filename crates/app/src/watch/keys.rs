//! Keys of `ebb watch`.

use super::{Watch, next};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the screen is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The table of devices.
    #[default]
    Table,
    /// Taking letters of the filter.
    Filter,
    /// The list of keys.
    Help,
}

/// The screen's own state.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// What it is doing.
    pub mode: Mode,
    /// The picture stands still; readings go on.
    pub frozen: bool,
    /// Rows scrolled away at the top.
    pub scroll: usize,
    /// Set when the user has seen enough.
    pub quit: bool,
}

/// What one key changes on the screen and in what is shown.
pub fn press(key: KeyEvent, screen: &mut Screen, watch: &mut Watch) {
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        screen.quit = true;
        return;
    }
    match screen.mode {
        Mode::Filter => filter(key.code, screen, watch),
        Mode::Help => screen.mode = Mode::Table,
        Mode::Table => table(key.code, screen, watch),
    }
}

fn filter(key: KeyCode, screen: &mut Screen, watch: &mut Watch) {
    match key {
        KeyCode::Enter => screen.mode = Mode::Table,
        KeyCode::Esc => {
            watch.filter.clear();
            screen.mode = Mode::Table;
        }
        KeyCode::Backspace => {
            watch.filter.pop();
        }
        KeyCode::Char(letter) => watch.filter.push(letter),
        _ => {}
    }
}

fn table(key: KeyCode, screen: &mut Screen, watch: &mut Watch) {
    match key {
        KeyCode::Char('q') | KeyCode::Esc => screen.quit = true,
        KeyCode::Char('s') => watch.sort = next(watch.sort),
        KeyCode::Char('u') => watch.unit = next(watch.unit),
        KeyCode::Char('i') => watch.idle = !watch.idle,
        KeyCode::Char('/') => {
            watch.filter.clear();
            screen.mode = Mode::Filter;
        }
        KeyCode::Char(' ') => screen.frozen = !screen.frozen,
        KeyCode::Char('?' | 'h') => screen.mode = Mode::Help,
        KeyCode::Down | KeyCode::Char('j') => screen.scroll += 1,
        KeyCode::Up | KeyCode::Char('k') => screen.scroll = screen.scroll.saturating_sub(1),
        KeyCode::Home => screen.scroll = 0,
        _ => {}
    }
}

/// The keys, as the help shows them.
pub const HELP: &[(&str, &str)] = &[
    ("q, Esc", "quit"),
    ("s", "sort: tree, MB/s, requests, await, queue, util"),
    ("u", "unit: MB/s (10^6), MiB/s (2^20), KiB/s (2^10)"),
    ("/", "filter by name; Enter keeps it, Esc clears it"),
    ("i", "show unused devices too (never those of size 0)"),
    ("▁▄█", "bytes/s of the last intervals, each row on its own scale"),
    ("space", "freeze the display; readings go on"),
    ("up, down", "scroll"),
    ("?", "this help"),
];
