//! The test programs, which cargo builds. It would run them one after the other, and most of them wait much of the time.

use crate::purity::PURE;
use crate::run::{Step, cargo, processors, words};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that judge figures of real time.
const IN_REAL_TIME: [&str; 2] = ["real_time", "timing"];
/// Programs that take long, which begin first.
const LONG: [&str; 3] = ["program", "ebbtide-figures", "ebbtide_host"];

/// Programs that cargo runs only where it is told their names.
const BY_NAME: [&str; 2] = ["browser", "lab"];

/// A test program.
struct Program {
    /// The name of the file in `tests`; of unit tests, that of their library or program.
    name: String,
    /// Where the package is, in which its tests run.
    directory: PathBuf,
    file: String,
}

/// What cargo has built.
pub struct Tests(Vec<Program>);

impl Tests {
    /// Builds what `targets` says in cargo's words, each with all features of the workspace: of one package alone, its dependencies
    /// would have others, and be built once more.
    ///
    /// # Errors
    /// When it cannot be built, or cargo says of it what nobody expects.
    pub fn build(targets: &[&str]) -> Result<Tests, String> {
        let mut programs = Vec::new();
        for targets in targets {
            println!("== build of tests: {targets}");
            let arguments =
                format!("test --workspace {targets} --no-run --message-format=json-render-diagnostics");
            let built = Command::new(cargo())
                .args(words(&arguments))
                .stderr(Stdio::inherit())
                .output()
                .map_err(|error| format!("cannot start cargo: {error}"))?;
            if !built.status.success() {
                return Err(format!("cargo {arguments} ended with {}", built.status));
            }
            programs.extend(String::from_utf8_lossy(&built.stdout).lines().filter_map(Program::read));
        }
        if programs.is_empty() { Err("cargo names no test program".to_owned()) } else { Ok(Tests(programs)) }
    }

    /// A step for each program that judges figures of real time: ahead of other programs, where it may.
    pub fn in_real_time(&self) -> Vec<Step> {
        IN_REAL_TIME.iter().flat_map(|name| self.named(name, "")).map(Step::ahead).collect()
    }

    /// A step for each other program that cargo tests without being told its name, the longest first: those that compute, and those that
    /// wait much of the time for programs that they start.
    pub fn plain(&self) -> (Vec<Step>, Vec<Step>) {
        let by_name = [&BY_NAME[..], &IN_REAL_TIME].concat();
        let mut programs: Vec<_> =
            self.0.iter().filter(|program| !by_name.contains(&&*program.name)).collect();
        programs
            .sort_by_key(|program| LONG.iter().position(|long| *long == program.name).unwrap_or(LONG.len()));
        let (compute, wait): (Vec<_>, Vec<_>) = programs.into_iter().partition(|program| program.is_pure());
        let arguments = format!("--test-threads {}", 2 * processors());
        let steps =
            |programs: Vec<&Program>| programs.into_iter().map(|program| program.step(&arguments)).collect();
        (steps(compute), steps(wait))
    }

    /// The programs with this name, given these arguments.
    pub fn named(&self, name: &str, arguments: &str) -> Vec<Step> {
        self.0.iter().filter(|program| program.name == name).map(|program| program.step(arguments)).collect()
    }
}

impl Program {
    /// The program that a message of cargo's tells of, if it is a test.
    fn read(message: &str) -> Option<Program> {
        let message: Value = serde_json::from_str(message).ok()?;
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let tests = message["profile"]["test"].as_bool()?;
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let file = word(&message["executable"]).filter(|_| tests)?;
        Some(Program { name: word(&message["target"]["name"])?, directory, file })
    }

    fn is_pure(&self) -> bool {
        PURE.iter().any(|name| self.directory.ends_with(name))
    }

    /// Runs it as cargo does.
    fn step(&self, arguments: &str) -> Step {
        let place = self.directory.file_name().unwrap_or_default().to_string_lossy();
        Step::new(&format!("{place}, {}", self.name), &self.file, &words(arguments))
            .in_directory(&self.directory)
            .with(("CARGO_MANIFEST_DIR", &self.directory.to_string_lossy()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_s_messages_name_the_programs() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/app/Cargo.toml","target":{"kind":["test"],"name":"door"},"profile":{"test":true},"executable":"/w/target/debug/deps/door-1"}"#;
        let program = Program::read(message).unwrap();
        assert_eq!(program.name, "door");
        assert_eq!(
            (&*program.directory, &*program.file),
            (Path::new("/w/crates/app"), "/w/target/debug/deps/door-1")
        );
        assert!(Program::read(&message.replace("true", "false")).is_none(), "a program that is no test");
        assert!(Program::read(r#"{"reason":"build-finished","success":true}"#).is_none());
    }
}
