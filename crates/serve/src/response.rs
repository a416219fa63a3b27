//! An answer, and what every answer tells a browser.

use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::sync::Arc;

/// What is sent back for one request.
#[derive(Debug, Clone)]
pub struct Response {
    status: u16,
    kind: &'static str,
    body: Arc<str>,
    fields: Vec<(&'static str, String)>,
}

impl Response {
    /// A page of HTML.
    pub fn page(status: u16, body: impl Into<Arc<str>>) -> Response {
        Response::new(status, "text/html; charset=utf-8", body)
    }

    /// A body of JSON.
    pub fn json(status: u16, body: impl Into<Arc<str>>) -> Response {
        Response::new(status, "application/json", body)
    }

    /// A body of plain text.
    pub fn text(status: u16, body: impl Into<Arc<str>>) -> Response {
        Response::new(status, "text/plain; charset=utf-8", body)
    }

    /// Figures in Prometheus' text format.
    pub fn figures(body: impl Into<Arc<str>>) -> Response {
        Response::new(200, "text/plain; version=0.0.4; charset=utf-8", body)
    }

    fn new(status: u16, kind: &'static str, body: impl Into<Arc<str>>) -> Response {
        Response { status, kind, body: body.into(), fields: Vec::new() }
    }

    /// With a header field more.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.fields.push((name, value.into()));
        self
    }

    /// Writes it, without its body where that is not wanted.
    pub(crate) fn write(&self, to: &mut impl Write, policy: &Policy, head_only: bool) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n",
            self.status,
            reason(self.status),
            self.kind,
            self.body.len()
        );
        for (name, value) in ALWAYS {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Security-Policy: {}\r\n", policy.0);
        for (name, value) in &self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        to.write_all(head.as_bytes())?;
        if !head_only {
            to.write_all(self.body.as_bytes())?;
        }
        to.flush()
    }
}

/// With every answer: nothing is guessed, framed, embedded, kept or told to others.
const ALWAYS: [(&str, &str); 8] = [
    ("Connection", "close"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
];

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// What a browser may load and run for the pages of a site: the styles and scripts that it was given, by their SHA-256, and nothing else.
#[derive(Debug, Clone)]
pub struct Policy(String);

impl Policy {
    /// Of pages whose `style` and `script` elements have exactly these contents.
    pub fn of(styles: &[&str], scripts: &[&str]) -> Policy {
        let hashes = |texts: &[&str]| {
            let each =
                texts.iter().map(|text| format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes()))));
            each.collect::<Vec<_>>().join(" ")
        };
        Policy(format!(
            "default-src 'none'; style-src {}; script-src {}; img-src data:; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'",
            hashes(styles),
            hashes(scripts)
        ))
    }
}

/// RFC 4648, 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let number =
            three.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letter = |place: usize| match place <= three.len() {
            true => char::from(LETTERS[(number >> (18 - 6 * place) & 63) as usize]),
            false => '=',
        };
        [letter(0), letter(1), letter(2), letter(3)]
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn a_policy_allows_what_it_was_given_by_its_hash() {
        // printf '' | openssl dgst -sha256 -binary | base64
        let Policy(policy) = Policy::of(&[""], &[""]);
        let hash = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        assert!(policy.contains(&format!("style-src {hash}; script-src {hash};")), "{policy}");
        assert!(!policy.contains("unsafe"));
    }

    #[test]
    fn an_answer_says_how_long_it_is_and_that_it_is_the_last() {
        let mut all = Vec::new();
        let policy = Policy::of(&[], &[]);
        Response::text(404, "nö").write(&mut all, &policy, false).unwrap();
        let text = String::from_utf8(all).unwrap();
        assert!(text.starts_with("HTTP/1.1 404 Not Found\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 3\r\n") && text.contains("\r\nConnection: close\r\n"));
        assert!(text.ends_with("\r\n\r\nnö"));
        let mut head = Vec::new();
        Response::text(404, "nö").write(&mut head, &policy, true).unwrap();
        assert_eq!(String::from_utf8(head).unwrap(), text.trim_end_matches("nö"));
    }
}
