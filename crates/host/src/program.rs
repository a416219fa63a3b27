//! This process's own program: which file it is, and how it is told from another build of the same version.

use crate::command::{CommandError, Runner};
use ebbtide_door::read;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What this process was started from, also when the file was replaced since. Under a loader that was named itself
/// (`ld.so PROGRAM`) it is the loader.
const STARTED: &str = "/proc/self/exe";
const MAPS: &str = "/proc/self/maps";
const MAPS_MAX: u64 = 64 << 20;

/// Which build of `ebb` a program is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Always [`Identity::SCHEMA`].
    pub schema: String,
    /// Version, as `ebb --version` says it.
    pub version: String,
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
}

impl Identity {
    /// What its JSON says it is.
    pub const SCHEMA: &str = "ebbtide.identity/1";

    /// Version and the first digits of the sum, for people.
    pub fn short(&self) -> String {
        format!("{} ({})", self.version, self.sha256.get(..12).unwrap_or(&self.sha256))
    }
}

/// Why it is not known which build this is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The program's own file cannot be found or read.
    #[error("the file of this program cannot be read: {0}")]
    File(#[from] io::Error),
    /// `sha256sum` cannot be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// `sha256sum` said something else than a sum.
    #[error("sha256sum said `{0}`, which is no sum")]
    NoSum(String),
}

/// Path of the file that this program is in. It leads to that file as long as this process runs.
///
/// # Errors
/// When /proc does not say.
pub fn own_file() -> io::Result<PathBuf> {
    let started = std::fs::read_link(STARTED)?;
    let maps = read::text(Path::new(MAPS), MAPS_MAX).map_err(io::Error::from)?;
    // A function of this program is in the program, whatever loads it.
    let inside = own_file as *const () as usize as u64;
    Ok(match mapped_at(&maps, inside) {
        Some(file) if file != started => file,
        _ => PathBuf::from(STARTED),
    })
}

/// This very program with these arguments, to be started.
///
/// # Errors
/// As [`own_file`].
pub fn own(arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(own_file()?);
    command.args(arguments);
    Ok(command)
}

/// The program and the first arguments that start what this process runs once more, also when its file was replaced since. Under a
/// loader that was named itself they are the loader and what it was told.
///
/// # Errors
/// When /proc does not say.
pub fn again() -> io::Result<(PathBuf, Vec<String>)> {
    let own = own_file()?;
    if own == Path::new(STARTED) {
        return Ok((own, Vec::new()));
    }
    let line = read::text(Path::new("/proc/self/cmdline"), MAPS_MAX).map_err(io::Error::from)?;
    let words: Vec<&str> = line.split('\0').collect();
    let at = words.iter().position(|word| Path::new(word) == own).unwrap_or(0);
    Ok((
        PathBuf::from(STARTED),
        words[1.min(at)..=at].iter().map(|&word| word.to_owned()).filter(|_| at > 0).collect(),
    ))
}

/// The file that `address` is mapped from, by a process's `maps`.
fn mapped_at(maps: &str, address: u64) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        let bound = |text: &str| u64::from_str_radix(text, 16).ok();
        let path = &line[line.find('/')?..];
        (bound(from)?..bound(to)?).contains(&address).then(|| PathBuf::from(path))
    })
}

/// Which build this process runs.
///
/// # Errors
/// See [`IdentityError`].
pub fn own_identity(runner: &dyn Runner) -> Result<Identity, IdentityError> {
    let file = read::open(&own_file()?)?;
    let said = runner.run_on("sha256sum", &[], &file)?;
    let text = said.text();
    let sum = text.split_whitespace().next().filter(|sum| is_sum(sum) && said.status == Some(0));
    let sum = sum.ok_or_else(|| IdentityError::NoSum(format!("{}{}", text.trim(), said.stderr.trim())))?;
    Ok(Identity {
        schema: Identity::SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: sum.to_owned(),
    })
}

/// Whether `text` is a SHA-256 in hexadecimal digits, as `sha256sum` writes it.
pub(crate) fn is_sum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Real;

    #[test]
    fn the_program_is_where_its_code_is_mapped_from() {
        let maps = "\
5581-5582 r--p 00000000 fe:00 12 /opt/my tools/ebb
5582-5583 r-xp 00001000 fe:00 12 /opt/my tools/ebb
7f04-7f05 r-xp 00001000 fe:00 14 /ebb/loader
7ffc-7ffd rw-p 00000000 00:00 0 [stack]
";
        assert_eq!(mapped_at(maps, 0x5582), Some(PathBuf::from("/opt/my tools/ebb")));
        assert_eq!(mapped_at(maps, 0x7f04), Some(PathBuf::from("/ebb/loader")));
        assert_eq!(mapped_at(maps, 0x5583), None);
        assert_eq!(mapped_at(maps, 0x7ffc), None);
    }

    #[test]
    fn the_sum_of_this_program_is_that_of_its_file() {
        let own = own_identity(&Real).expect("a sum");
        let file = std::env::current_exe().expect("a path");
        let said = Real.run("sha256sum", &[&file.to_string_lossy()]).expect("runs");
        assert!(said.text().starts_with(&own.sha256), "{own:?}, {}", said.text());
        assert!(own.short().starts_with(env!("CARGO_PKG_VERSION")) && own.short().len() < 30);
    }
}
