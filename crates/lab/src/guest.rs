//! A guest that runs.

use super::frame::{self, Frame, LENGTH_MAX};
use super::machine::{self, Accelerator, Boot, Machine, Use};
use super::network::Socket;
use super::places::GuestDirectory;
use super::process::Process;
use super::{LabError, Laboratory};
use ebbtide_door::own;
use ebbtide_model::backend::Control;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a guest may take to be ready; under software emulation on a busy host it took up to 12 s.
const BOOT_PATIENCE: Duration = Duration::from_secs(180);
/// How often a stop is listened for.
const TICK: Duration = Duration::from_millis(100);

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

/// A running guest. It ends when this is dropped, and when the thread that started it ends in whatever way.
#[derive(Debug)]
pub struct Guest {
    process: Process,
    line: Line,
    control: Arc<Control>,
    /// What the kernel's names of its disks begin with: `vd` of /dev/vda.
    pub disks: &'static str,
    /// Where its network card connects to, of User-Mode Linux.
    _network: Option<Socket>,
    /// From its start to the agent's first word; of a guest with a shell, to QEMU's start.
    pub boot: Duration,
    /// How long a program may be silent; nothing: as long as it likes.
    pub patience: Option<Duration>,
}

impl Laboratory {
    /// Starts a guest and waits until it can be used. An emulated one that is not ready in time is started once more, and its user
    /// told so: seen once in hundreds of starts, one of its processors got no timer interrupts from early on.
    ///
    /// # Errors
    /// When a disk cannot be had, QEMU fails, or the guest is not ready in time twice.
    pub fn boot(&self, machine: &Machine) -> Result<Guest, LabError> {
        let start = Instant::now();
        let guest = match self.boot_once(machine) {
            Err(error @ LabError::Guest { .. })
                if start.elapsed() > BOOT_PATIENCE && self.accelerator == Accelerator::Tcg =>
            {
                (self.say)(&format!("{error}\nthe guest is started a second time, of two"));
                self.boot_once(machine)?
            }
            other => other?,
        };
        let (kernel, on) = (self.kernel_release(machine), self.runs_on(machine));
        (self.say)(&match machine.usage {
            Use::Commands => {
                let seconds = guest.boot.as_secs_f64();
                format!("guest with kernel {kernel} is up after {seconds:.1} s ({on})")
            }
            Use::Shell { .. } => {
                format!("starting a guest with kernel {kernel} ({on}); leaving its shell ends it")
            }
        });
        Ok(guest)
    }

    fn boot_once(&self, machine: &Machine) -> Result<Guest, LabError> {
        let directory = machine.make_directory(self)?;
        Guest::start(&directory, &self.image.boot(&machine.name), self, machine)
    }
}

impl Guest {
    /// Starts a guest in a directory where the machine's disks are, and waits until it can be used.
    ///
    /// # Errors
    /// When a disk cannot be had, it does not start, or it is not ready in time.
    pub(super) fn start(
        directory: &Arc<GuestDirectory>,
        boot: &Boot,
        laboratory: &Laboratory,
        machine: &Machine,
    ) -> Result<Guest, LabError> {
        let fault = |error| LabError::file("talk to the guest of", directory.path())(error);
        // The channel is its standard input: what QEMU's agent is connected to, or a serial line of User-Mode Linux.
        let (channel, theirs) = UnixStream::pair().map_err(fault)?;
        channel.set_read_timeout(Some(TICK)).map_err(fault)?;
        let theirs = OwnedFd::from(theirs).into();
        let start = Instant::now();
        let uml = laboratory.uml(machine);
        let (process, network) = match uml {
            Some(kernel) => kernel.boot(directory, theirs, boot, laboratory, machine)?,
            None => (machine::boot(directory, theirs, boot, laboratory, machine)?, None),
        };
        let mut guest = Guest {
            line: Line { to: channel, files: uml.map(|_| directory.path().to_owned()) },
            process,
            control: laboratory.control.clone(),
            disks: if uml.is_some() { "ubd" } else { "vd" },
            _network: network,
            boot: Duration::ZERO,
            patience: Some(BOOT_PATIENCE),
        };
        if machine.usage == Use::Commands {
            match guest.next()? {
                Some(Frame::Ready) => {}
                _ => return Err(guest.process.fault("did not come up")),
            }
        }
        (guest.boot, guest.patience) = (start.elapsed(), None);
        Ok(guest)
    }

    /// The guest's files, its disks among them (`NAME.disk`).
    pub fn directory(&self) -> &Path {
        self.process.directory.path()
    }

    /// Runs a program in the guest, `input` on its standard input; `sink` gets what it says as it says it.
    /// Returns its exit status, 128 and the signal's number when a signal ended it.
    ///
    /// # Errors
    /// When it cannot be started, is silent for too long, or the guest ends.
    pub fn run<A: AsRef<OsStr>>(
        &mut self,
        command: &[A],
        input: &[u8],
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<i32, LabError> {
        self.converse(command)?;
        // From a thread of its own: a program may say much before it has read all of its input.
        let mut feeder = self.line.second().map_err(|error| self.broken(&error))?;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A guest that ended is noticed by whoever reads.
                let pieces = input.chunks(LENGTH_MAX).map(|piece| Frame::Input(piece.to_vec()));
                let _ = pieces.chain([Frame::InputEnd]).try_for_each(|frame| feeder.send(&frame));
            });
            let result = self.listen(sink);
            if result.is_err() {
                // The feeder must not wait for a guest that is not there any more.
                let _ = self.line.to.shutdown(Shutdown::Both);
            }
            result
        })
    }

    fn listen(&mut self, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<i32, LabError> {
        loop {
            match self.hear()? {
                Heard::Said(stream, bytes) => sink(stream, &bytes),
                Heard::Ended(status) => return Ok(status),
            }
        }
    }

    /// [`Guest::run`], keeping what the program says.
    ///
    /// # Errors
    /// As [`Guest::run`].
    pub fn capture<A: AsRef<OsStr>>(&mut self, command: &[A], input: &[u8]) -> Result<Finished, LabError> {
        let mut finished = Finished::default();
        finished.status = self.run(command, input, &mut |stream, bytes| match stream {
            Stream::Output => finished.output.extend(bytes),
            Stream::Errors => finished.errors.extend(bytes),
        })?;
        Ok(finished)
    }

    /// Starts a program for a conversation: [`Guest::tell`] writes to its standard input, [`Guest::hear`] hears it.
    ///
    /// # Errors
    /// When the guest cannot be reached.
    pub fn converse<A: AsRef<OsStr>>(&mut self, command: &[A]) -> Result<(), LabError> {
        self.send(&Frame::Run(command.iter().map(|word| word.as_ref().as_bytes().to_vec()).collect()))
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
    /// When it could not be started, is silent for too long, or the guest ends.
    pub fn hear(&mut self) -> Result<Heard, LabError> {
        match self.next()? {
            Some(Frame::Output(bytes)) => Ok(Heard::Said(Stream::Output, bytes)),
            Some(Frame::Errors(bytes)) => Ok(Heard::Said(Stream::Errors, bytes)),
            Some(Frame::Ended(status)) => Ok(Heard::Ended(status)),
            Some(Frame::NotStarted(why)) => Err(LabError::Start(why)),
            Some(_) | None => Err(self.process.fault("ended")),
        }
    }

    /// The raw channel of a guest with a shell on it; a read that has waited for a tenth of a second says so.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn terminal(&self) -> Result<UnixStream, LabError> {
        self.line.to.try_clone().map_err(|error| self.broken(&error))
    }

    fn send(&mut self, frame: &Frame) -> Result<(), LabError> {
        self.line.send(frame).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => LabError::Start(error.to_string()),
            _ => self.broken(&error),
        })
    }

    /// The next frame; listens for a stop.
    fn next(&mut self) -> Result<Option<Frame>, LabError> {
        let until = self.patience.map(|patience| Instant::now() + patience);
        match frame::read(&mut Patient { channel: &self.line.to, control: &self.control, until }) {
            Ok(frame) => Ok(frame),
            Err(_) if stopped(&self.control) => Err(LabError::Stopped),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(self.process.fault("did not answer in time"))
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Waits until the guest has ended by itself, as it was told to.
    ///
    /// # Errors
    /// When it has not after `patience`, has ended badly, or the user asks to stop.
    pub fn wait_end(&mut self, patience: Duration) -> Result<(), LabError> {
        let until = Instant::now() + patience;
        loop {
            match self.process.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.process.fault(format!("ended with {status}"))),
                None if stopped(&self.control) => return Err(LabError::Stopped),
                None if Instant::now() > until => return Err(self.process.fault("did not end in time")),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn broken(&self, error: &io::Error) -> LabError {
        self.process.fault(format!("cannot be reached: {error}"))
    }
}

/// A frame of more than so many bytes goes by a file where there are files.
const LONG: usize = 512;

/// The way to the agent.
#[derive(Debug)]
struct Line {
    to: UnixStream,
    /// Where frames go that are longer than a serial line may have unread: User-Mode Linux takes nothing more from one that had 4 KiB waiting.
    files: Option<PathBuf>,
}

impl Line {
    fn second(&self) -> io::Result<Line> {
        Ok(Line { to: self.to.try_clone()?, files: self.files.clone() })
    }

    fn send(&mut self, frame: &Frame) -> io::Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let bytes = frame::bytes(frame)?;
        let Some(files) = self.files.as_ref().filter(|_| bytes.len() > LONG) else {
            return self.to.write_all(&bytes);
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        own::anew(&files.join(frame::file(number)))?.write_all(&bytes)?;
        frame::write(&mut self.to, &Frame::Filed(number))
    }
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
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.channel.read(into) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    if stopped(self.control) {
                        return Err(io::Error::other("stopped"));
                    }
                    if self.until.is_some_and(|until| Instant::now() > until) {
                        return Err(io::Error::from(ErrorKind::TimedOut));
                    }
                }
                other => return other,
            }
        }
    }
}
