//! Who may ask, and what no request gets.

use super::serving::{Answer, Serving, stored};
use crate::common::{Home, status, stderr};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Barrier;

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

#[test]
fn what_other_hosts_could_reach_is_not_served() {
    let home = Home::new();
    for (line, said) in [
        ("--listen 0.0.0.0:0", "ssh -L"),
        ("--listen [::]:0", "ssh -L"),
        ("--listen 10.1.2.3:7340", "ssh -L"),
        ("--listen example.org:80", "127.0.0.1:7340"),
    ] {
        let output = home.ebb(&format!("serve --store store.sqlite {line}")).output().unwrap();
        assert_eq!(status(&output), 2, "{line}: {output:?}");
        assert!(stderr(&output).contains(said), "{line}: {output:?}");
    }
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
