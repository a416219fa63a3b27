//! A server in the background, what it answers, and stores for it.

use crate::common::Home;
use ebbtide_model::monitor::events::VolumeContext;
use ebbtide_model::monitor::{Measure, Pass, Watched};
use ebbtide_model::session::Session;
use ebbtide_model::testing::session::{self as fixture, Recipe};
use ebbtide_model::units::UnixTime;
use ebbtide_runner::store::Store;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;
pub(super) const EVIL: &str = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>";

/// A server in the background; ended when a test gives up on it.
pub(super) struct Serving {
    pub(super) child: Child,
    pub(super) url: String,
}

impl Serving {
    pub(super) fn start(home: &Home, line: &str) -> Serving {
        let mut command = home.interruptible(&format!("serve --store store.sqlite {line}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Serving { child, url: url.trim().to_owned() }
    }

    pub(super) fn local(home: &Home) -> Serving {
        Serving::start(home, "--listen 127.0.0.1:0")
    }

    pub(super) fn address(&self) -> SocketAddr {
        let rest = self.url.split_once("://").unwrap_or_else(|| panic!("no address: {}", self.url)).1;
        rest.trim_end_matches('/').parse().unwrap()
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.address().port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// What is answered to the lines of a request.
    pub(super) fn ask(&self, lines: &[&str]) -> Answer {
        Answer::of(self.connect(), lines)
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask(&[&format!("GET {path} HTTP/1.1"), "Host: localhost"])
    }

    /// Its exit status and what it said, after the signal `name`.
    pub(super) fn end(mut self, name: &str) -> (Option<i32>, String) {
        crate::common::tool("kill", &[&format!("-{name}"), &self.child.id().to_string()]);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn of(mut stream: impl Read + Write, lines: &[&str]) -> Answer {
        let request = format!("{}\r\n\r\n", lines.join("\r\n"));
        // One that is refused before its end closes early.
        let _ = stream.write_all(request.as_bytes());
        Answer::read(stream)
    }

    pub(super) fn read(mut stream: impl Read) -> Answer {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(super) fn field(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .unwrap_or_else(|| panic!("no {name}: {}", self.head))
    }
}

pub(super) fn store(home: &Home) -> Store {
    Store::open(Some(&home.path("store.sqlite"))).unwrap()
}

/// A store with a made-up session whose names have markup in them.
pub(super) fn stored(home: &Home) -> Session {
    let mut session =
        fixture::session(&Recipe { rounds: 8, members: 3, prefix: EVIL.to_owned(), failure: true });
    session.experiment.name = EVIL.to_owned();
    session.meta.host.hostname = EVIL.to_owned();
    let headline = |session: &Session| format!("{EVIL} of {}", session.meta.id);
    let mut other = session.clone();
    other.meta.id = format!("{}-again", session.meta.id);
    other.meta.started_unix = UnixTime(session.meta.started_unix.0 + 1_000_000_000);
    let both = [session.clone(), other];
    store(home).add_all(both.iter().map(|session| (session, headline(session)))).unwrap();
    session
}

/// Three weeks of a volume that loses half of its seeks, and of a sibling that does not; hour by hour, up to `last`.
pub(super) fn monitored(home: &Home, last: UnixTime) {
    let hours = 21 * 24;
    let begin = last.0 / 1_000_000_000 - hours * 3600;
    let mut passes = Vec::new();
    for hour in 0..hours {
        for (id, falls) in [(format!("vol-{EVIL}"), true), ("file:/data/../vol 2".to_owned(), false)] {
            let noise = ((hour * 7919 + u64::from(falls) * 31) % 101) as f64 / 101.0;
            let level = if falls && hour >= 14 * 24 { 500.0 } else { 1000.0 };
            let volume = Watched { name: id.clone(), id, host: "h".to_owned() };
            let values = vec![
                (Measure::Seeks, level + 20.0 * noise),
                (Measure::Throughput, 1e8 * (1.0 + 0.02 * noise)),
                (Measure::LoadWait, 0.001),
            ];
            let kernel = if hour < 18 * 24 { "6.1".to_owned() } else { format!("6.2{EVIL}") };
            let found = Some(VolumeContext {
                host: "h".to_owned(),
                kernel: Some(kernel),
                ..VolumeContext::default()
            });
            let at = UnixTime::from_secs(begin + hour * 3600);
            passes.push(Pass { volume, at, values, counted: None, found });
        }
    }
    store(home).add_passes(&passes).unwrap();
}
