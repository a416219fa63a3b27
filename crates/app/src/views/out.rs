//! The one way out: everything that standard output and standard error show passes through here.
//!
//! Clippy refuses the standard streams everywhere else (clippy.toml), and `cargo xtask check` refuses exceptions. Two
//! libraries draw by themselves: what `progress` gives to indicatif is escaped there, and `watch` looks over every picture
//! that ratatui draws.
//!
//! | what | goes through |
//! | --- | --- |
//! | text for people | [`print`], [`say`]: every control but line breaks and tabs is written out |
//! | a message | [`say`], which leaves out the middle of lines that are too long to read |
//! | a styled report | [`print_styled`]: its data was escaped when it came in |
//! | JSON | [`print_json`], [`answer`]: controls are `\u` escapes |
//! | CSV, HTML, an experiment as it was | [`print_data`]: byte for byte, and escaped on a terminal |
//! | what a guest's own programs print | [`pass_on`]: as it is, as ssh does |
#![allow(clippy::disallowed_methods)]

use crate::error::CliError;
use ebbtide_host::output_was_closed;
use ebbtide_lab::guest::Stream;
use ebbtide_model::shown::{LINE_MOST, Styled, escape, is_control, json, shortened};
use rustix::termios::{isatty, tcgetwinsize};
use serde_json::Value;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Columns that are used when the output is no terminal.
pub const COLUMNS_ELSEWHERE: usize = 100;

/// Whether standard output is a terminal.
pub fn stdout_is_terminal() -> bool {
    isatty(io::stdout())
}

/// Whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    isatty(io::stderr())
}

/// Rows and columns of the terminal that standard output is.
pub fn stdout_size() -> Option<(u16, u16)> {
    tcgetwinsize(io::stdout()).ok().map(|size| (size.ws_row, size.ws_col))
}

/// Columns of standard output, and whether it takes colours.
pub fn stdout_width() -> (usize, bool) {
    if !stdout_is_terminal() {
        return (COLUMNS_ELSEWHERE, false);
    }
    let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    (columns_of(stdout_size().map(|(_, columns)| columns)), color)
}

/// Columns of a terminal that says it has `said`: where it says 0, as a serial line does, nobody has told it.
fn columns_of(said: Option<u16>) -> usize {
    said.filter(|columns| *columns > 0).map_or(80, usize::from)
}

/// Writes `text` to standard output; a reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(text: &str) -> Result<(), CliError> {
    print_more(text).map(drop)
}

/// The same; whether anybody wants more.
///
/// # Errors
/// As [`print`].
pub fn print_more(text: &str) -> Result<bool, CliError> {
    write(&escape(text))
}

/// The same for a text with a style.
///
/// # Errors
/// As [`print`].
pub fn print_styled(text: &Styled) -> Result<(), CliError> {
    write(text).map(drop)
}

/// The same for JSON, over several lines.
///
/// # Errors
/// As [`print`].
pub fn print_json(value: &Value) -> Result<(), CliError> {
    write(&json(value)).map(drop)
}

/// Prints the answer of a subcommand: `value` where JSON is asked for, else `text`.
///
/// # Errors
/// As [`print`].
pub fn answer(as_json: bool, value: &Value, text: &str) -> Result<ExitCode, CliError> {
    if as_json { print_json(value) } else { print(text) }.map(|()| ExitCode::SUCCESS)
}

/// The same for what programs read: byte for byte, unless a person sees it.
///
/// # Errors
/// As [`print`].
pub fn print_data(text: &str) -> Result<(), CliError> {
    print_more_data(text).map(drop)
}

/// The same; whether anybody wants more.
///
/// # Errors
/// As [`print`].
pub fn print_more_data(text: &str) -> Result<bool, CliError> {
    // The lines of CSV end in CR LF.
    if stdout_is_terminal() { write(&escape(&text.replace("\r\n", "\n"))) } else { write(text) }
}

/// Writes at once; false when the reader has seen enough.
fn write(text: &str) -> Result<bool, CliError> {
    if output_was_closed() {
        return Err(CliError::Failed("cannot write to standard output: it is closed".to_owned()));
    }
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::Failed(format!("cannot write to standard output: {error}"))),
    }
}

/// A line on standard error. A reader that went away (`2>&1 | head`) must not end a run, as `eprintln!` would.
pub fn say(text: &str) {
    // There is nobody left to tell.
    let _ = io::stderr().lock().write_all(format!("{}\n", escape(&shortened(text))).as_bytes());
}

/// Standard error for a library that writes whole lines. A reader that went away is no error: the library would print that with `eprintln!`,
/// which panics then.
#[derive(Debug, Default)]
pub struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _nobody_reads =
            io::stderr().lock().write_all(escape(&shortened(&String::from_utf8_lossy(bytes))).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _nobody_reads = io::stderr().flush();
        Ok(())
    }
}

/// Prints the help, or what is wrong with the command line; the exit status.
pub fn command_line(error: &clap::Error) -> i32 {
    // Arguments are the only data in it.
    let hostile = std::env::args_os()
        .any(|argument| argument.len() > LINE_MOST || argument.to_string_lossy().contains(is_control));
    if hostile {
        say(without_styles(&error.render().ansi().to_string()).trim_end());
        return error.exit_code();
    }
    if output_was_closed() && !error.use_stderr() {
        say("ebb: cannot write to standard output: it is closed");
        return 1;
    }
    match error.print().and_then(|()| io::stdout().flush()) {
        Err(failed) if !error.use_stderr() && failed.kind() != ErrorKind::BrokenPipe => {
            say(&format!("ebb: cannot write to standard output: {failed}"));
            1
        }
        // On standard error there is nobody left to tell.
        _ => error.exit_code(),
    }
}

/// `text` without sequences that set a colour (SGR).
fn without_styles(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m') {
            Some(rest) => plain.push_str(rest),
            None => plain.extend(["\u{1b}[", piece]),
        }
    }
    plain
}

/// From now on a panic, which is a mistake of the program, is told like everything else.
pub fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        say(&format!("ebb: this is a mistake in ebb: {panic}"));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            say(&backtrace.to_string());
        }
    }));
}

/// Passes on what a guest's own programs print.
///
/// # Errors
/// When it cannot be written.
pub fn pass_on(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Output => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        }
        Stream::Errors => io::stderr().lock().write_all(bytes),
    }
}

/// Standard output for a conversation with another program.
pub fn to_program() -> impl Write + Send + 'static {
    io::stdout()
}
