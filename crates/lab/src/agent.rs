//! The other half in the guest: runs what it is told to, one program at a time.

use super::frame::{self, Frame, PIECE};
use ebbtide_door::read;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a silent pipe is waited for after its program has ended: something that it left in the background may
/// hold it for ever.
const LINGER: Duration = Duration::from_millis(500);

/// Where frames are that are not on the channel.
pub(super) const FILES: &str = "/share";

/// The way back, shared by the threads of a program.
struct Back<W>(Mutex<Line<W>>);

struct Line<W> {
    to: W,
    /// Number of the program whose output counts; what an earlier one left in the background is not heard.
    current: u64,
}

impl<W: Write> Back<W> {
    fn line(&self) -> MutexGuard<'_, Line<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, program: u64, frame: &Frame) -> io::Result<()> {
        let mut line = self.line();
        if line.current == program { frame::write(&mut line.to, frame) } else { Ok(()) }
    }

    /// The last frame of a program. The next one has its own number before the host can ask for it.
    fn end(&self, program: u64, frame: &Frame) -> io::Result<()> {
        let mut line = self.line();
        frame::write(&mut line.to, frame)?;
        line.current = program + 1;
        Ok(())
    }
}

/// Serves until the host hangs up.
///
/// # Errors
/// When the channel fails.
pub fn serve(mut from: impl Read, to: impl Write + Send + 'static) -> io::Result<()> {
    let back = Arc::new(Back(Mutex::new(Line { to, current: 0 })));
    back.say(0, &Frame::Ready)?;
    let mut input: Option<ChildStdin> = None;
    while let Some(mut frame) = frame::read(&mut from)? {
        if let Frame::Filed(number) = frame {
            let mut file = read::open(&Path::new(FILES).join(frame::file(number)))?;
            let gone = || io::Error::from(io::ErrorKind::UnexpectedEof);
            frame = frame::read(&mut file)?.ok_or_else(gone)?;
        }
        match frame {
            Frame::Run(arguments) => {
                let program = back.line().current;
                match start(&arguments) {
                    Ok(mut child) => {
                        input = child.stdin.take();
                        accompany(child, program, &back);
                    }
                    Err(error) => {
                        let name = String::from_utf8_lossy(arguments.first().map_or(b"", Vec::as_slice));
                        back.end(program, &Frame::NotStarted(format!("cannot start {name}: {error}")))?;
                    }
                }
            }
            // A program that does not read its input, or has ended, is its own business.
            Frame::Input(bytes) => {
                if input.as_mut().is_some_and(|input| input.write_all(&bytes).is_err()) {
                    input = None;
                }
            }
            Frame::InputEnd => input = None,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that only guests send")),
        }
    }
    Ok(())
}

fn start(arguments: &[Vec<u8>]) -> io::Result<Child> {
    let (program, rest) = arguments.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(OsStr::from_bytes(program))
        .args(rest.iter().map(|argument| OsStr::from_bytes(argument)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Sends what the program says, and its end, from threads of its own.
fn accompany<W: Write + Send + 'static>(mut child: Child, program: u64, back: &Arc<Back<W>>) {
    let (done, ends) = mpsc::channel::<()>();
    let pieces = Arc::new(Pieces::default());
    if let Some(pipe) = child.stdout.take() {
        forward(pipe, Frame::Output, program, back.clone(), done.clone(), pieces.clone());
    }
    if let Some(pipe) = child.stderr.take() {
        forward(pipe, Frame::Errors, program, back.clone(), done.clone(), pieces.clone());
    }
    drop(done);
    let back = back.clone();
    thread::spawn(move || {
        let status = child
            .wait()
            .map_or(-1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()));
        let mut before = pieces.read.load(Ordering::Relaxed);
        loop {
            match ends.recv_timeout(LINGER) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                // A host that takes its time is waited for.
                Err(RecvTimeoutError::Timeout) => {
                    let now = pieces.read.load(Ordering::Relaxed);
                    if now == before && now == pieces.sent.load(Ordering::Relaxed) {
                        break;
                    }
                    before = now;
                }
            }
        }
        // When the host is gone there is nobody to tell.
        let _ = back.end(program, &Frame::Ended(status));
    });
}

/// Pieces of output of a program.
#[derive(Default)]
struct Pieces {
    read: AtomicU64,
    sent: AtomicU64,
}

fn forward<W: Write + Send + 'static>(
    mut pipe: impl Read + Send + 'static,
    kind: fn(Vec<u8>) -> Frame,
    program: u64,
    back: Arc<Back<W>>,
    done: mpsc::Sender<()>,
    pieces: Arc<Pieces>,
) {
    thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            pieces.read.fetch_add(1, Ordering::Relaxed);
            if back.say(program, &kind(piece[..length].to_vec())).is_err() {
                break;
            }
            pieces.sent.fetch_add(1, Ordering::Relaxed);
        }
        let _ = done.send(());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    /// The host's end of a served channel.
    fn served() -> UnixStream {
        let (mut host, guest) = UnixStream::pair().expect("a pair");
        let reader = guest.try_clone().expect("clones");
        thread::spawn(move || serve(reader, guest));
        host.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        assert_eq!(frame::read(&mut host).expect("reads"), Some(Frame::Ready));
        host
    }

    fn run(host: &mut UnixStream, arguments: &[&str], input: &[u8]) -> (Vec<u8>, Vec<u8>, Frame) {
        let words = arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
        frame::write(host, &Frame::Run(words)).expect("writes");
        frame::write(host, &Frame::Input(input.to_vec())).expect("writes");
        frame::write(host, &Frame::InputEnd).expect("writes");
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        loop {
            match frame::read(host).expect("reads").expect("goes on") {
                Frame::Output(bytes) => output.extend(bytes),
                Frame::Errors(bytes) => errors.extend(bytes),
                end => return (output, errors, end),
            }
        }
    }

    #[test]
    fn programs_run_one_after_the_other_with_input_output_and_status() {
        let mut host = served();
        let large = vec![7; 300_000];
        assert_eq!(run(&mut host, &["cat"], &large), (large, vec![], Frame::Ended(0)));
        let said =
            run(&mut host, &["sh", "-c", "echo no >&2; printf '%s|' \"$@\"; exit 7", "sh", "a b", "*"], b"");
        assert_eq!(said, (b"a b|*|".to_vec(), b"no\n".to_vec(), Frame::Ended(7)));
        assert_eq!(run(&mut host, &["sh", "-c", "kill -9 $$"], b"").2, Frame::Ended(137));
        let (_, _, end) = run(&mut host, &["/no/such/program"], b"");
        assert!(matches!(&end, Frame::NotStarted(why) if why.contains("/no/such/program")), "{end:?}");
        assert_eq!(run(&mut host, &["true"], b"unread").2, Frame::Ended(0));
    }

    #[test]
    fn what_stays_in_the_background_holds_nobody_up_and_is_not_heard() {
        let mut host = served();
        let start = Instant::now();
        let (output, _, end) = run(&mut host, &["sh", "-c", "echo now; (sleep 2; echo late) &"], b"");
        assert_eq!((output.as_slice(), end), (b"now\n".as_slice(), Frame::Ended(0)));
        assert!(start.elapsed() < Duration::from_secs(2), "did not wait for the background");
        assert_eq!(run(&mut host, &["sleep", "2.5"], b"").0, b"");
    }
}
