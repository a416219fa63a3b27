//! Running programs: argument vectors only, never a shell; errors show the command and what it said.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a program left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; nothing when a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, invalid UTF-8 replaced.
    pub stderr: String,
}

impl Output {
    /// Standard output as text, invalid UTF-8 replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }
}

/// A program that could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum CommandError {
    /// Not installed, or not on the path.
    #[error("`{0}` is not installed")]
    Missing(String),
    /// It could not be started.
    #[error("`{command}` could not be started: {why}")]
    Start { command: String, why: String },
}

/// Runs programs. Tests answer with recorded outputs.
pub trait Runner {
    /// Runs `program` with `arguments` and `input`, at most some KiB, on its standard input, and waits for it.
    ///
    /// # Errors
    /// When it cannot be started; a non-zero exit status is not an error here.
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError>;

    /// Runs `program` with `file` as its standard input, which it can open again as /proc/self/fd/0.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with).
    fn run_on(&self, program: &str, _arguments: &[&str], _file: &File) -> Result<Output, CommandError> {
        Err(CommandError::Missing(program.to_owned()))
    }

    /// Told once when something that failed is tried again for at most `left`: why, in words.
    fn waits(&self, _why: &str, _left: Duration) {}

    /// [`run_with`](Self::run_with) an empty standard input.
    ///
    /// # Errors
    /// As there.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, CommandError> {
        self.run_with(program, arguments, b"")
    }
}

/// Where administration tools are, which is not on everybody's path.
const ADMIN_PLACES: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// Whether `program` is where [`Real`] finds it: in a directory of `PATH`, or in one of root's.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(std::env::split_paths(ADMIN_PLACES))
        .any(|directory| directory.join(program).is_file())
}

/// Runs programs for real, in the C locale.
#[derive(Debug, Clone, Copy, Default)]
pub struct Real;

impl Real {
    fn start(program: &str, arguments: &[&str], stdin: Stdio, input: &[u8]) -> Result<Output, CommandError> {
        let path = std::env::var("PATH").unwrap_or_default();
        let child = Command::new(program)
            .args(arguments)
            .env("LC_ALL", "C")
            .env("PATH", format!("{path}:{ADMIN_PLACES}"))
            // A journal's lock is inherited on purpose, and LVM would complain about it.
            .env("LVM_SUPPRESS_FD_WARNINGS", "1")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends this program in its own order; it must not end an mdadm in the middle of its work.
            .process_group(0)
            .spawn();
        let output = child.and_then(|mut child| {
            if let Some(mut stdin) = child.stdin.take() {
                // A program that ends without reading it says why itself.
                let _ = stdin.write_all(input);
            }
            bounded(child)
        });
        match output {
            Ok(done) => Ok(Output {
                status: done.status.code(),
                stdout: done.stdout,
                stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(CommandError::Missing(program.to_owned()))
            }
            Err(e) => Err(CommandError::Start {
                command: Shown(program, arguments).to_string(),
                why: e.to_string(),
            }),
        }
    }
}

/// Most bytes of each stream of a program that are kept: what is read of programs has some hundred KiB.
const SAID_MOST: u64 = 64 << 20;

/// Waits for `child`, which is killed where it prints more than [`SAID_MOST`].
fn bounded(mut child: Child) -> io::Result<process::Output> {
    fn take(stream: Option<impl Read>) -> io::Result<(Vec<u8>, bool)> {
        let mut said = Vec::new();
        let Some(stream) = stream else { return Ok((said, false)) };
        stream.take(SAID_MOST + 1).read_to_end(&mut said)?;
        let is_more = said.len() as u64 > SAID_MOST;
        Ok((said, is_more))
    }
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    let child = Mutex::new(child);
    // Killed at once where one of the two has no end: the other may be waited for.
    let kept = |stream: io::Result<(Vec<u8>, bool)>| {
        let (said, is_more) = stream?;
        if is_more {
            child.lock().unwrap_or_else(PoisonError::into_inner).kill()?;
            return Err(io::Error::other(format!("it printed more than {SAID_MOST} bytes, and was ended")));
        }
        Ok(said)
    };
    let (stdout, stderr) = std::thread::scope(|scope| {
        let errors = scope.spawn(|| kept(take(errors)));
        let stdout = kept(take(out));
        (stdout, errors.join().unwrap_or_else(|_| Err(io::Error::other("a thread broke"))))
    });
    let status = child.lock().unwrap_or_else(PoisonError::into_inner).wait()?;
    Ok(process::Output { status, stdout: stdout?, stderr: stderr? })
}

impl Runner for Real {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
        Real::start(program, arguments, stdin, input)
    }

    fn run_on(&self, program: &str, arguments: &[&str], file: &File) -> Result<Output, CommandError> {
        let stdin = file.try_clone().map_err(|error| CommandError::Start {
            command: Shown(program, arguments).to_string(),
            why: error.to_string(),
        })?;
        Real::start(program, arguments, Stdio::from(stdin), b"")
    }
}

/// Runs nothing: every program is missing. For recorded hosts, where asking this host would be a lie.
#[derive(Debug, Clone, Copy, Default)]
pub struct Never;

impl Runner for Never {
    fn run_with(&self, program: &str, _: &[&str], _: &[u8]) -> Result<Output, CommandError> {
        Err(CommandError::Missing(program.to_owned()))
    }
}

/// A program and its arguments as one line to read.
pub struct Shown<'a>(pub &'a str, pub &'a [&'a str]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        self.1.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// Characters of what a program said that are told: some go on with all their options.
const SAID_MAX: usize = 300;

/// Words of the lines that say why a program failed.
const DECIDES: [&str; 36] = [
    "abort",
    "already",
    "busy",
    "can't",
    "cannot",
    "contain",
    "could not",
    "denied",
    "error",
    "exist",
    "expected",
    "fail",
    "has no",
    "illegal",
    "in use",
    "incorrect",
    "invalid",
    "is mounted",
    "is not",
    "missing",
    "must",
    "no device",
    "no key",
    "no space",
    "no such",
    "not enough",
    "not found",
    "not permitted",
    "read-only",
    "refus",
    "required",
    "too ",
    "unable",
    "unknown",
    "unrecognized",
    "unsupported",
];

/// How lines begin that stand beside the reason, behind the name of the program: advice, and what did not end it.
const BESIDE: [&str; 10] =
    ["check ", "defaulting", "hint", "note", "proceed", "run `", "see ", "try ", "use the", "warning"];

/// What a program that failed said, in short: the line that decides, then the others in their order.
pub fn said(stderr: &str, stdout: &str) -> String {
    let mut lines: Vec<(u8, String)> = Vec::new();
    for text in [stderr, stdout] {
        let mut is_usage = false;
        for line in text.lines() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            is_usage |= line.to_ascii_lowercase().starts_with("usage");
            if !line.is_empty() {
                lines.push((if is_usage { 2 } else { rank(&line) }, line));
            }
        }
    }
    if let Some(at) = (0..lines.len()).min_by_key(|at| lines[*at].0) {
        lines[..=at].rotate_right(1);
    }
    let said = lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join(" / ");
    match said.char_indices().nth(SAID_MAX) {
        Some((end, _)) => format!("{}...", said.get(..end).unwrap_or_default()),
        None => said,
    }
}

/// The less, the more a line says why a program failed.
fn rank(line: &str) -> u8 {
    let line = line.to_ascii_lowercase();
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let version = words.next().unwrap_or_default().trim_start_matches('v');
    // Such as `mke2fs 1.47.0 (5-Feb-2023)`.
    let is_banner = version.starts_with(|sign: char| sign.is_ascii_digit())
        && version.contains('.')
        && words.count() <= 1;
    let told =
        line.strip_prefix(program).filter(|_| program.ends_with(':')).map_or(line.as_str(), str::trim_start);
    if is_banner
        || [line.as_str(), told].iter().any(|line| BESIDE.iter().any(|begin| line.starts_with(begin)))
    {
        return 2;
    }
    u8::from(!DECIDES.iter().any(|word| line.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_decides_comes_first() {
        // As e2fsprogs 1.47, xfsprogs 6.1, btrfs-progs 6.2, mdadm 4.2, lvm2 2.03 and util-linux 2.38 say it.
        for (stderr, stdout, decides) in [
            (
                "mke2fs 1.47.0 (5-Feb-2023)\n/dev/md0 is mounted; will not make a filesystem here!\n",
                "",
                "/dev/md0 is mounted",
            ),
            (
                "\nWarning: RAID stripe-width 12 not an even multiple of stride 8.\n\n\nFilesystem too small for a journal\n",
                "\n",
                "Filesystem too small",
            ),
            (
                "Warning: could not erase sector 2: Input/output error\nmkfs.ext4: Input/output error while writing out and closing file system\nNote: more\n",
                "Creating filesystem\n",
                "mkfs.ext4: Input/output error",
            ),
            (
                "f: Not enough space to build proposed filesystem while setting up superblock",
                "",
                "f: Not enough space",
            ),
            (
                "size 256 of data subvolume is too small, minimum 4096 blocks\nUsage: mkfs.xfs\n<devicename> is required\n",
                "",
                "size 256 of data",
            ),
            ("Size 7 is odd\nUsage: mkfs.xfs\n<devicename> is required\n", "", "Size 7 is odd"),
            (
                "mkfs.xfs: f appears to contain an existing filesystem (ext4).\nmkfs.xfs: Use the -f option to force overwrite.\n",
                "",
                "mkfs.xfs: f appears",
            ),
            (
                "ERROR: probe of /x failed, cannot detect existing filesystem\nWARNING: cannot read superblock on /x\nERROR: use the -f option\n",
                "btrfs-progs v6.2\nSee http://btrfs.wiki.kernel.org for more information.\n",
                "ERROR: probe of /x failed",
            ),
            (
                "mdadm: Defaulting to version 1.2 metadata\nmdadm: RUN_ARRAY failed: Invalid argument\n",
                "",
                "mdadm: RUN_ARRAY failed",
            ),
            (
                "  WARNING: Failed to connect to lvmetad.\n  No device found for /dev/loop99.\n",
                "",
                "No device found",
            ),
            (
                "resize2fs 1.47.0 (5-Feb-2023)\nopen: No such file or directory while opening /x\n",
                "",
                "open: No such file",
            ),
            ("", "only this\n", "only this"),
            ("one\ntwo", "", "one"),
        ] {
            let said = said(stderr, stdout);
            assert!(said.starts_with(decides), "{decides}: {said}");
            let all = |text: &str| {
                text.split_whitespace().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(all(&said.replace(" / ", " ")), all(&format!("{stderr}\n{stdout}")), "{decides}");
        }
        assert_eq!(said("", "\n"), "");
    }

    #[test]
    fn what_a_program_said_is_told_in_short() {
        let usage = format!(
            "Log size must be at least 64MB.\nUsage: mkfs.xfs\n/* blocksize */\t\t[-b size=num]{}",
            "\n\u{e9}".repeat(999)
        );
        let told = said("", &usage);
        assert!(told.starts_with(
            "Log size must be at least 64MB. / Usage: mkfs.xfs / /* blocksize */ [-b size=num] / "
        ));
        assert!(told.ends_with("...") && told.chars().count() == SAID_MAX + 3, "{told}");
        let long = format!("a note\n{} is busy", "x".repeat(999));
        assert!(said(&long, "").starts_with("xxx") && said(&long, "").chars().count() == SAID_MAX + 3);
        assert_eq!(said("busy", " out\n"), "busy / out");
    }

    #[test]
    fn arguments_reach_the_program_unparsed() {
        let said = Real.run("printf", &["%s|", "a b", "$HOME", "*"]).expect("printf runs");
        assert_eq!((said.status, said.text().as_ref()), (Some(0), "a b|$HOME|*|"));
    }

    #[test]
    fn input_reaches_the_program_to_its_end() {
        let said = Real.run_with("cat", &[], b"a key\n\0").expect("cat runs");
        assert_eq!(said.stdout, b"a key\n\0");
        assert_eq!(Real.run("cat", &[]).expect("cat runs").stdout, b"");
        assert_eq!(Real.run_with("true", &[], b"not read").expect("true runs").status, Some(0));
    }

    #[test]
    fn a_program_that_prints_without_an_end_is_ended() {
        for arguments in [["-c", "exec cat /dev/zero"], ["-c", "exec cat /dev/zero >&2"]] {
            let error = Real.run("sh", &arguments).expect_err("has no end").to_string();
            assert!(error.contains("printed more than"), "{error}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Real.run("ebb-no-such-program", &[]).expect_err("missing");
        assert_eq!(error.to_string(), "`ebb-no-such-program` is not installed");
    }
}
