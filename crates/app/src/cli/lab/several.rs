//! One command in several guests on a private network.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::laboratory;
use crate::views;
use ebbtide_lab::LabError;
use ebbtide_lab::guest::{Finished, Guest, Stream};
use ebbtide_lab::lines::Lines;
use ebbtide_lab::machine::Machine;
use ebbtide_lab::network::{self, Network, Place};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::process::ExitCode;

/// Name of guest `number`, from 1.
fn name(number: u8) -> String {
    format!("guest{number}")
}

/// Starts `count` guests like `machine`, runs `command` in all of them at once, ends them when all are done. The exit
/// status is the first that is not 0.
pub(super) fn run(
    machine: &Machine,
    count: u8,
    command: &[OsString],
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let laboratory = laboratory::open(globals.quiet)?;
    let network = Network::default();
    let mut guests = Vec::new();
    for number in 1..=count {
        let place = Place { network: network.clone(), number };
        let machine =
            Machine { name: format!("{}-{number}", machine.name), place: Some(place), ..machine.clone() };
        let mut guest = laboratory.boot(&machine)?;
        set_up(&mut guest, number, count)?;
        guests.push(guest);
    }
    let results: Vec<Result<Finished, LabError>> = std::thread::scope(|scope| {
        let running: Vec<_> = (1..=count)
            .zip(&mut guests)
            .map(|(number, guest)| scope.spawn(move || run_in(guest, number, command, globals.json())))
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(Err(LabError::ThreadDied))).collect()
    });
    let results: Vec<Finished> = results.into_iter().collect::<Result<_, _>>()?;
    if globals.json() {
        let each: Vec<_> = (1..=count)
            .zip(results.iter().zip(&guests))
            .map(|(number, (finished, guest))| {
                let mut value = json!({ "guest": name(number), "address": network::address(number) });
                tell(finished, guest, &mut value);
                value
            })
            .collect();
        views::print_json(&json!({ "schema": "ebbtide.lab-runs/1", "guests": each }))?;
    }
    Ok(status(results.iter().map(|finished| finished.status).find(|status| *status != 0).unwrap_or(0)))
}

/// The exit status of a command in a guest as our own.
pub(super) fn status(of_command: i32) -> ExitCode {
    ExitCode::from(u8::try_from(of_command).unwrap_or(1))
}

/// Adds to `value` what became of a command in `guest`.
pub(super) fn tell(finished: &Finished, guest: &Guest, value: &mut Value) {
    value["status"] = finished.status.into();
    value["stdout"] = String::from_utf8_lossy(&finished.output).into();
    value["stderr"] = String::from_utf8_lossy(&finished.errors).into();
    value["boot_seconds"] = guest.boot.as_secs_f64().into();
}

/// Gives guest `number` its name and its address, and tells it the others'.
fn set_up(guest: &mut Guest, number: u8, count: u8) -> Result<(), CliError> {
    let hosts: String =
        (1..=count).map(|other| format!("{} {}\n", network::address(other), name(other))).collect();
    let script = format!(
        "hostname {}; cat >>/etc/hosts; ip address add {}/24 dev eth0; ip link set eth0 up",
        name(number),
        network::address(number)
    );
    let done = guest.capture(&["bash", "-ec", &script], hosts.as_bytes())?;
    if done.status == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.errors);
    Err(CliError::Failed(format!("the network of {} cannot be set up: {}", name(number), said.trim())))
}

/// Runs `command` in a guest: keeps what it says, or prints each line after the guest's name.
fn run_in(guest: &mut Guest, number: u8, command: &[OsString], keep: bool) -> Result<Finished, LabError> {
    if keep {
        return guest.capture(command, &[]);
    }
    let mut lines = [Lines::default(), Lines::default()];
    let status = guest.run(command, &[], &mut |stream, bytes| {
        let lines = &mut lines[stream as usize];
        lines.add(bytes);
        while let Some(line) = lines.next_line() {
            print_line(number, stream, &line);
        }
    })?;
    for (stream, lines) in [Stream::Output, Stream::Errors].into_iter().zip(lines) {
        let rest = lines.rest();
        if !rest.is_empty() {
            print_line(number, stream, &rest);
        }
    }
    Ok(Finished { status, ..Finished::default() })
}

/// Prints a line in one piece. Who closes the pipe does not want to know.
fn print_line(number: u8, stream: Stream, line: &[u8]) {
    let mut text = format!("{}: ", name(number)).into_bytes();
    text.extend(line);
    text.push(b'\n');
    let _ = views::pass_on(stream, &text);
}
