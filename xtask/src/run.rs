//! Running programs one after the other, each announced by a line.

use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Instant;

/// A program with its arguments and a name for people.
pub struct Step {
    name: &'static str,
    program: String,
    arguments: Vec<String>,
    variable: Option<(&'static str, String)>,
}

impl Step {
    /// Runs `program`, whatever it is.
    pub fn new(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        Step {
            name,
            program: program.to_owned(),
            arguments: arguments.iter().map(|s| (*s).to_owned()).collect(),
            variable: None,
        }
    }

    /// The same with a variable of the environment.
    pub fn with(self, (name, value): (&'static str, &str)) -> Self {
        Step { variable: Some((name, value.to_owned())), ..self }
    }

    /// The cargo that runs this xtask, with these words.
    pub fn cargo(name: &'static str, arguments: &str) -> Self {
        Self::new(name, &cargo(), &words(arguments))
    }

    /// The same when nothing else wants a processor.
    pub fn idle(self) -> Self {
        let arguments = ["-n", "19", &self.program].map(str::to_owned).into_iter().chain(self.arguments);
        Step { program: "nice".to_owned(), arguments: arguments.collect(), ..self }
    }

    fn run(&self) -> Result<(), String> {
        println!("{}", self.begins());
        let start = Instant::now();
        let status = self.command().status().map_err(|error| self.cannot_start(&error))?;
        self.judge(status)?;
        println!("{}", self.took(start));
        Ok(())
    }

    /// The same beside other steps: what it says comes when it has ended.
    fn run_beside(&self) -> Result<(), String> {
        let start = Instant::now();
        let output =
            self.command().stdin(Stdio::null()).output().map_err(|error| self.cannot_start(&error))?;
        let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        println!("{}\n{}{}", self.begins(), String::from_utf8_lossy(&said), self.took(start));
        self.judge(output.status)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.variable.clone());
        command
    }

    fn begins(&self) -> String {
        format!("== {}: {} {}", self.name, self.program, self.arguments.join(" "))
    }

    fn took(&self, start: Instant) -> String {
        format!("== {}: {:.0} s", self.name, start.elapsed().as_secs_f64())
    }

    fn cannot_start(&self, error: &std::io::Error) -> String {
        format!("{}: cannot start {}: {error}", self.name, self.program)
    }

    fn judge(&self, status: ExitStatus) -> Result<(), String> {
        match status.success() {
            true => Ok(()),
            false => Err(format!("{}: {} ended with {status}", self.name, self.program)),
        }
    }
}

/// Runs `shown`, and the steps beside it one after the other, to the end of both.
pub fn run_both(shown: impl FnOnce() -> Result<(), String>, beside: &[Step]) -> Result<(), String> {
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| beside.iter().try_for_each(Step::run_beside));
        let shown = shown();
        shown.and(beside.join().unwrap_or_else(|_| Err("the thread of a step broke".to_owned())))
    })
}

/// Runs `steps` in order and stops at the first that fails.
pub fn run_all(steps: &[Step]) -> Result<(), String> {
    steps.iter().try_for_each(Step::run)
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
