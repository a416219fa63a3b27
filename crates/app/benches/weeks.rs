//! What years of canaries of many volumes cost to read: `cargo bench -p ebbtide --bench weeks [VOLUMES] [FILE]`.
//!
//! Writes a store with two years of made-up passes over 200 volumes on 25 hosts, all seven measures, correlated and with a daily cycle, hour
//! by hour and then 35 days of quarters of an hour; every eighth volume loses 60% of its seeks at some time, and hosts are started again
//! every other month. A FILE is kept, and read where it exists. Prints how long the program takes for its commands and pages, processes and connections included.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::print_stdout)] // a bench has a clock and prints

use ebbtide_model::monitor::events::VolumeContext;
use ebbtide_model::monitor::{Measure, Pass, Watched};
use ebbtide_model::units::UnixTime;
use ebbtide_runner::store::{HOURS_DAYS, SINGLE_DAYS, Store};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const EBB: &str = env!("CARGO_BIN_EXE_ebb");
const DAY_S: u64 = 86_400;
const BEGIN: u64 = 1_700_006_400;
/// Correlation of a pass with the one before.
const CORRELATION: f64 = 0.5;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) as f64 / u64::MAX as f64
    }

    /// Near enough to a standard normal: the sum of twelve uniforms.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// All passes over the volume `number`.
fn passes(number: u64) -> Vec<Pass> {
    let mut random = Random(number);
    let single_from = BEGIN + HOURS_DAYS * DAY_S;
    let falls_at = BEGIN + (200 + number % 400) * DAY_S;
    let hours = (0..HOURS_DAYS * 24).map(|hour| BEGIN + hour * 3600);
    let quarters = (0..SINGLE_DAYS * 96).map(|quarter| single_from + quarter * 900);
    let mut state = [0.0; Measure::ALL.len()];
    let of = |at: u64| {
        let cycle = 0.05 * (std::f64::consts::TAU * at as f64 / DAY_S as f64).sin();
        let fallen = if number % 8 == 3 && at >= falls_at { 0.4 } else { 1.0 };
        let values = Measure::ALL.iter().zip(&mut state).map(|(&measure, state)| {
            *state = CORRELATION * *state + (1.0 - CORRELATION * CORRELATION).sqrt() * random.normal();
            let level = match measure {
                Measure::Seeks => 2140.0 * fallen,
                Measure::Throughput => 1.2e8,
                Measure::LoadThroughput => 4e6,
                Measure::LoadWait => 0.002,
                Measure::VolumeExceeded | Measure::InstanceExceeded => 0.01,
                Measure::LoadIops => 300.0,
            };
            (measure, level * (0.06 * *state + cycle).exp())
        });
        let boot = (at - BEGIN + number / 8 * DAY_S) / (60 * DAY_S);
        let host = format!("h{}", number / 8);
        // Once a day is enough for what happens every other month.
        let found =
            || VolumeContext { host: host.clone(), boot: Some(boot.to_string()), ..VolumeContext::default() };
        let found = at.is_multiple_of(DAY_S).then(found);
        let volume =
            Watched { id: format!("vol-{number:05}"), name: format!("nvme{}n1", 1 + number % 8), host };
        Pass { volume, at: UnixTime::from_secs(at), values: values.collect(), counted: None, found }
    };
    hours.chain(quarters).map(of).collect()
}

/// Most memory that process `id` has had, in MB.
fn most_memory(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1000)
}

fn timed(what: &str, work: impl FnOnce() -> Result<String, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let said = work()?;
    println!("{what}: {:.2} s, {said}", start.elapsed().as_secs_f64());
    Ok(())
}

fn command(store: &Path, words: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new(EBB).args(words).arg("--store").arg(store).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(format!("{} lines", String::from_utf8(output.stdout)?.lines().count()))
}

/// `ebb serve`, ended when it is dropped.
struct Serving(Child, String);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    fn start(store: &Path) -> Result<Serving, Box<dyn Error>> {
        let mut child = Command::new(EBB)
            .args(["serve", "--quiet", "--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().ok_or("no output")?).read_line(&mut url)?;
        let host = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(Serving(child, host))
    }

    fn get(&self, path: &str) -> Result<String, Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.1)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.1)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if !answer.starts_with("HTTP/1.1 200 ") {
            return Err(answer.into());
        }
        Ok(format!("{:.2} MB", answer.len() as f64 / 1e6))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let volumes = arguments.first().map_or(Ok(200u64), |number| number.parse())?;
    let directory = tempfile::tempdir_in("/var/tmp")?;
    let path = arguments.get(1).map_or_else(|| directory.path().join("store.sqlite"), PathBuf::from);
    if !path.exists() {
        let start = Instant::now();
        let mut store = Store::open(Some(&path))?;
        for number in 0..volumes {
            store.add_passes(&passes(number))?;
        }
        let (bytes, took) = (std::fs::metadata(&path)?.len() as f64, start.elapsed().as_secs_f64());
        println!("{volumes} volumes, {HOURS_DAYS} days: {:.0} MB, written in {took:.0} s", bytes / 1e6);
    }
    timed("ebb monitor changes", || command(&path, &["monitor", "changes"]))?;
    timed("ebb monitor changes nvme4n1", || command(&path, &["monitor", "changes", "nvme4n1"]))?;
    timed("ebb monitor status", || command(&path, &["monitor", "status"]))?;
    let serving = Serving::start(&path)?;
    for page in ["/volumes", "/volumes", "/volume?id=vol-00003", "/volume?id=vol-00003&weeks=all", "/metrics"]
    {
        timed(&format!("ebb serve, {page}"), || serving.get(page))?;
    }
    if let Some(memory) = most_memory(serving.0.id()) {
        println!("ebb serve: {memory} MB of memory at most");
    }
    Ok(())
}
