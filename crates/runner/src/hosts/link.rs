//! One host's worker: what it is told, what it says, and why it is gone.

use super::launcher::{LaunchError, Launcher};
use ebbtide_host::command::end_group;
use ebbtide_host::ssh::last_lines;
use ebbtide_lab::backend::talk::{Order, Word, line};
use ebbtide_model::shown::excerpt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long workers may take to put back what they made, when nobody is there any more.
pub(super) const END_MOST: Duration = Duration::from_secs(60);
/// The same for one that is lost or has made nothing: it gets to say why it ends.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// One that puts something back says four times a second that it is there; so long it may be silent.
const SILENCE_MOST: Duration = Duration::from_secs(15);
/// How much of what it said on standard error is kept.
pub(super) const ERRORS_MOST: usize = 4000;
/// Between two looks at a worker that is to end.
const TICK: Duration = Duration::from_millis(20);
/// Longest line. Samples of a trial with 64 members on one host have 30 MB at most, and a few as a rule.
const LINE_MOST: u64 = 64 << 20;

/// Leads to a worker's standard input, line by line; nothing says that no more comes. A worker need not read, so a thread of its own writes.
pub(super) type Input = Sender<Option<Vec<u8>>>;

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
    reader: JoinHandle<()>,
    /// When its reader heard it last.
    last: Arc<Mutex<Instant>>,
    is_over: bool,
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
        heard: SyncSender<(usize, Heard)>,
        stop: &AtomicBool,
    ) -> Result<Link, LaunchError> {
        let mut child = launcher.launch(host, stop)?;
        let no_stream = || LaunchError::Start {
            host: host.to_owned(),
            error: std::io::Error::other("it has no streams"),
        };
        let stdin = child.stdin.take().ok_or_else(no_stream)?;
        let (to, told) = channel();
        std::thread::spawn(move || pass_on(&told, stdin));
        let from = child.stdout.take().ok_or_else(no_stream)?;
        let stderr = child.stderr.take().ok_or_else(no_stream)?;
        let errors = Arc::new(Mutex::new(String::new()));
        let (kept, said) = (errors.clone(), errors.clone());
        let last = Arc::new(Mutex::new(Instant::now()));
        let from = Noting { from, last: last.clone() };
        let on_errors = std::thread::spawn(move || keep_errors(stderr, &kept));
        let reader = std::thread::spawn(move || {
            let why = listen(from, number, &heard);
            // What it said last says why; a process that it left behind may keep its streams open for ever.
            wait_for(|| on_errors.is_finished());
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = heard.send((number, Heard::End(format!("{why}: {}", last_lines(&said)))));
        });
        Ok(Link {
            host: host.to_owned(),
            to,
            child,
            errors,
            reader,
            last,
            is_over: false,
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
        // Why it cannot be reached is on its other streams.
        let _ = self.to.send(Some(bytes));
    }

    /// What it said on standard error, the last lines of it.
    pub(super) fn said(&self) -> String {
        last_lines(&self.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says that nothing more comes.
    fn hang_up(&self) {
        let _ = self.to.send(None);
    }

    /// Waits until `end` for its end; what is still there then is ended. What it made there ends with its input.
    fn end(&mut self, end: Instant) -> Result<(), String> {
        self.is_over = true;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() > end || self.is_silent() => {
                    end_group(&mut self.child);
                    return Err("it does not end".to_owned());
                }
                Ok(None) => std::thread::sleep(TICK),
                Err(error) => return Err(error.to_string()),
            }
        };
        self.ended_well(status)
    }

    fn is_silent(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > SILENCE_MOST
    }

    fn ended_well(&self, status: ExitStatus) -> Result<(), String> {
        if status.success() {
            return Ok(());
        }
        wait_for(|| self.reader.is_finished());
        Err(format!("its worker ended with {status}: {}", self.said()))
    }
}

/// Waits until it is so, for at most [`GRACE`].
fn wait_for(is_so: impl Fn() -> bool) {
    let end = Instant::now() + GRACE;
    while !is_so() && Instant::now() < end {
        std::thread::sleep(TICK);
    }
}

/// Says to all of `links` that nothing more comes, and waits for their ends, for all together at most so long; what is still there then is
/// ended. What did not end well, with its host; of one that is lost that is known.
pub(super) fn end_all(links: &mut [Link], most: Duration) -> Vec<String> {
    let begun = Instant::now();
    links.iter().for_each(Link::hang_up);
    let failed = links.iter_mut().filter_map(|link| {
        let most = if link.gone.is_some() { GRACE.min(most) } else { most };
        let why = link.end(begun + most).err().filter(|_| link.gone.is_none())?;
        Some(format!("host {}: {why}", link.host))
    });
    failed.collect()
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.is_over {
            self.hang_up();
            let _ = self.end(Instant::now() + GRACE);
        }
    }
}

/// Writes line by line what a worker is told, until no more comes or it takes no more.
fn pass_on(told: &Receiver<Option<Vec<u8>>>, mut to: ChildStdin) {
    while let Ok(Some(bytes)) = told.recv() {
        if let Err(error) = to.write_all(&bytes).and_then(|()| to.flush()) {
            tracing::debug!("a worker cannot be told anything: {error}");
            return;
        }
    }
}

/// A stream that notes when something came last.
struct Noting<R> {
    from: R,
    last: Arc<Mutex<Instant>>,
}

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(to)?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(length)
    }
}

/// Passes on word by word; why there are no more.
fn listen(from: impl Read, number: usize, heard: &SyncSender<(usize, Heard)>) -> String {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LINE_MOST).read_until(b'\n', &mut line) {
            Ok(0) => return "the connection to its worker ended".to_owned(),
            Ok(_) if line.len() as u64 == LINE_MOST && !line.ends_with(b"\n") => {
                return format!("its worker said more than {LINE_MOST} bytes on one line");
            }
            Ok(_) => {}
            Err(error) => return format!("its worker cannot be heard: {error}"),
        }
        match serde_json::from_slice(&line) {
            Ok(word) => {
                if heard.send((number, Heard::Word(Box::new(word)))).is_err() {
                    // It says that it goes on putting things back, and would wait for somebody who reads it.
                    let _ = io::copy(&mut from, &mut io::sink());
                    return "nobody listens".to_owned();
                }
            }
            Err(error) => {
                let said = String::from_utf8_lossy(&line);
                return format!("its worker cannot be understood ({error}): `{}`", excerpt(said.trim()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::per_op::PerOp;
    use ebbtide_model::samples::{Count, Histogram, Interval, MemberSamples, OpSamples, TrialSamples};
    use std::sync::mpsc::sync_channel;

    /// Every latency from a microsecond to minutes, each many times.
    fn all_latencies() -> Histogram {
        let mut all = Histogram::default();
        for shift in 0..28 {
            (1024..2048).for_each(|value: u64| all.record(value << shift));
        }
        for _ in 0..30 {
            let same = all.clone();
            all.merge(&same);
        }
        all
    }

    #[test]
    fn the_longest_line_of_a_worker_is_taken() {
        const MEMBERS: usize = 64;
        let count = Count { ops: u64::from(u32::MAX), bytes: u64::from(u32::MAX) << 12 };
        let counts = PerOp { read: count, write: count };
        let latency = all_latencies();
        let one = OpSamples { count, latency: latency.clone(), service: Some(latency.clone()) };
        let ops = PerOp { read: one.clone(), write: one };
        let member =
            MemberSamples { name: "a-volume-17".to_owned(), ops: ops.clone(), ..MemberSamples::default() };
        let interval = |at: u64| Interval {
            end: ebbtide_model::units::Nanos::from_secs(at),
            array: counts,
            latency: latency.clone(),
            members: vec![counts; MEMBERS],
        };
        let samples = TrialSamples {
            array: ops,
            members: vec![member; MEMBERS],
            // As many as the engine keeps.
            series: (0..1200).map(interval).collect(),
            started_unix: ebbtide_model::units::UnixTime(0),
            elapsed: ebbtide_model::units::Nanos::from_secs(1200),
            interval: ebbtide_model::units::Nanos::from_secs(1),
            cpu: ebbtide_model::samples::CpuUse::default(),
            mean_in_flight: None,
            execution: ebbtide_model::samples::Execution::default(),
            observed: None,
            hosts: Vec::new(),
            notes: Vec::new(),
        };
        let said = line(&Word::Ran(Ok(Box::new(samples.condensed())))).expect("JSON");
        assert!((said.len() as u64) < LINE_MOST / 4 * 3, "{}", said.len());
        let (to, heard) = sync_channel(1);
        let ended = std::thread::scope(|scope| {
            let listens = scope.spawn(|| listen(&said[..], 0, &to));
            assert!(matches!(heard.recv(), Ok((0, Heard::Word(word))) if matches!(*word, Word::Ran(Ok(_)))));
            listens.join().expect("no panic")
        });
        assert_eq!(ended, "the connection to its worker ended");
    }

    #[test]
    fn a_line_without_an_end_is_not_taken() {
        let (to, _heard) = sync_channel(1);
        let ended = listen(io::repeat(b' '), 0, &to);
        assert!(ended.contains("more than 67108864 bytes on one line"), "{ended}");
    }
}
