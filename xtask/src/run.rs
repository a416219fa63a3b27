//! Running programs one after the other, each announced by a line.

use std::process::Command;
use std::time::Instant;

/// A program with its arguments and a name for people.
pub struct Step {
    name: &'static str,
    program: String,
    arguments: Vec<String>,
    variable: Option<(&'static str, &'static str)>,
}

impl Step {
    /// Any program.
    pub fn new(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        Step {
            name,
            program: program.to_owned(),
            arguments: arguments.iter().map(|s| (*s).to_owned()).collect(),
            variable: None,
        }
    }

    /// The same with a variable of the environment.
    pub fn with(self, variable: (&'static str, &'static str)) -> Self {
        Step { variable: Some(variable), ..self }
    }

    /// The cargo that runs this xtask.
    pub fn cargo(name: &'static str, arguments: &[&str]) -> Self {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        Self::new(name, &cargo, arguments)
    }

    fn run(&self) -> Result<(), String> {
        println!("== {}: {} {}", self.name, self.program, self.arguments.join(" "));
        let start = Instant::now();
        let status = Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.variable)
            .status()
            .map_err(|error| format!("{}: cannot start {}: {error}", self.name, self.program))?;
        if !status.success() {
            return Err(format!("{}: {} ended with {status}", self.name, self.program));
        }
        println!("== {}: {:.0} s", self.name, start.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Runs `steps` in order and stops at the first that fails.
pub fn run_all(steps: &[Step]) -> Result<(), String> {
    steps.iter().try_for_each(Step::run)
}
