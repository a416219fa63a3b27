//! A key that nobody but its owner has written down: asked for at the terminal, kept in memory only.

use crate::error::CliError;
use crate::terminal::Changed;
use ebbtide_model::backend::Control;
use ebbtide_model::experiment::Experiment;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;

/// cryptsetup's own limit for a key that is typed.
const LENGTH_MAX: usize = 512;

/// Asks for the key, where a design of `experiment` wants one that is asked for. One is enough: each trial encrypts anew.
///
/// # Errors
/// Without a terminal, without a key, and after Ctrl-C.
pub fn ask(experiment: &Experiment, control: &Control) -> Result<Option<Vec<u8>>, CliError> {
    let asks = |encryption: &ebbtide_model::stack::Encryption| encryption.key_file.is_none();
    let Some(design) = experiment.designs.iter().find(|d| d.stack.encryption.as_ref().is_some_and(asks))
    else {
        return Ok(None);
    };
    let terminal = ebbtide_door::kernel::terminal().map_err(|error| {
        CliError::Usage(format!(
            "design {} has `key = \"prompt\"`, and there is no terminal to ask at: {error}; write `key_file = \"...\"`",
            design.name
        ))
    })?;
    let stopped = "no key was given, and nothing was done";
    key_typed(&terminal, control, "key for the encryption (not shown): ", stopped).map(Some)
}

/// Asks for the key of the volume `name`; a `new` one twice, because a mistake in it would be found when the data are needed.
///
/// # Errors
/// Without a terminal, without a key, after Ctrl-C, and where the two differ.
pub fn ask_for(name: &str, new: bool, control: &Control) -> Result<Vec<u8>, CliError> {
    let terminal = ebbtide_door::kernel::terminal().map_err(|error| {
        CliError::Usage(format!(
            "there is no terminal to ask for the key at: {error}; write --encrypt KEYFILE"
        ))
    })?;
    let once = |prompt: &str| key_typed(&terminal, control, prompt, "no key was given");
    let key = once(&format!("key for {name} (not shown): "))?;
    if new && once(&format!("new key for {name} once more: "))? != key {
        return Err(CliError::Usage("the two keys differ; nothing was encrypted".to_owned()));
    }
    Ok(key)
}

/// A key that is typed, which is not empty; `stopped` is what to say after Ctrl-C.
fn key_typed(terminal: &File, control: &Control, prompt: &str, stopped: &str) -> Result<Vec<u8>, CliError> {
    let ended = typed(terminal, control, prompt)
        .map_err(|error| CliError::Failed(format!("the terminal failed: {error}")))?;
    match ended {
        Ended::Stopped => Err(CliError::Interrupted(stopped.to_owned())),
        Ended::Given(key) if key.is_empty() => Err(CliError::Usage("the key is empty; type one".to_owned())),
        Ended::Given(key) => Ok(key),
    }
}

/// What is typed up to Enter, not shown.
fn typed(mut terminal: &File, control: &Control, prompt: &str) -> std::io::Result<Ended> {
    let silent = Changed::new(terminal, OptionalActions::Flush, |modes| {
        modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        // A read returns after a tenth of a second, so that a signal is noticed.
        modes.special_codes[SpecialCodeIndex::VMIN] = 0;
        modes.special_codes[SpecialCodeIndex::VTIME] = 1;
    })?;
    terminal.write_all(prompt.as_bytes())?;
    let mut line = Line::default();
    let mut bytes = [0; 64];
    let ended = loop {
        if control.stop.load(Ordering::Relaxed) {
            break Ended::Stopped;
        }
        let length = terminal.read(&mut bytes)?;
        if let Some(ended) = bytes[..length].iter().find_map(|byte| line.take(*byte)) {
            break ended;
        }
    };
    drop(silent);
    terminal.write_all(b"\n")?;
    Ok(ended)
}

/// How a line ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// What was typed before Enter.
    Given(Vec<u8>),
    /// With Ctrl-C, or a signal.
    Stopped,
}

/// A line as it is typed.
#[derive(Default)]
struct Line(Vec<u8>);

impl Line {
    fn take(&mut self, byte: u8) -> Option<Ended> {
        match byte {
            b'\r' | b'\n' => return Some(Ended::Given(std::mem::take(&mut self.0))),
            // Ctrl-C, and Ctrl-D on an empty line.
            3 => return Some(Ended::Stopped),
            4 if self.0.is_empty() => return Some(Ended::Stopped),
            // Backspace takes a whole character of UTF-8.
            8 | 127 => while self.0.pop().is_some_and(|last| last & 0xc0 == 0x80) {},
            // Ctrl-U.
            21 => self.0.clear(),
            byte if self.0.len() < LENGTH_MAX => self.0.push(byte),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Option<Ended> {
        let mut line = Line::default();
        bytes.iter().find_map(|byte| line.take(*byte))
    }

    #[test]
    fn a_key_ends_with_enter_and_can_be_corrected() {
        let given = |text: &str| Some(Ended::Given(text.as_bytes().to_vec()));
        assert_eq!(typed("a key\r".as_bytes()), given("a key"));
        assert_eq!(typed("a k\u{e9}\u{7f}ey\n".as_bytes()), given("a key"));
        assert_eq!(typed(b"\x7fwrong\x15a key\n"), given("a key"));
        assert_eq!(typed(b"\n"), given(""));
        assert_eq!(
            (typed(b"a\x03"), typed(b"\x04"), typed(b"a\x04")),
            (Some(Ended::Stopped), Some(Ended::Stopped), None)
        );
    }
}
