//! Running programs: argument vectors only, never a shell; errors show the command and what it said.

mod remembering;

pub use remembering::Remembering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    /// It printed without an end, and was ended.
    #[error("`{command}` printed more than {most} bytes, and was ended")]
    Endless { command: String, most: u64 },
    /// It was ended before it had done what it was to do.
    #[error("`{command}` was ended: {why}")]
    GivenUp { command: String, why: GivenUp },
}

/// Why somebody is not waited for any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GivenUp {
    /// The user has stopped all of it.
    #[error("stopped")]
    Stopped,
    /// Nothing came of it for so many seconds.
    #[error("nothing came of it for {0} s")]
    Silent(u64),
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

    /// Told that what was asked before may have another answer by now, without a program that was run: something was waited for.
    fn forget(&self) {}

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

/// A running program, with what it may take.
fn start(
    program: &str,
    arguments: &[&str],
    (stdin, input): (Stdio, &[u8]),
    most: u64,
    given_up: Option<&mut dyn FnMut() -> Option<GivenUp>>,
) -> Result<Output, CommandError> {
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
    let output = child.map_err(Unheard::from).and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends without reading it says why itself.
            let _ = stdin.write_all(input);
        }
        let said = hear(&mut child, most, given_up);
        if said.is_err() {
            end_group(&mut child);
        }
        said
    });
    let command = || Shown(program, arguments).to_string();
    match output {
        Ok(done) => Ok(Output {
            status: done.status.code(),
            stdout: done.stdout,
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        }),
        Err(Unheard::Failed(e)) if e.kind() == io::ErrorKind::NotFound => {
            Err(CommandError::Missing(program.to_owned()))
        }
        Err(Unheard::Failed(e)) => Err(CommandError::Start { command: command(), why: e.to_string() }),
        Err(Unheard::Endless) => Err(CommandError::Endless { command: command(), most }),
        Err(Unheard::GivenUp(why)) => Err(CommandError::GivenUp { command: command(), why }),
    }
}

/// Most bytes of each stream of a program that are kept: what is read of programs has some hundred KiB.
const SAID_MOST: u64 = 64 << 20;
/// How long a program is waited for that was killed.
const LAST: Duration = Duration::from_secs(2);
/// How often it is asked whether a program is still waited for.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Why it is not known what a program said.
enum Unheard {
    Failed(io::Error),
    Endless,
    GivenUp(GivenUp),
}

impl From<io::Error> for Unheard {
    fn from(error: io::Error) -> Self {
        Unheard::Failed(error)
    }
}

/// Waits for the end of `child`, unless it prints more than `most` bytes on one of its streams, or is given up.
fn hear(
    child: &mut Child,
    most: u64,
    mut given_up: Option<&mut dyn FnMut() -> Option<GivenUp>>,
) -> Result<process::Output, Unheard> {
    let mut streams = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)]
        .map(|stream| stream.map(File::from));
    let mut said = [Vec::new(), Vec::new()];
    let mut piece = vec![0; 1 << 16];
    let mut patience =
        || given_up.as_mut().and_then(|given_up| given_up()).map_or(Ok(()), |why| Err(Unheard::GivenUp(why)));
    while streams.iter().any(Option::is_some) {
        patience()?;
        let ready = ready(&streams)?;
        for ((stream, said), _) in streams.iter_mut().zip(&mut said).zip(ready).filter(|(_, ready)| *ready) {
            let length = stream.as_mut().map_or(Ok(0), |stream| stream.read(&mut piece))?;
            said.extend_from_slice(&piece[..length]);
            if said.len() as u64 > most {
                return Err(Unheard::Endless);
            }
            if length == 0 {
                *stream = None;
            }
        }
    }
    let [stdout, stderr] = said;
    loop {
        // It closes its streams as it ends.
        if let Some(status) = child.try_wait()? {
            return Ok(process::Output { status, stdout, stderr });
        }
        patience()?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Which of `streams` have something to read, or have ended; none of them may, within a while.
fn ready(streams: &[Option<File>; 2]) -> io::Result<[bool; 2]> {
    let open = streams.iter().flatten();
    let mut asked: Vec<PollFd<'_>> = open.map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    match poll(&mut asked, Some(&TICK)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut said = asked.iter().map(|asked| !asked.revents().is_empty());
    Ok([0, 1].map(|stream: usize| streams[stream].is_some() && said.next() == Some(true)))
}

/// Ends `child`, which was started in a process group of its own, and whatever it started there.
pub fn end_group(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    // One that waits for a device that does not answer ends when that does; the system waits for it then.
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < LAST {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Runner for Real {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        start(program, arguments, (stdin_for(input), input), SAID_MOST, None)
    }

    fn run_on(&self, program: &str, arguments: &[&str], file: &File) -> Result<Output, CommandError> {
        start(program, arguments, (same(program, arguments, file)?.into(), b""), SAID_MOST, None)
    }
}

fn stdin_for(input: &[u8]) -> Stdio {
    if input.is_empty() { Stdio::null() } else { Stdio::piped() }
}

/// `file` once more, to be given away; who reads it moves the place in both.
fn same(program: &str, arguments: &[&str], file: &File) -> Result<File, CommandError> {
    file.try_clone().map_err(|error| CommandError::Start {
        command: Shown(program, arguments).to_string(),
        why: error.to_string(),
    })
}

/// How long somebody may let others wait who takes, byte by byte, what he is sent.
#[derive(Debug)]
pub struct Patience<'a> {
    stop: &'a AtomicBool,
    most: Duration,
    begun: Instant,
    moved: Instant,
    at: u64,
}

impl<'a> Patience<'a> {
    /// For so long nothing may move, and no longer than until `stop` is set.
    pub fn new(stop: &'a AtomicBool, most: Duration) -> Patience<'a> {
        let now = Instant::now();
        Patience { stop, most, begun: now, moved: now, at: 0 }
    }

    /// Whether it is over where `at` of `all` bytes have been taken.
    pub fn is_over(&mut self, at: u64, all: u64) -> Option<GivenUp> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(GivenUp::Stopped);
        }
        if at != self.at {
            (self.at, self.moved) = (at, Instant::now());
        }
        // The last of it may be in buffers on the way, which takes no longer than what went before.
        let on_the_way = if at >= all { self.moved - self.begun } else { Duration::ZERO };
        let is_over = self.moved.elapsed() > self.most + on_the_way;
        is_over.then_some(GivenUp::Silent(self.most.as_secs()))
    }
}

/// Runs programs that speak for another host, such as `ssh`: whatever is at the other end, they end in time, and what they say fits.
#[derive(Debug, Clone, Copy)]
pub struct Within<'a> {
    /// Ends them where it is set.
    pub stop: &'a AtomicBool,
    /// So long an answer may take; with a file, nothing of it may be taken for so long.
    pub patience: Duration,
    /// Most bytes of each of their streams.
    pub most: u64,
}

impl Runner for Within<'_> {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        let mut patience = Patience::new(self.stop, self.patience);
        let mut given_up = || patience.is_over(0, 0);
        start(program, arguments, (stdin_for(input), input), self.most, Some(&mut given_up))
    }

    fn run_on(&self, program: &str, arguments: &[&str], file: &File) -> Result<Output, CommandError> {
        let stdin = same(program, arguments, file)?;
        let all = file.metadata().map_or(0, |file| file.len());
        let (mut patience, mut place) = (Patience::new(self.stop, self.patience), file);
        let mut given_up = || patience.is_over(place.stream_position().unwrap_or(0), all);
        start(program, arguments, (stdin.into(), b""), self.most, Some(&mut given_up))
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

    /// `sh -c SCRIPT`, whose answer may take so long.
    fn within(stop: &AtomicBool, patience: Duration, script: &str) -> Result<Output, CommandError> {
        Within { stop, patience, most: 1 << 16 }.run("sh", &["-c", script])
    }

    const LONG: Duration = Duration::from_secs(1000);
    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn an_answer_of_another_host_is_bounded_in_bytes_and_in_time() {
        let go = AtomicBool::new(false);
        for script in ["exec cat /dev/zero", "exec cat /dev/zero >&2"] {
            let endless = within(&go, LONG, script).expect_err("has no end");
            assert!(matches!(endless, CommandError::Endless { most: 65_536, .. }), "{endless}");
        }
        // Silent; slow without an end; deaf to signals; with its streams closed; and one that leaves them to another.
        let slow = "while :; do echo x; sleep 0.05; done";
        for script in
            ["exec sleep 1000", slow, "trap '' TERM INT; sleep 1000; :", "exec >&- 2>&-; sleep 1000"]
        {
            let silent = within(&go, SHORT, script).expect_err(script);
            assert!(
                matches!(silent, CommandError::GivenUp { why: GivenUp::Silent(_), .. }),
                "{script}: {silent}"
            );
        }
        let left = within(&go, SHORT, "setsid sleep 5 & exit 0").expect_err("its streams stay open");
        assert!(matches!(left, CommandError::GivenUp { why: GivenUp::Silent(_), .. }), "{left}");
        assert_eq!(within(&go, LONG, "echo said").expect("answers").text(), "said\n");
    }

    #[test]
    fn whoever_is_given_up_is_gone_with_all_that_he_started() {
        let place = tempfile::tempdir().expect("a directory");
        let pid = place.path().join("pid");
        let script = format!("sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000'; :", pid.display());
        let stop = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let asked = scope.spawn(|| within(&stop, LONG, &script));
            while !pid.exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
            asked.join().expect("no panic")
        });
        assert!(matches!(ended, Err(CommandError::GivenUp { why: GivenUp::Stopped, .. })), "{ended:?}");
        let pid = std::fs::read_to_string(pid).expect("a number");
        let place = format!("/proc/{}", pid.trim());
        // An orphan that was killed is somebody else's to reap.
        let lives =
            || std::fs::read_to_string(format!("{place}/cmdline")).is_ok_and(|line| line.contains("sleep"));
        while lives() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_file_that_is_being_taken_is_waited_for_and_one_that_is_not_is_not() {
        let mut file = tempfile::tempfile().expect("a file");
        file.set_len(1000).expect("a length");
        let stop = AtomicBool::new(false);
        let asked = |script: &str| {
            Within { stop: &stop, patience: Duration::from_secs(3), most: 100 }.run_on(
                "sh",
                &["-c", script],
                &file,
            )
        };
        // Longer in all than it may stand still.
        let slow = "for n in 1 2 3 4 5 6 7 8; do dd bs=100 count=1 status=none >/dev/null; sleep 0.5; done; echo all";
        assert_eq!(asked(slow).expect("goes on").text(), "all\n");
        let still = {
            (&file).rewind().expect("rewinds");
            asked("dd bs=100 count=1 status=none >/dev/null; exec sleep 1000").expect_err("stands still")
        };
        assert!(matches!(still, CommandError::GivenUp { why: GivenUp::Silent(_), .. }), "{still}");
        file.rewind().expect("rewinds");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Real.run("ebb-no-such-program", &[]).expect_err("missing");
        assert_eq!(error.to_string(), "`ebb-no-such-program` is not installed");
    }
}
