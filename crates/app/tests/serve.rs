//! `ebb serve`: what it shows, and what it keeps from those who may not see it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use common::{Home, status, stderr};
use ebbtide_model::monitor::events::VolumeContext;
use ebbtide_model::monitor::{Measure, Pass, Watched};
use ebbtide_model::session::{Session, SessionMeta};
use ebbtide_model::testing::session::{self as fixture, Recipe};
use ebbtide_model::units::UnixTime;
use ebbtide_runner::store::Store;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;

const EVIL: &str = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>";
const SECRET: &str = "a-token-that-is-long-enough-0123";

/// A server in the background; ended when a test gives up on it.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(home: &Home, line: &str) -> Serving {
        let mut command = home.interruptible(&format!("serve --store store.sqlite {line}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Serving { child, url: url.trim().to_owned() }
    }

    fn local(home: &Home) -> Serving {
        Serving::start(home, "--listen 127.0.0.1:0")
    }

    fn address(&self) -> SocketAddr {
        let rest = self.url.split_once("://").unwrap_or_else(|| panic!("no address: {}", self.url)).1;
        rest.trim_end_matches('/').parse().unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.address().port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// What is answered to the lines of a request.
    fn ask(&self, lines: &[&str]) -> Answer {
        Answer::of(self.connect(), lines)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(&[&format!("GET {path} HTTP/1.1"), "Host: localhost"])
    }

    /// Its exit status and what it said, after the signal `name`.
    fn end(mut self, name: &str) -> (Option<i32>, String) {
        common::tool("kill", &[&format!("-{name}"), &self.child.id().to_string()]);
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
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(mut stream: impl Read + Write, lines: &[&str]) -> Answer {
        let request = format!("{}\r\n\r\n", lines.join("\r\n"));
        // One that is refused before its end closes early.
        let _ = stream.write_all(request.as_bytes());
        Answer::read(stream)
    }

    fn read(mut stream: impl Read) -> Answer {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn field(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .unwrap_or_else(|| panic!("no {name}: {}", self.head))
    }
}

fn store(home: &Home) -> Store {
    Store::open(Some(&home.path("store.sqlite"))).unwrap()
}

/// A store with a made-up session whose names have markup in them.
fn stored(home: &Home) -> Session {
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
fn monitored(home: &Home, last: UnixTime) {
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

fn no_markup_of_others(page: &str) {
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
}

#[test]
fn pages_show_what_is_stored_and_run_nothing_of_it() {
    let home = Home::new();
    let session = stored(&home);
    let id = session.meta.id.clone();
    let serving = Serving::local(&home);
    let list = serving.get("/");
    assert_eq!(list.status, 200);
    assert!(list.body.contains(&format!("href=\"/session/{id}\"")), "{}", list.body);
    assert!(list.body.contains("2 sessions") && list.body.contains("&lt;script&gt;"));
    no_markup_of_others(&list.body);

    let report = serving.get(&format!("/session/{id}"));
    assert_eq!(report.status, 200);
    for part in ["id=\"summary\"", "id=\"latency\"", "<svg", "aria-label=\"Pages\""] {
        assert!(report.body.contains(part), "{part}");
    }
    no_markup_of_others(&report.body);
    assert_eq!(serving.get(&format!("/session/{id}")).body, report.body);

    let compared = serving.get(&format!("/compare?order=oldest-first&session={id}-again&session={id}"));
    assert_eq!(compared.status, 200, "{}", compared.body);
    assert!(compared.body.contains("id=\"comparisons\"") && compared.body.contains("id=\"ratios\""));
    no_markup_of_others(&compared.body);
    for (query, said) in [
        ("", "Choose two"),
        (&*format!("?session={id}"), "Choose two"),
        (&*format!("?session={id}&session={id}-again&threshold=x"), "threshold"),
        (&*format!("?session={id}&session={id}-again&metric=mood"), "metric"),
        (&*format!("?session={id}&session={id}-again&order=no"), "order"),
    ] {
        let answer = serving.get(&format!("/compare{query}"));
        assert!(answer.status == 400 && answer.body.contains(said), "{query}: {answer:?}");
    }

    for (path, schema) in [
        ("/api/sessions".to_owned(), "ebbtide.sessions/1"),
        (format!("/api/session/{id}"), "ebbtide.session/1"),
        (format!("/api/compare?session={id}&session={id}-again"), "ebbtide.compare/1"),
        ("/api/changes".to_owned(), "ebbtide.changes/1"),
    ] {
        let answer = serving.get(&path);
        assert_eq!((answer.status, answer.field("Content-Type")), (200, "application/json"), "{path}");
        let value: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(value["schema"], schema, "{path}");
    }

    for (path, wanted) in
        [("/nowhere", 404), ("/session/nothing", 404), ("/session", 404), ("/?before=nothing", 404)]
    {
        let answer = serving.get(path);
        assert_eq!(answer.status, wanted, "{path}");
        assert!(!answer.body.contains("store.sqlite"), "where the store is: {}", answer.body);
    }
    assert_eq!(serving.get("/session/%3Cscript%3Ealert(1)").status, 404);
    no_markup_of_others(&serving.get("/session/%3Cscript%3Ealert(1)").body);
    no_markup_of_others(&serving.get("/?experiment=%22%3E%3Cscript%3Ealert(1)").body);

    let head = serving.ask(&["HEAD / HTTP/1.1", "Host: localhost"]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.field("Content-Length"), list.field("Content-Length"));
    assert_eq!(serving.end("TERM").0, Some(0));
}

/// Everything that a browser is told holds for every answer, refusals too.
#[test]
fn every_answer_forbids_what_it_does_not_need() {
    let home = Home::new();
    let serving = Serving::local(&home);
    for lines in [
        ["GET / HTTP/1.1", "Host: localhost"],
        ["GET /nowhere HTTP/1.1", "Host: localhost"],
        ["GET / HTTP/1.1", "Host: evil.example"],
        ["POST / HTTP/1.1", "Host: localhost"],
        ["GET /api/changes HTTP/1.1", "Host: localhost"],
    ] {
        let answer = serving.ask(&lines);
        let policy = answer.field("Content-Security-Policy");
        for part in [
            "default-src 'none'",
            "script-src 'sha256-",
            "style-src 'sha256-",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
            ("X-Frame-Options", "DENY"),
        ] {
            assert_eq!(answer.field(name), value, "{lines:?}");
        }
        assert!(!answer.head.contains("Access-Control"), "{}", answer.head);
    }
    assert!(serving.get("/").body.contains("Nothing is stored yet"));
    assert!(serving.get("/metrics").body.contains("ebbtide_monitor_paused 0\n# EOF"));
}

#[test]
fn other_names_and_other_origins_learn_nothing() {
    let home = Home::new();
    let session = stored(&home);
    let serving = Serving::local(&home);
    let own = format!("Host: {}", serving.address());
    let origin = format!("Origin: http://{}", serving.address());
    assert_eq!(serving.ask(&["GET / HTTP/1.1", &own, &origin, "Sec-Fetch-Site: same-origin"]).status, 200);
    let link = [
        "GET / HTTP/1.1",
        &own,
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-Dest: document",
    ];
    assert_eq!(serving.ask(&link).status, 200, "a link is followed");
    for (status, fields) in [
        (421, vec!["Host: evil.example"]),
        (421, vec!["Host: localhost.evil.example:7340"]),
        (400, vec![]),
        (400, vec!["Host: localhost", "Host: evil.example"]),
        (403, vec![&own, "Origin: http://evil.example"]),
        (403, vec![&own, "Origin: null"]),
        (403, vec![&own, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"]),
        (403, vec![&own, "Sec-Fetch-Site: same-site"]),
        (403, vec![&own, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]),
    ] {
        for path in ["/", "/api/sessions", "/session/last"] {
            let request = format!("GET {path} HTTP/1.1");
            let lines: Vec<&str> = [request.as_str()].into_iter().chain(fields.clone()).collect();
            let answer = serving.ask(&lines);
            assert_eq!(answer.status, status, "{lines:?}: {answer:?}");
            assert!(!answer.body.contains(&session.meta.id), "{lines:?}: {answer:?}");
        }
    }
    drop(serving);
    let named = Serving::start(&home, "--listen 127.0.0.1:0 --name store.example");
    assert_eq!(named.ask(&["GET / HTTP/1.1", "Host: store.example:8443"]).status, 200);
}

#[test]
fn no_path_leads_to_a_file() {
    let home = Home::new();
    stored(&home);
    let serving = Serving::local(&home);
    for path in [
        "/../store.sqlite",
        "/../../etc/passwd",
        "/%2e%2e/store.sqlite",
        "/%2e%2e%2fstore.sqlite",
        "/session/..",
        "/session/..%2f..%2fstore.sqlite",
        "/session/%2e%2e%5cstore.sqlite",
        "/session/%00",
        "/store.sqlite",
        "//etc/passwd",
        "/etc/passwd",
        "/session/%ff",
        "/%",
        "http://localhost/",
        "/volume?id=../../etc/passwd",
        "/volume?id=/etc/passwd",
    ] {
        let answer = serving.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        assert!(!answer.body.contains("root:x:") && !answer.body.contains("SQLite format"), "{path}");
    }
}

#[test]
fn requests_that_are_long_slow_or_no_reading_are_refused_and_others_go_on() {
    let home = Home::new();
    stored(&home);
    let serving = Serving::local(&home);
    // Slow ones first: they hold their connections while the others are answered.
    let slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = serving.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
            stream
        })
        .collect();
    let host = "Host: localhost";
    let field = format!("X-Long: {}", "x".repeat(20_000));
    let many: Vec<String> = (0..200).map(|number| format!("X-{number}: y")).collect();
    let many: Vec<&str> =
        ["GET / HTTP/1.1", host].into_iter().chain(many.iter().map(String::as_str)).collect();
    let path = format!("GET /{} HTTP/1.1", "x".repeat(20_000));
    for (lines, wanted) in [
        (&["GET / HTTP/1.1", host, &field][..], 431),
        (&many, 431),
        (&[path.as_str(), host], 431),
        (&["POST / HTTP/1.1", host, "Content-Length: 3"], 405),
        (&["PUT /session/x HTTP/1.1", host], 405),
        (&["DELETE /session/x HTTP/1.1", host], 405),
        (&["OPTIONS * HTTP/1.1", host], 405),
        (&["GET / HTTP/1.1", host, "Content-Length: 3"], 400),
        (&["GET / HTTP/1.1", host, "Transfer-Encoding: chunked"], 400),
        (&["GET / SPDY/9"], 400),
        (&["GET / HTTP/1.1", host], 200),
    ] {
        let answer = serving.ask(lines);
        let shown: String = lines.join(" ").chars().take(60).collect();
        assert_eq!(answer.status, wanted, "{shown}: {answer:?}");
    }
    drop(slow);
}

#[test]
fn ten_thousand_sessions_are_paged() {
    const ALL: usize = 10_000;
    let home = Home::new();
    let plain = fixture::session(&Recipe { rounds: 1, members: 2, ..Recipe::default() });
    let session = |number: usize| {
        let mut session = Session { trials: Vec::new(), ..plain.clone() };
        let started = UnixTime::from_secs(1_700_000_000 + number as u64 / 2);
        session.meta = SessionMeta::new(format!("session-{number:05}"), plain.meta.backend, 1, started);
        session.experiment.name = format!("experiment {}", number % 100);
        session
    };
    let sessions: Vec<Session> = (0..ALL).map(session).collect();
    store(&home).add_all(sessions.iter().map(|session| (session, "an answer".to_owned()))).unwrap();
    let serving = Serving::local(&home);
    let ids = |page: &str| -> Vec<String> {
        page.split("href=\"/session/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    let mut seen = BTreeSet::new();
    let mut path = "/".to_owned();
    for _ in 0..ALL {
        let answer = serving.get(&path);
        assert_eq!(answer.status, 200);
        assert!(answer.body.len() < 60_000, "{} bytes", answer.body.len());
        assert!(answer.body.contains("10000 sessions"), "{}", answer.body);
        let ids = ids(&answer.body);
        assert!(!ids.is_empty() && ids.len() <= 50);
        let before = seen.len();
        seen.extend(ids.iter().cloned());
        assert_eq!(seen.len(), before + ids.len(), "each once");
        let Some(next) = answer.body.split("href=\"/?before=").nth(1) else { break };
        path = format!("/?before={}", next.split('"').next().unwrap());
    }
    assert_eq!(seen.len(), ALL);
    let found = serving.get("/?experiment=EXPERIMENT+42");
    assert!(found.body.contains("100 sessions of experiments"), "{}", found.body);
}

#[test]
fn two_hundred_readers_are_served_at_once() {
    const READERS: usize = 200;
    let home = Home::new();
    let id = stored(&home).meta.id;
    let serving = Serving::local(&home);
    let expected = serving.get(&format!("/session/{id}"));
    let all = Barrier::new(READERS);
    std::thread::scope(|scope| {
        let reader = |number: usize| {
            let (serving, all, expected, id) = (&serving, &all, &expected, &id);
            move || {
                let stream = serving.connect();
                // Every connection is open before the first one asks.
                all.wait();
                let path = if number.is_multiple_of(2) { format!("/session/{id}") } else { "/".to_owned() };
                let answer = Answer::of(stream, &[&format!("GET {path} HTTP/1.1"), "Host: localhost"]);
                assert_eq!(answer.status, 200);
                assert_eq!(answer.field("Content-Length").parse(), Ok(answer.body.len()), "whole");
                assert!(number % 2 == 1 || answer.body == expected.body);
            }
        };
        for number in 0..READERS {
            scope.spawn(reader(number));
        }
    });
    assert_eq!(serving.get("/").status, 200);
}

/// A file with the permissions `mode`.
fn secret_file(home: &Home, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = home.write(name, content);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_token_is_asked_for_where_there_is_one() {
    let home = Home::new();
    let id = stored(&home).meta.id;
    secret_file(&home, "token", &format!("{SECRET}\n"), 0o600);
    let serving = Serving::start(&home, "--listen 127.0.0.1:0 --token-file token");
    let with =
        |path: &str, field: &str| serving.ask(&[&format!("GET {path} HTTP/1.1"), "Host: localhost", field]);
    let short = &SECRET[..SECRET.len() - 1];
    for path in ["/", "/session/last", "/api/sessions", "/volumes", "/metrics", "/nowhere", "/enter"] {
        for field in [
            "X-Y: z".to_owned(),
            "Authorization: Bearer ".to_owned(),
            format!("Authorization: Bearer {short}"),
            format!("Authorization: Bearer {SECRET}x"),
            format!("Authorization: Basic {SECRET}"),
            format!("Cookie: ebb-{}={SECRET}", serving.address().port()),
            format!("Cookie: ebb-{}=", serving.address().port()),
        ] {
            let answer = with(path, &field);
            assert_eq!(answer.status, 401, "{path}, {field}: {answer:?}");
            assert!(answer.body.contains("type=\"password\"") && !answer.body.contains(&id));
            assert!(!answer.head.contains("Set-Cookie"));
        }
        // In an address it would be in the history of the browser.
        assert_eq!(with(&format!("{path}?token={SECRET}"), "X-Y: z").status, 401);
    }
    assert!(with("/", &format!("Authorization: Bearer {SECRET}")).body.contains(&id));
    let entered = with("/enter", &format!("Authorization: Bearer {SECRET}"));
    let cookie = entered.field("Set-Cookie");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains(SECRET), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert!(with("/", &format!("Cookie: other=1; {pair}")).body.contains(&id));
    // A page of another origin has no use for the cookie.
    let crossed = serving.ask(&[
        "GET / HTTP/1.1",
        "Host: localhost",
        "Origin: http://evil.example",
        &format!("Cookie: {pair}"),
    ]);
    assert!(crossed.status == 403 && !crossed.body.contains(&id));
    let line = std::fs::read(format!("/proc/{}/cmdline", serving.child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains(SECRET));
    let (ended, said) = serving.end("INT");
    assert_eq!(ended, Some(0));
    assert!(!said.contains(SECRET), "{said}");
}

#[test]
fn what_others_could_reach_is_not_served_without_token_and_tls() {
    let home = Home::new();
    let tls = format!("{}/tests/recorded/tls", env!("CARGO_MANIFEST_DIR"));
    let pem = |name: &str| std::fs::read_to_string(format!("{tls}/{name}")).unwrap();
    home.write("certificate.pem", &pem("certificate.pem"));
    secret_file(&home, "key.pem", &pem("key.pem"), 0o600);
    secret_file(&home, "token", SECRET, 0o600);
    secret_file(&home, "known", SECRET, 0o644);
    secret_file(&home, "known.pem", &pem("key.pem"), 0o644);
    for (line, said) in [
        ("--listen 0.0.0.0:0", "--token-file FILE, --certificate FILE and --key FILE"),
        ("--listen [::]:0", "--token-file FILE, --certificate FILE and --key FILE"),
        ("--listen 0.0.0.0:0 --token-file token", "give --certificate FILE and --key FILE"),
        ("--listen 0.0.0.0:0 --certificate certificate.pem --key key.pem", "give --token-file FILE"),
        ("--token-file known", "can be read by everybody"),
        ("--token-file nowhere", "No such file"),
        ("--token-file .", "is a directory"),
        ("--certificate certificate.pem --key known.pem", "can be read by everybody"),
        ("--certificate key.pem --key key.pem", "no certificate"),
        ("--certificate certificate.pem --key token", "no private key"),
        ("--certificate certificate.pem", "--key"),
        ("--listen example.org:80", "127.0.0.1:7340"),
    ] {
        let output = home.ebb(&format!("serve --store store.sqlite {line}")).output().unwrap();
        assert_eq!(status(&output), 2, "{line}: {output:?}");
        assert!(stderr(&output).contains(said), "{line}: {output:?}");
        assert!(!stderr(&output).contains(SECRET), "{output:?}");
    }

    let id = stored(&home).meta.id;
    let serving = Serving::start(
        &home,
        "--listen 0.0.0.0:0 --token-file token --certificate certificate.pem --key key.pem",
    );
    assert!(serving.url.starts_with("https://0.0.0.0:"), "{}", serving.url);
    let certificate = CertificateDer::from_pem_slice(pem("certificate.pem").as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let ask = |lines: &[&str]| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(config.clone(), name).unwrap();
        Answer::of(StreamOwned::new(connection, serving.connect()), lines)
    };
    let bearer = format!("Authorization: Bearer {SECRET}");
    assert_eq!(ask(&["GET / HTTP/1.1", "Host: localhost"]).status, 401);
    let answer = ask(&["GET / HTTP/1.1", "Host: localhost", &bearer]);
    assert!(answer.status == 200 && answer.body.contains(&id), "{answer:?}");
    assert_eq!(answer.field("Content-Length").parse(), Ok(answer.body.len()));
    let cookie = ask(&["GET /enter HTTP/1.1", "Host: localhost", &bearer]);
    assert!(
        cookie.field("Set-Cookie").starts_with("__Host-ebb-")
            && cookie.field("Set-Cookie").ends_with("; Secure")
    );
    assert_eq!(ask(&["GET / HTTP/1.1", "Host: evil.example", &bearer]).status, 421);
    // Without TLS nothing is said.
    let mut plain = serving.connect();
    plain.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n\r\n").as_bytes()).unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!String::from_utf8_lossy(&said).contains("HTTP"), "{said:?}");
}

#[test]
fn a_socket_with_a_name_is_its_users_and_goes_with_the_server() {
    let home = Home::new();
    stored(&home);
    let serving = Serving::start(&home, "--listen ./socket");
    let path = home.path("socket");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |host: &str| {
        Answer::of(UnixStream::connect(&path).unwrap(), &["GET / HTTP/1.1", &format!("Host: {host}")])
    };
    assert_eq!(ask("localhost").status, 200);
    assert_eq!(ask("evil.example").status, 421);
    let second = home.ebb("serve --store store.sqlite --listen ./socket").output().unwrap();
    assert!(status(&second) == 1 && stderr(&second).contains("another program listens there"), "{second:?}");
    assert_eq!(serving.end("TERM").0, Some(0));
    assert!(!path.exists());
}

#[test]
fn a_port_that_is_taken_is_said() {
    let home = Home::new();
    let first = Serving::local(&home);
    let output =
        home.ebb(&format!("serve --store store.sqlite --listen {}", first.address())).output().unwrap();
    assert!(
        status(&output) == 1 && stderr(&output).contains("choose another place with --listen"),
        "{output:?}"
    );
}

#[test]
fn weeks_of_a_volume_are_drawn_with_their_changes() {
    let home = Home::new();
    let last = UnixTime::from_secs(1_774_000_000);
    monitored(&home, last);
    let serving = Serving::local(&home);
    let volumes = serving.get("/volumes");
    assert_eq!(volumes.status, 200);
    assert!(
        volumes.body.contains("data-refresh=\"60\"") && volumes.body.contains("2 volumes"),
        "{}",
        volumes.body
    );
    assert!(volumes.body.contains("of its seeks on"), "{}", volumes.body);
    assert!(!serving.get("/volumes?refresh=no").body.contains("data-refresh"));
    no_markup_of_others(&volumes.body);
    let link = volumes.body.split("href=\"/volume?id=vol-").nth(1).unwrap().split('"').next().unwrap();
    let page = serving.get(&format!("/volume?id=vol-{link}"));
    assert_eq!(page.status, 200);
    for part in [
        "lost 50% of its seeks",
        "curve other mark",
        "curve level",
        "curve other event",
        "id=\"events\"",
        "change to kernel 6.2",
        "id=\"measured\"",
        "id=\"load\"",
        "weeks=26",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    no_markup_of_others(&page.body);
    let early = serving.get(&format!("/volume?id=vol-{link}&weeks=1&until=2026-03-08"));
    assert!(early.status == 200 && early.body.contains("2026-03-02 to 2026-03-08"), "{}", early.body);
    assert!(!early.body.contains("curve other mark") && !early.body.contains("curve other event"));
    let figures = serving.get("/metrics");
    assert_eq!(
        (figures.status, figures.field("Content-Type")),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(figures.body.contains("\nebbtide_volume_change_ratio{id=\"vol-"), "{}", figures.body);
    assert!(figures.body.ends_with("# EOF\n") && figures.body.contains("\nebbtide_monitor_paused 0\n"));
    let other = serving.get("/volume?id=file%3A%2Fdata%2F..%2Fvol+2&weeks=all");
    assert!(other.status == 200 && other.body.contains("no lasting change of 5% or more"), "{}", other.body);
    for (query, said) in [
        ("", "Its id is wanted"),
        ("?id=none", "No volume"),
        ("?id=none&weeks=0", "weeks: write"),
        ("?id=none&until=yesterday", "until: write a day"),
    ] {
        let answer = serving.get(&format!("/volume{query}"));
        assert!(matches!(answer.status, 400 | 404) && answer.body.contains(said), "{query}: {answer:?}");
    }
}

#[test]
fn a_store_that_is_replaced_is_read_anew() {
    let home = Home::new();
    let serving = Serving::local(&home);
    assert!(serving.get("/").body.contains("Nothing is stored yet"));
    assert!(serving.get("/metrics").body.contains("ebbtide_monitor_paused 0\n# EOF"));
    let id = stored(&home).meta.id;
    assert!(serving.get("/").body.contains(&id));
    for name in ["store.sqlite", "store.sqlite-wal", "store.sqlite-shm"] {
        let _ = std::fs::remove_file(home.path(name));
    }
    assert!(!serving.get("/").body.contains(&id));
}
