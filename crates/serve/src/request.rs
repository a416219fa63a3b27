//! A request: its head, read with a limit, and what it asks for, taken apart once.

use std::io::{self, Read};

/// Header fields of a request at most.
const FIELDS: usize = 64;

/// Why a request is not answered as it was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadRequest {
    /// The other end went away, or said nothing.
    Gone,
    /// It took too long.
    Slow,
    /// Its head is longer than may be.
    Long,
    /// It is no HTTP, or has what no page here takes.
    Malformed(&'static str),
    /// It wants to do something else than read.
    Method,
}

/// What is asked, as a site sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Parts of the path, decoded: `/session/x` has two; none is empty, `.` or `..`, or has a slash or a control in it.
    pub path: Vec<String>,
    /// What follows the question mark, decoded, in its order.
    pub query: Vec<(String, String)>,
}

impl Request {
    /// The value of the first `name` in the query.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The values of every `name` in the query.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The head of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) request: Request,
    /// Whether the body is not wanted.
    pub(crate) head_only: bool,
    /// Names in lower case, and values.
    fields: Vec<(String, Vec<u8>)>,
}

impl Head {
    /// The values of every field `name`, which is in lower case.
    pub(crate) fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_slice())
    }

    /// The value of the field `name`; an error where there are several.
    pub(crate) fn field(&self, name: &str) -> Result<Option<&[u8]>, BadRequest> {
        let mut all =
            self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_slice());
        match (all.next(), all.next()) {
            (value, None) => Ok(value),
            _ => Err(BadRequest::Malformed("a header field is there twice")),
        }
    }

    /// Reads a head of at most `most` bytes.
    pub(crate) fn read(from: &mut impl Read, most: usize) -> Result<Head, BadRequest> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 2048];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) if bytes.is_empty() => return Err(BadRequest::Gone),
                Ok(0) => return Err(BadRequest::Malformed("the request ends early")),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(BadRequest::Slow),
                Err(_) => return Err(BadRequest::Gone),
            };
            bytes.extend(&buffer[..read]);
            // What comes after the head is a body, which nothing here reads.
            let whole = parse(&bytes[..bytes.len().min(most)])?;
            if let Some(head) = whole {
                return Ok(head);
            }
            if bytes.len() >= most {
                return Err(BadRequest::Long);
            }
        }
    }
}

/// The head that `bytes` begin with; nothing where it is not all there yet.
fn parse(bytes: &[u8]) -> Result<Option<Head>, BadRequest> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(BadRequest::Long),
        Err(_) => return Err(BadRequest::Malformed("it is no HTTP/1.1")),
    }
    let head_only = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(BadRequest::Method),
    };
    let request = target(parsed.path.unwrap_or_default())?;
    let fields = parsed.headers.iter().map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec()));
    let head = Head { request, head_only, fields: fields.collect() };
    let empty = |value: &[u8]| value == b"0";
    if head.fields("transfer-encoding").next().is_some() || !head.fields("content-length").all(empty) {
        return Err(BadRequest::Malformed("nothing here takes a body"));
    }
    Ok(Some(head))
}

/// What the request line asks for.
fn target(text: &str) -> Result<Request, BadRequest> {
    let wrong = BadRequest::Malformed("the address is none of this server");
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let path = path.strip_prefix('/').ok_or(wrong)?;
    let part = |text: &str| {
        let part = decode(text, false)?;
        let hostile = part.is_empty()
            || part == "."
            || part == ".."
            || part.contains(|c: char| c.is_control() || c == '/' || c == '\\');
        (!hostile).then_some(part)
    };
    let path: Option<Vec<String>> =
        if path.is_empty() { Some(Vec::new()) } else { path.split('/').map(part).collect() };
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        Some((decode(name, true)?, decode(value, true)?))
    };
    let query: Option<Vec<(String, String)>> =
        query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    Ok(Request { path: path.ok_or(wrong)?, query: query.ok_or(wrong)? })
}

/// `text` without percent signs (RFC 3986, 2.1); in a `form`, plus signs are spaces. Nothing where that is no UTF-8.
fn decode(text: &str, form: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b'+' if form => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Head, BadRequest> {
        Head::read(&mut text.as_bytes(), 8192)
    }

    #[test]
    fn a_request_is_taken_apart() {
        let head =
            read("GET /session/a%2Db?x=1&y=a+b%26&x=%C3%A4&z HTTP/1.1\r\nHost: h\r\nX-Y: z\r\n\r\n").unwrap();
        assert_eq!(head.request.path, ["session", "a-b"]);
        assert_eq!(head.request.get("x"), Some("1"));
        assert_eq!(head.request.all("x").collect::<Vec<_>>(), ["1", "ä"]);
        assert_eq!(head.request.get("y"), Some("a b&"));
        assert_eq!(head.request.get("z"), Some(""));
        assert_eq!(head.field("host"), Ok(Some(&b"h"[..])));
        assert!(!head.head_only && read("HEAD / HTTP/1.1\r\n\r\n").unwrap().head_only);
    }

    #[test]
    fn no_path_leads_out_of_the_routes() {
        for path in [
            "/..",
            "/../etc/passwd",
            "/%2e%2e/etc/passwd",
            "/a/%2E./b",
            "/a//b",
            "/a/./b",
            "/a%2Fb",
            "/a%5cb",
            "/a%00b",
            "/%ff",
            "/%",
            "/%4",
            "/%zz",
            "/%+1",
            "etc",
            "http://other/",
            "*",
        ] {
            let answer = read(&format!("GET {path} HTTP/1.1\r\n\r\n"));
            assert!(matches!(answer, Err(BadRequest::Malformed(_))), "{path}: {answer:?}");
        }
        assert_eq!(read("GET / HTTP/1.1\r\n\r\n").unwrap().request, Request::default());
    }

    #[test]
    fn what_is_no_reading_is_refused() {
        for (text, expected) in [
            ("POST / HTTP/1.1\r\n\r\n", BadRequest::Method),
            ("DELETE / HTTP/1.1\r\n\r\n", BadRequest::Method),
            (
                "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                BadRequest::Malformed("nothing here takes a body"),
            ),
            (
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                BadRequest::Malformed("nothing here takes a body"),
            ),
            ("", BadRequest::Gone),
            ("GET / HTTP/1.1\r\nHost", BadRequest::Malformed("the request ends early")),
            ("\u{16}\u{3}\u{1}", BadRequest::Malformed("it is no HTTP/1.1")),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
        let twice = read("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n").unwrap();
        assert!(twice.field("host").is_err());
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000));
        assert_eq!(read(&long).unwrap_err(), BadRequest::Long);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(FIELDS + 1));
        assert_eq!(read(&many).unwrap_err(), BadRequest::Long);
        assert_eq!(
            read(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(9000))).unwrap_err(),
            BadRequest::Long
        );
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Head::read(&mut bytes.as_slice(), 256);
        }

        #[test]
        fn parts_of_a_path_name_nothing_above(path in "[a%./0-9A-F\\\\]{0,30}") {
            if let Ok(request) = target(&format!("/{path}")) {
                for part in request.path {
                    prop_assert!(!part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\\']));
                }
            }
        }
    }
}
