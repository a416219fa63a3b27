//! A guest that runs.

use super::disks::{Access, DISKS_MAX, Disk};
use super::frame::{self, Frame, LENGTH_MAX};
use super::guest_directory::GuestDirectory;
use super::machine::{self, Accelerator, Boot, Machine, Use};
use super::network::Socket;
use super::{LabError, Laboratory, tools};
use ebbtide_door::{own, read};
use ebbtide_model::backend::Control;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a guest may take to be ready; under software emulation on a busy host it took up to 12 s.
const BOOT_PATIENCE: Duration = Duration::from_secs(180);
/// How often a stop is listened for.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The two streams that a program in the guest writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// What is heard from a program in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Output of the program, as it came.
    Said(Stream, Vec<u8>),
    /// It ended with this status; 128 and the signal's number when a signal ended it.
    Ended(i32),
}

/// What a program in the guest left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finished {
    /// Exit status; 128 and the signal's number when a signal ended it.
    pub status: i32,
    /// Standard output.
    pub output: Vec<u8>,
    /// Standard error.
    pub errors: Vec<u8>,
}

/// A running guest. It ends when this is dropped, and when the thread that started it ends in whatever way: the
/// kernel kills QEMU then (`PR_SET_PDEATHSIG`).
#[derive(Debug)]
pub struct Guest {
    pub(super) process: Child,
    pub(super) channel: UnixStream,
    pub(super) directory: Arc<GuestDirectory>,
    pub(super) control: Arc<Control>,
    /// Where long frames go, when its channel is a serial line.
    pub(super) files: Option<Files>,
    /// What the kernel's names of its disks begin with: `vd` of /dev/vda.
    pub disks: &'static str,
    /// Where its network card connects to, of User-Mode Linux.
    pub(super) _network: Option<Socket>,
    /// From its start to the agent's first word; of a guest with a shell, to QEMU's.
    pub boot: Duration,
}

impl Laboratory {
    /// Starts a guest.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn boot(&self, machine: &Machine) -> Result<Guest, LabError> {
        let guest = Guest::boot(self, machine)?;
        let (mut kernel, mut accelerator) = (self.image.kernel_release(), self.accelerator.name());
        let mut why = self.why.as_str();
        if let Some(uml) = self.uml(machine) {
            (kernel, accelerator, why) = (uml.release(), "User-Mode Linux", "");
        }
        (self.say)(&match machine.usage {
            Use::Commands => {
                let seconds = guest.boot.as_secs_f64();
                format!("guest with kernel {kernel} is up after {seconds:.1} s ({accelerator}{why})")
            }
            Use::Shell { .. } => {
                format!(
                    "starting a guest with kernel {kernel} ({accelerator}{why}); leaving its shell ends it"
                )
            }
        });
        Ok(guest)
    }
}

impl Guest {
    /// Starts a guest and waits until it can be used. An emulated one that is not ready in time is started once more, and its user
    /// told so: seen once in hundreds of starts, one of its processors got no timer interrupts from early on.
    ///
    /// # Errors
    /// When a disk cannot be had, QEMU fails, or the guest is not ready in time twice.
    pub(super) fn boot(laboratory: &Laboratory, machine: &Machine) -> Result<Guest, LabError> {
        check_disks(machine)?;
        let start = Instant::now();
        match Self::boot_once(laboratory, machine) {
            Err(error @ LabError::Guest { .. })
                if start.elapsed() > BOOT_PATIENCE && laboratory.accelerator() == Accelerator::Tcg =>
            {
                laboratory.say(&format!("{error}\nthe guest is started a second time, of two"));
                Self::boot_once(laboratory, machine)
            }
            other => other,
        }
    }

    fn boot_once(laboratory: &Laboratory, machine: &Machine) -> Result<Guest, LabError> {
        let directory = Arc::new(GuestDirectory::make(laboratory.places(), &machine.name)?);
        for disk in &machine.disks {
            make_disk(disk, directory.path())?;
        }
        let listener = listen(directory.path(), machine::SOCKET)?;
        let boot = laboratory.image().boot(&machine.name);
        Self::start(&directory, &listener, &boot, laboratory, machine)
    }

    /// Starts a guest in a directory where the machine's disks are, and waits until it can be used. The agent's channel comes
    /// to `listener` ([`listen`] on [`machine::SOCKET`]).
    ///
    /// # Errors
    /// As [`Guest::boot`].
    pub(super) fn start(
        directory: &Arc<GuestDirectory>,
        listener: &UnixListener,
        boot: &Boot,
        laboratory: &Laboratory,
        machine: &Machine,
    ) -> Result<Guest, LabError> {
        if let Some(kernel) = laboratory.uml(machine) {
            return kernel.boot(directory, boot, laboratory, machine);
        }
        let (program, accelerator) = (laboratory.program(), laboratory.accelerator());
        let control = laboratory.shared_control();
        let access = access_to(directory.path());
        let arguments = machine::arguments(machine, boot, program, accelerator, access);
        tracing::debug!(?arguments, "starting QEMU");

        if let Some(place) = &machine.place {
            place.attach(listen(directory.path(), machine::NETWORK)?);
        }
        let start = Instant::now();
        let log = directory.path().join("qemu.log");
        let log = own::anew(&log).map_err(LabError::file("make", &log))?;
        let mut qemu = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(&arguments)
            .current_dir(directory.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(LabError::file("start QEMU in", directory.path()))?;
        let connected = accept(listener, &mut qemu, start, directory.path(), &control);
        let channel = match connected {
            Ok(channel) => channel,
            Err(error) => {
                end(&mut qemu);
                return Err(error);
            }
        };
        let mut guest = Guest {
            process: qemu,
            channel,
            directory: directory.clone(),
            control,
            files: None,
            disks: "vd",
            _network: None,
            boot: Duration::ZERO,
        };
        let file = |error| LabError::file("use the channel in", guest.directory.path())(error);
        guest.channel.set_read_timeout(Some(TICK)).map_err(file)?;
        if machine.usage == Use::Commands {
            guest.wait_ready(start)?;
        }
        guest.boot = start.elapsed();
        Ok(guest)
    }

    /// Waits for the agent's first word.
    pub(super) fn wait_ready(&mut self, start: Instant) -> Result<(), LabError> {
        match self.next(Some(start + BOOT_PATIENCE))? {
            Some(Frame::Ready) => Ok(()),
            _ => Err(self.ended("did not come up")),
        }
    }

    /// The guest's files, its disks among them (`NAME.disk`).
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a program in the guest, `input` on its standard input; `sink` gets what it says as it says it.
    /// Returns its exit status, 128 and the signal's number when a signal ended it.
    ///
    /// # Errors
    /// When it cannot be started, or the guest ends.
    pub fn run(
        &mut self,
        command: &[OsString],
        input: &[u8],
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<i32, LabError> {
        let arguments = command.iter().map(|argument| argument.as_bytes().to_vec()).collect();
        self.send(&Frame::Run(arguments))?;
        // From a thread of its own: a program may say much before it has read all of its input.
        let mut feeder = self.channel.try_clone().map_err(|error| self.broken(&error))?;
        let files = self.files.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for piece in input.chunks(LENGTH_MAX) {
                    // A guest that ended is noticed by whoever reads.
                    if deliver(&mut feeder, files.as_ref(), &Frame::Input(piece.to_vec())).is_err() {
                        return;
                    }
                }
                let _ = deliver(&mut feeder, files.as_ref(), &Frame::InputEnd);
            });
            let result = self.listen(sink);
            if result.is_err() {
                // The feeder must not wait for a guest that is not there any more.
                let _ = self.channel.shutdown(Shutdown::Both);
            }
            result
        })
    }

    fn listen(&mut self, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<i32, LabError> {
        loop {
            match self.heard(None)? {
                Heard::Said(stream, bytes) => sink(stream, &bytes),
                Heard::Ended(status) => return Ok(status),
            }
        }
    }

    /// Starts a program for a conversation: [`Guest::tell`] writes to its standard input, [`Guest::hear`] hears it.
    ///
    /// # Errors
    /// When the guest cannot be reached.
    pub fn converse<A: AsRef<OsStr>>(&mut self, command: &[A]) -> Result<(), LabError> {
        let arguments = command.iter().map(|argument| argument.as_ref().as_bytes().to_vec()).collect();
        self.send(&Frame::Run(arguments))
    }

    /// Writes to the standard input of the program in conversation, which must be about to read it.
    ///
    /// # Errors
    /// When the guest cannot be reached.
    pub fn tell(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        bytes.chunks(LENGTH_MAX).try_for_each(|piece| self.send(&Frame::Input(piece.to_vec())))
    }

    /// The next thing from the program in conversation.
    ///
    /// # Errors
    /// When it could not be started, nothing is heard for as long as `patience`, or the guest ends.
    pub fn hear(&mut self, patience: Duration) -> Result<Heard, LabError> {
        self.heard(Some(Instant::now() + patience))
    }

    fn heard(&mut self, until: Option<Instant>) -> Result<Heard, LabError> {
        match self.next(until)? {
            Some(Frame::Output(bytes)) => Ok(Heard::Said(Stream::Output, bytes)),
            Some(Frame::Errors(bytes)) => Ok(Heard::Said(Stream::Errors, bytes)),
            Some(Frame::Ended(status)) => Ok(Heard::Ended(status)),
            Some(Frame::NotStarted(why)) => Err(LabError::Start(why)),
            Some(_) | None => Err(self.ended("ended")),
        }
    }

    /// [`Guest::run`], keeping what the program says.
    ///
    /// # Errors
    /// As [`Guest::run`].
    pub fn capture<A: AsRef<OsStr>>(&mut self, command: &[A], input: &[u8]) -> Result<Finished, LabError> {
        let command: Vec<OsString> = command.iter().map(|word| word.as_ref().to_owned()).collect();
        let mut finished = Finished::default();
        finished.status = self.run(&command, input, &mut |stream, bytes| match stream {
            Stream::Output => finished.output.extend(bytes),
            Stream::Errors => finished.errors.extend(bytes),
        })?;
        Ok(finished)
    }

    /// The raw channel of a guest with a shell on it; a read that has waited for a tenth of a second says so.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn terminal(&self) -> Result<UnixStream, LabError> {
        self.channel.try_clone().map_err(|error| self.broken(&error))
    }

    fn send(&mut self, frame: &Frame) -> Result<(), LabError> {
        deliver(&mut self.channel, self.files.as_ref(), frame).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => LabError::Start(error.to_string()),
            _ => self.broken(&error),
        })
    }

    /// The next frame; listens for a stop and, with `until`, for the time.
    fn next(&mut self, until: Option<Instant>) -> Result<Option<Frame>, LabError> {
        let frame = frame::read(&mut Patient { channel: &self.channel, control: &self.control, until });
        match frame {
            Ok(frame) => Ok(frame),
            Err(_) if stopped(&self.control) => Err(LabError::Stopped),
            Err(error) if error.kind() == ErrorKind::TimedOut => Err(self.ended("did not answer in time")),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Waits until the guest has ended by itself, as it was told to.
    ///
    /// # Errors
    /// When it has not after `patience`, or the user asks to stop.
    pub(super) fn wait_end(&mut self, patience: Duration) -> Result<(), LabError> {
        let until = Instant::now() + patience;
        loop {
            match self.process.try_wait() {
                Ok(Some(_)) => return Ok(()),
                _ if stopped(&self.control) => return Err(LabError::Stopped),
                _ if Instant::now() > until => return Err(self.ended("did not end in time")),
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn broken(&self, error: &std::io::Error) -> LabError {
        LabError::Guest { what: format!("cannot be reached: {error}"), log: logs(self.directory.path()) }
    }

    fn ended(&self, what: &str) -> LabError {
        LabError::Guest { what: what.to_owned(), log: logs(self.directory.path()) }
    }
}

/// Files for frames that are longer than a serial line may have unread: User-Mode Linux takes nothing more from one that had 4 KiB waiting.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub directory: Arc<GuestDirectory>,
    pub next: Arc<AtomicU32>,
}

/// A frame of more than so many bytes goes by a file.
const LONG: usize = 512;

fn deliver(to: &mut UnixStream, files: Option<&Files>, frame: &Frame) -> std::io::Result<()> {
    let Some(files) = files.filter(|_| frame.weight() > LONG) else { return frame::write(to, frame) };
    let number = files.next.fetch_add(1, Ordering::Relaxed);
    frame::write(&mut own::anew(&files.directory.path().join(frame::file(number)))?, frame)?;
    frame::write(to, &Frame::Filed(number))
}

impl Drop for Guest {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// Ends a guest with its processes. Nothing is flushed: the guest's disks go with it, and who wants them has the guest sync them.
fn end(process: &mut Child) {
    // A group outlives its first process; one that has ended has no number to send to.
    let lives = process.try_wait().is_ok_and(|ended| ended.is_none());
    let group = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group.filter(|_| lives) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = process.wait();
}

/// A reader that waits for the rest of a frame without missing a stop.
struct Patient<'a> {
    channel: &'a UnixStream,
    control: &'a Control,
    until: Option<Instant>,
}

fn stopped(control: &Control) -> bool {
    control.stop.load(Ordering::Relaxed)
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.channel.read(into) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    if stopped(self.control) {
                        return Err(std::io::Error::other("stopped"));
                    }
                    if self.until.is_some_and(|until| Instant::now() > until) {
                        return Err(std::io::Error::from(ErrorKind::TimedOut));
                    }
                }
                other => return other,
            }
        }
    }
}

/// Makes the file of a disk in a guest's directory, all a hole.
pub(super) fn make_disk(disk: &Disk, directory: &Path) -> Result<(), LabError> {
    disk.check()?;
    let path = directory.join(disk.file());
    own::create_sparse(&path, disk.size).map_err(LabError::file("make", &path))
}

pub(super) fn check_disks(machine: &Machine) -> Result<(), LabError> {
    if machine.disks.len() > DISKS_MAX {
        let why = format!("a guest has at most {DISKS_MAX} disks, not {}", machine.disks.len());
        return Err(LabError::Disk { name: machine.name.clone(), why });
    }
    for (index, disk) in machine.disks.iter().enumerate() {
        disk.check()?;
        if machine.disks[..index].iter().any(|other| other.name == disk.name) {
            let why = "another disk has this name; choose another".to_owned();
            return Err(LabError::Disk { name: disk.name.clone(), why });
        }
    }
    Ok(())
}

/// Whether the file system of `directory` has O_DIRECT.
fn access_to(directory: &Path) -> Access {
    match own::has_direct(&directory.join("lock")) {
        true => Access::Direct,
        false => Access::Buffered,
    }
}

/// Listens on the socket `name` in `directory`. Its own path may be longer than the 108 bytes that a socket's can be, so
/// that it is reached through an open directory.
pub(super) fn listen(directory: &Path, name: &str) -> Result<UnixListener, LabError> {
    let open = read::open(directory).map_err(LabError::file("open", directory))?;
    let short = format!("/proc/self/fd/{}/{}", open.as_raw_fd(), name);
    let listener = UnixListener::bind(short).map_err(LabError::file("listen in", directory))?;
    listener.set_nonblocking(true).map_err(LabError::file("listen in", directory))?;
    Ok(listener)
}

fn accept(
    listener: &UnixListener,
    qemu: &mut Child,
    start: Instant,
    directory: &Path,
    control: &Control,
) -> Result<UnixStream, LabError> {
    loop {
        match listener.accept() {
            Ok((channel, _)) => {
                channel.set_nonblocking(false).map_err(LabError::file("listen in", directory))?;
                return Ok(channel);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(LabError::file("listen in", directory)(error)),
        }
        let guest = |what: &str| LabError::Guest { what: what.to_owned(), log: logs(directory) };
        match qemu.try_wait() {
            Ok(Some(status)) => return Err(guest(&format!("did not start: QEMU ended with {status}"))),
            _ if stopped(control) => return Err(LabError::Stopped),
            _ if start.elapsed() > BOOT_PATIENCE => return Err(guest("did not start in time")),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// What a kernel that is a program says, and what its script does.
pub(super) const KERNEL_LOG: &str = "console";
pub(super) const OUTPUT: &str = "output";

/// A log that is longer is not looked into.
const LOG_MAX: u64 = 64 << 20;

/// The last words of QEMU and of the guest's console.
fn logs(directory: &Path) -> String {
    let mut text = String::new();
    for (name, file) in [
        ("QEMU", "qemu.log"),
        ("its console", machine::CONSOLE),
        ("its kernel", KERNEL_LOG),
        ("its script", OUTPUT),
    ] {
        let said = read::bytes(&directory.join(file), LOG_MAX).unwrap_or_default();
        let last = tools::last_lines(&String::from_utf8_lossy(&said), 20);
        if !last.is_empty() {
            text += &format!("\n{name} said last:\n{last}");
        }
    }
    text
}
