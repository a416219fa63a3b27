//! One host's worker: what it is told, what it says, and why it is gone.

use super::launcher::{LaunchError, Launcher};
use ebbtide_host::ssh::last_lines;
use ebbtide_lab::backend::talk::{Order, Word, line};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker may take to put back what it made, when nobody is there any more.
const END_MOST: Duration = Duration::from_secs(60);
/// How much of what it said on standard error is kept.
const ERRORS_MOST: usize = 4000;
/// Longest line: the samples of a trial are a few MB.
const LINE_MOST: u64 = 256 << 20;

/// A worker's standard input, until it cannot be reached any more.
pub(super) type Input = Arc<Mutex<Option<ChildStdin>>>;

/// What comes from a worker.
pub(super) enum Heard {
    Word(Box<Word>),
    /// Nothing more comes: why.
    End(String),
}

/// The connection to the worker on one host.
pub(super) struct Link {
    /// As the user wrote it.
    pub(super) host: String,
    to: Input,
    child: Child,
    errors: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    /// Why it is gone, where it is.
    pub(super) gone: Option<String>,
    /// When it was heard last.
    pub(super) heard: Instant,
    /// What it has done of the running trial: operations, bytes.
    pub(super) progress: (u64, u64),
    /// It was told to run a trial and has not said what came of it.
    pub(super) busy: bool,
}

impl Link {
    /// Starts the worker of `host`; what it says goes to `heard` with `number`.
    pub(super) fn open(
        launcher: &dyn Launcher,
        host: &str,
        number: usize,
        heard: Sender<(usize, Heard)>,
    ) -> Result<Link, LaunchError> {
        let mut child = launcher.launch(host)?;
        let no_stream = || LaunchError::Start {
            host: host.to_owned(),
            error: std::io::Error::other("it has no streams"),
        };
        let to = Arc::new(Mutex::new(child.stdin.take()));
        let from = child.stdout.take().ok_or_else(no_stream)?;
        let stderr = child.stderr.take().ok_or_else(no_stream)?;
        let errors = Arc::new(Mutex::new(String::new()));
        let (kept, said) = (errors.clone(), errors.clone());
        let on_errors = std::thread::spawn(move || keep_errors(stderr, &kept));
        let reader = std::thread::spawn(move || {
            let why = listen(from, number, &heard);
            // What it said last says why.
            let _ = on_errors.join();
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = heard.send((number, Heard::End(format!("{why}: {}", last_lines(&said)))));
        });
        Ok(Link {
            host: host.to_owned(),
            to,
            child,
            errors,
            reader: Some(reader),
            gone: None,
            heard: Instant::now(),
            progress: (0, 0),
            busy: false,
        })
    }

    /// Its standard input, for whoever says that somebody is there.
    pub(super) fn input(&self) -> Input {
        self.to.clone()
    }

    /// Tells it something; where it cannot be reached, that is heard.
    pub(super) fn tell(&self, order: &Order) {
        let Ok(bytes) = line(order) else { return };
        tell(&self.to, &bytes);
    }

    /// What it said on standard error, the last lines of it.
    pub(super) fn said(&self) -> String {
        last_lines(&self.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says that nothing more comes, and waits for the end, at most a minute; what is still there then is ended.
    pub(super) fn end(&mut self) -> Result<(), String> {
        drop(self.to.lock().unwrap_or_else(PoisonError::into_inner).take());
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) if begun.elapsed() > END_MOST => {
                    // The connection, or a process of this host; what is at its other end ends with its input.
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    break Err("it does not end".to_owned());
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => break Err(error.to_string()),
            }
        };
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("its worker ended with {status}: {}", self.said())),
            Err(why) => Err(why),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.reader.is_some() {
            let _ = self.end();
        }
    }
}

/// Writes a line to a worker.
pub(super) fn tell(to: &Mutex<Option<ChildStdin>>, bytes: &[u8]) {
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(input) = to.as_mut()
        && let Err(error) = input.write_all(bytes).and_then(|()| input.flush())
    {
        // Why it cannot be reached is on its other streams.
        tracing::debug!("a worker cannot be told anything: {error}");
        *to = None;
    }
}

/// Passes on word by word; why there are no more.
fn listen(from: impl Read, number: usize, heard: &Sender<(usize, Heard)>) -> String {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LINE_MOST).read_until(b'\n', &mut line) {
            Ok(0) => return "the connection to its worker ended".to_owned(),
            Ok(_) => {}
            Err(error) => return format!("its worker cannot be heard: {error}"),
        }
        match serde_json::from_slice(&line) {
            Ok(word) => {
                if heard.send((number, Heard::Word(Box::new(word)))).is_err() {
                    return "nobody listens".to_owned();
                }
            }
            Err(error) => {
                let begin = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                return format!("its worker cannot be understood ({error}): `{}`", begin.trim());
            }
        }
    }
}

fn keep_errors(mut from: impl Read, kept: &Mutex<String>) {
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(&String::from_utf8_lossy(&piece[..length]));
        let from = kept.len().saturating_sub(ERRORS_MOST);
        let from = (from..=kept.len()).find(|at| kept.is_char_boundary(*at));
        kept.drain(..from.unwrap_or(0));
    }
}
