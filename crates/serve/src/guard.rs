//! Who asks: the name that the request was sent to, and the page that sent it.
//!
//! A page on the network can make a browser ask this server, and with a name of its own that leads to a loopback address (DNS rebinding)
//! read what it answers. The name is in the Host header, the page's origin in Origin and, in short, in Sec-Fetch-Site
//! (<https://www.w3.org/TR/fetch-metadata/>). A link on another page may be followed, as a document of its own.

use crate::request::{BadRequest, Head};
use std::net::{IpAddr, SocketAddr};

/// What a request came in through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Through<'a> {
    /// The address of this host; none for a UNIX socket.
    pub(crate) local: Option<SocketAddr>,
    /// Other names of this host that its user gave.
    pub(crate) names: &'a [String],
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was sent to another name.
    Host,
    /// A page of another origin sent it.
    Origin,
}

/// Whether a request may be answered at all.
pub(crate) fn judge(head: &Head, through: Through<'_>) -> Result<Result<(), Refused>, BadRequest> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).to_ascii_lowercase();
    let host = head.field("host")?.ok_or(BadRequest::Malformed("it has no Host"))?;
    let host = text(host);
    if !is_own(&host, through) {
        return Ok(Err(Refused::Host));
    }
    // A web server before this one may speak TLS, for the names that were given.
    let own = |origin: &str| match origin.split_once("://") {
        Some(("http", name)) => name == host,
        Some(("https", name)) => name == host && is_given(&host, through.names),
        _ => false,
    };
    if !head.fields("origin").all(|origin| own(&text(origin))) {
        return Ok(Err(Refused::Origin));
    }
    let is = |name: &str, wanted: &[&[u8]]| head.fields(name).all(|value| wanted.contains(&value));
    let has = |name: &str, wanted: &[u8]| head.fields(name).any(|value| value == wanted);
    let from_here = is("sec-fetch-site", &[b"same-origin", b"none"]);
    let followed = has("sec-fetch-mode", b"navigate")
        && has("sec-fetch-dest", b"document")
        && is("sec-fetch-mode", &[b"navigate"])
        && is("sec-fetch-dest", &[b"document"]);
    Ok(if from_here || followed { Ok(()) } else { Err(Refused::Origin) })
}

/// Whether `host`, a Host header, is a name of this server. The port may be another one: `ssh -L` has its own.
fn is_own(host: &str, through: Through<'_>) -> bool {
    let Some(name) = name_of(host) else { return false };
    let address = name.parse::<IpAddr>().ok();
    let loopback = name == "localhost" || address.is_some_and(|address| address.is_loopback());
    let reached = through.local.is_some_and(|local| address == Some(local.ip().to_canonical()));
    loopback || reached || is_given(host, through.names)
}

fn is_given(host: &str, names: &[String]) -> bool {
    name_of(host).is_some_and(|name| names.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

/// The name in a Host header; nothing where that is none.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']')? {
            (name, "") => (name, None),
            (name, port) => (name, port.strip_prefix(':').or(Some(""))),
        },
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    port.is_none_or(|port| port.parse::<u16>().is_ok()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(local: Option<&str>, names: &[&str], fields: &str) -> Result<Result<(), Refused>, BadRequest> {
        let text = format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
        let head = Head::read(&mut text.as_bytes(), 8192).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let local = local.map(|local| local.parse().unwrap());
        judge(&head, Through { local, names: &names })
    }

    #[test]
    fn only_own_names_are_answered() {
        let here = Some("127.0.0.1:7340");
        for host in ["localhost", "localhost:7340", "127.0.0.1:7340", "LOCALHOST:1", "[::1]:7340"] {
            assert_eq!(judged(here, &[], &format!("Host: {host}")), Ok(Ok(())), "{host}");
            assert_eq!(judged(None, &[], &format!("Host: {host}")), Ok(Ok(())), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7340",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7340",
            "localhost:7340:1",
            "localhost:",
            "localhost:http",
            "[::1",
            "[::1]x",
            "",
            "10.0.0.1",
            "localhost@evil.example",
            "user@localhost",
        ] {
            assert_eq!(judged(here, &[], &format!("Host: {host}")), Ok(Err(Refused::Host)), "{host}");
        }
        assert!(judged(here, &[], "X: y").is_err(), "no Host");
        assert!(judged(here, &[], "Host: localhost\r\nHost: evil.example").is_err(), "two of them");
    }

    #[test]
    fn given_names_are_its_own_and_a_web_server_before_it_may_speak_tls() {
        let (here, names) = (Some("127.0.0.1:7340"), &["Store.Example"]);
        for fields in ["Host: store.example:443", "Host: store.example\r\nOrigin: https://store.example"] {
            assert_eq!(judged(here, names, fields), Ok(Ok(())), "{fields}");
            assert_eq!(judged(here, &[], fields), Ok(Err(Refused::Host)), "{fields}");
        }
        let other = "Host: store.example\r\nOrigin: https://evil.example";
        assert_eq!(judged(here, names, other), Ok(Err(Refused::Origin)));
    }

    #[test]
    fn pages_of_others_are_not_answered() {
        let with =
            |fields: &str| judged(Some("127.0.0.1:7340"), &[], &format!("Host: localhost:7340\r\n{fields}"));
        for fields in [
            "Origin: http://localhost:7340",
            "Sec-Fetch-Site: same-origin",
            "Sec-Fetch-Site: none",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document",
        ] {
            assert_eq!(with(fields), Ok(Ok(())), "{fields}");
        }
        for fields in [
            "Origin: http://evil.example",
            "Origin: null",
            "Origin: http://localhost:7341",
            "Origin: https://localhost:7340",
            "Origin: http://localhost:7340\r\nOrigin: http://evil.example",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate",
        ] {
            assert_eq!(with(fields), Ok(Err(Refused::Origin)), "{fields}");
        }
    }
}
