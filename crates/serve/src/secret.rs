//! The token: read from a file that nobody else reads, compared in constant time, never written anywhere.
//!
//! A program sends it as `Authorization: Bearer TOKEN`. A browser sends it so once, from a page that asks for it, and gets a cookie, which is
//! not the token but its HMAC: cookies go to every port of a host.

use crate::ServeError;
use ebbtide_door::read;
use ring::hmac;
use ring::rand::SystemRandom;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Characters that a token has at least: 22 of base64 are 128 bits.
const LEAST: usize = 22;
/// Bytes that a token's file has at most.
const MOST: u64 = 4096;
/// What the cookie is the HMAC of.
const COOKIE: &[u8] = b"ebb serve: cookie, 1";
const WHAT: &str = "the token file";

/// The secret that a request must show.
pub struct Token {
    /// Random: what is compared are tags under it, which take the same time whatever was given.
    key: hmac::Key,
    tag: hmac::Tag,
    cookie: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// The token that is the content of the file `path`, without white space around it.
    ///
    /// # Errors
    /// When the file cannot be read, can be read by others, or is no token.
    pub fn read(path: &Path) -> Result<Token, ServeError> {
        let content = secret(WHAT, path, 0o077, MOST)?;
        let wrong = |why: String| ServeError::Wrong { what: WHAT, path: path.to_owned(), why };
        let remedy = "make one with `head -c 32 /dev/urandom | base64`";
        let token = content.trim_ascii();
        if token.len() < LEAST {
            return Err(wrong(format!("a token has at least {LEAST} characters; {remedy}")));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(wrong(format!(
                "a token is one word of ASCII letters, digits and punctuation; {remedy}"
            )));
        }
        Token::new(token).ok_or_else(|| wrong("the system has no random numbers".to_owned()))
    }

    fn new(token: &[u8]) -> Option<Token> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        let tag = hmac::sign(&key, token);
        let cookie = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, token), COOKIE);
        let cookie = cookie.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Token { key, tag, cookie })
    }

    /// Whether `given` is the token.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        hmac::verify(&self.key, given, self.tag.as_ref()).is_ok()
    }

    /// Whether `given` is the cookie's value.
    pub(crate) fn is_cookie(&self, given: &[u8]) -> bool {
        let tag = hmac::sign(&self.key, self.cookie.as_bytes());
        hmac::verify(&self.key, given, tag.as_ref()).is_ok()
    }

    /// Value of the cookie that lets a browser in.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }
}

/// The content of the file `path`, of which nobody may have the permissions `others`.
pub(crate) fn secret(what: &'static str, path: &Path, others: u32, most: u64) -> Result<Vec<u8>, ServeError> {
    let unreadable =
        |why: read::ReadError| ServeError::Unreadable { what, path: path.to_owned(), why: why.to_string() };
    let mut file = read::regular(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(|error| unreadable(error.into()))?.mode() & 0o777;
    if mode & others != 0 {
        let whom = if mode & 0o007 != 0 { "everybody on this host" } else { "others of its group" };
        return Err(ServeError::NoSecret { what, path: path.to_owned(), whom, mode });
    }
    read::up_to(&mut file, most).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const GOOD: &str = "0123456789abcdefghijkl";

    #[test]
    fn a_token_is_itself_and_nothing_else() {
        let token = Token::new(GOOD.as_bytes()).unwrap();
        assert!(token.is(GOOD.as_bytes()));
        for other in ["", "0", &GOOD[1..], &format!("{GOOD}0"), &GOOD.to_uppercase(), token.cookie()] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert!(token.is_cookie(token.cookie().as_bytes()));
        assert!(!token.is_cookie(GOOD.as_bytes()));
        assert_eq!(Token::new(GOOD.as_bytes()).unwrap().cookie(), token.cookie(), "lives over a restart");
        assert!(!format!("{token:?}").contains(GOOD));
    }

    #[test]
    fn a_token_that_others_read_or_guess_is_refused() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = place.path().join("token");
        let read = |content: &str, mode: u32| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map(|token| token.is(GOOD.as_bytes())).map_err(|error| error.to_string())
        };
        assert_eq!(read(&format!(" {GOOD}\n"), 0o600), Ok(true));
        assert_eq!(read(GOOD, 0o400), Ok(true));
        for (content, mode, word) in [
            (GOOD, 0o644, "everybody"),
            (GOOD, 0o604, "everybody"),
            (GOOD, 0o640, "its group"),
            ("short\n", 0o600, "at least 22"),
            ("two words that are long enough", 0o600, "one word"),
            ("schlüssel-der-lang-genug-ist", 0o600, "one word"),
        ] {
            let error = read(content, mode).unwrap_err();
            assert!(error.contains(word), "{error}");
            assert!(!error.contains(GOOD), "{error}");
        }
        assert!(Token::read(&place.path().join("none")).unwrap_err().to_string().contains("No such file"));
    }
}
