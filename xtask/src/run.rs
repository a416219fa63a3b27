//! Running programs one after the other or side by side, each announced by a line.

use crate::packages;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// A program with its arguments and a name for people.
pub struct Step {
    name: String,
    command: Vec<String>,
    variables: Vec<(&'static str, String)>,
    directory: PathBuf,
}

impl Step {
    /// Runs `program`, whatever it is.
    pub fn new(name: &str, program: &str, arguments: &[&str]) -> Self {
        let command = [program].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        Step { name: name.to_owned(), command, variables: Vec::new(), directory: PathBuf::from(".") }
    }

    /// The same with a variable of the environment.
    pub fn with(mut self, (name, value): (&'static str, &str)) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// The same in another directory.
    pub fn in_directory(self, directory: &Path) -> Self {
        Step { directory: directory.to_owned(), ..self }
    }

    /// The cargo that runs this xtask, with these words.
    pub fn cargo(name: &str, arguments: &str) -> Self {
        Self::new(name, &cargo(), &words(arguments))
    }

    /// The same behind all other programs.
    pub fn behind(self) -> Self {
        self.under(&["nice", "-n19"])
    }

    /// The same ahead of all other programs, where it may. `nice` would do it among the programs of one session only: the scheduler shares
    /// out processors among sessions first (`autogroup`, sched(7)). Its I/O is served among that of all others, which a real-time task's is
    /// else ahead of (`ionice`).
    pub fn ahead(self) -> Self {
        let ahead = ["chrt", "--rr", "1", "ionice", "--class", "best-effort"];
        if packages::is_root() { self.under(&ahead) } else { self }
    }

    fn under(mut self, command: &[&str]) -> Self {
        self.command.splice(0..0, command.iter().map(|word| (*word).to_owned()));
        self
    }

    fn run(&self) -> Result<(), String> {
        println!("{}", self.begins());
        let start = Instant::now();
        let status = self.command(&[]).status().map_err(|error| self.cannot_start(&error))?;
        self.judge(status)?;
        println!("{}", self.took(start));
        Ok(())
    }

    /// The same beside other steps: what it says comes when it has ended, in one piece. It goes through a file: a pipe would have an end only when
    /// all that the step has left behind has ended, too.
    fn run_beside(&self) -> Result<(), String> {
        println!("== {} begins", self.name);
        let start = Instant::now();
        let failed = |error| format!("{}: what it says cannot be kept: {error}", self.name);
        let file = tempfile::tempfile().map_err(failed)?;
        let [out, errors] = [file.try_clone().map_err(failed)?, file.try_clone().map_err(failed)?];
        let shell = ["sh", "-c", TIMED, "sh"].map(str::to_owned);
        let status = self.command(&shell).stdin(Stdio::null()).stdout(out).stderr(errors).status();
        let status = status.map_err(|error| self.cannot_start(&error))?;
        let mut said = vec![0; file.metadata().map_err(failed)?.len() as usize];
        file.read_exact_at(&mut said, 0).map_err(failed)?;
        let said = String::from_utf8_lossy(&said);
        let (said, times) = said.trim_end().rsplit_once('\n').unwrap_or_default();
        println!("{}\n{said}\n{}, {:.0} s of a processor", self.begins(), self.took(start), seconds(times));
        self.judge(status)
    }

    /// The program, started by another where `before` says so.
    fn command(&self, before: &[String]) -> Command {
        let words: Vec<&String> = before.iter().chain(&self.command).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(self.variables.clone()).current_dir(&self.directory);
        command
    }

    fn begins(&self) -> String {
        format!("== {}: {}", self.name, self.command.join(" "))
    }

    fn took(&self, start: Instant) -> String {
        format!("== {}: {:.0} s", self.name, start.elapsed().as_secs_f64())
    }

    fn cannot_start(&self, error: &std::io::Error) -> String {
        format!("{}: cannot start {}: {error}", self.name, self.command[0])
    }

    fn judge(&self, status: ExitStatus) -> Result<(), String> {
        match status.success() {
            true => Ok(()),
            false => Err(format!("{}: {} ended with {status}", self.name, self.command.join(" "))),
        }
    }
}

/// Runs what it is given, says last what time processors had for that, and ends as it did.
const TIMED: &str = r#""$@"; status=$?; times; exit $status"#;

/// The seconds of a line of the shell's `times`, as in `1m2.50s 0m3.00s`.
fn seconds(times: &str) -> f64 {
    let one = |time: &str| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    };
    times.split_whitespace().filter_map(one).sum()
}

/// Runs `steps` in order and stops at the first that fails.
pub fn run_all(steps: &[Step]) -> Result<(), String> {
    steps.iter().try_for_each(Step::run)
}

/// Runs chains of steps, `at_once` of them at a time: the steps of a chain one after the other, whatever fails.
///
/// # Errors
/// All that failed.
pub fn run_beside(chains: Vec<Vec<Step>>, at_once: usize) -> Result<(), String> {
    let chain = |steps: Vec<Step>| steps.iter().filter_map(|step| step.run_beside().err()).collect();
    side_by_side(chains, at_once, chain)
}

/// Does `work` on each of `jobs` in their order, `at_once` at a time, and returns all of what it said is wrong.
///
/// # Errors
/// What is wrong, a line for each.
pub fn side_by_side<T: Send>(
    jobs: Vec<T>,
    at_once: usize,
    work: impl Fn(T) -> Vec<String> + Sync,
) -> Result<(), String> {
    let waiting = Mutex::new(jobs.into_iter());
    let next = || waiting.lock().ok()?.next();
    let worker = || std::iter::from_fn(next).flat_map(&work).collect::<Vec<_>>();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        let broke = |_| vec!["a thread that ran steps broke".to_owned()];
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(broke)).collect()
    });
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// How many processors there are.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Builds what cargo's arguments say, optimised, and returns the path of `program`.
///
/// # Errors
/// When it cannot be built.
pub fn built(what: &str, program: &str) -> Result<String, String> {
    run_all(&[Step::cargo("build", &format!("build --quiet --release {what}"))])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    Ok(format!("{target}/release/{program}"))
}

/// The words of a command line without quotes.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The cargo that runs this xtask.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs a program and returns what it printed.
///
/// # Errors
/// When it cannot be started, or ends with another status than 0: its command and what it said.
pub fn output(program: &str, arguments: &[impl AsRef<str>]) -> Result<String, String> {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let command = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(&arguments)
        .output()
        .map_err(|error| format!("{}: cannot start: {error}", command()))?;
    if !output.status.success() {
        return Err(format!("{}: {}: {}", command(), output.status, said(&output)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first lines of what a program that failed said.
pub fn said(output: &Output) -> String {
    let all = [output.stderr.as_slice(), output.stdout.as_slice()].concat();
    String::from_utf8_lossy(&all).lines().take(6).collect::<Vec<_>>().join("; ")
}
