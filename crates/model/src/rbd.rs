//! Images of Ceph's block storage (RBD), as experiments and command lines name them: `rbd:POOL/IMAGE`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// How a name of an image begins, which no path below /dev does.
pub const PREFIX: &str = "rbd:";
/// How one is written, for errors.
const FORM: &str =
    "write rbd:POOL/IMAGE, rbd:POOL/NAMESPACE/IMAGE, or rbd:POOL/IMAGE@SNAPSHOT to read a snapshot";

/// An image, or a snapshot of one. Its parts are not empty and have neither `/` nor `@`, as Ceph has it (rbd(8), image-spec).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Image {
    /// The pool that it is in.
    pub pool: String,
    /// The namespace in the pool, where it is not the default one.
    pub namespace: Option<String>,
    /// The image's name in the pool.
    pub name: String,
    /// The snapshot of it, which can be read only.
    pub snapshot: Option<String>,
}

/// Why a text names no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no image of Ceph: {remedy}")]
pub struct ImageError {
    /// As it was given.
    pub text: String,
    /// What to write instead.
    pub remedy: String,
}

impl Image {
    /// The image that `text` names; nothing where it does not begin as the name of one.
    ///
    /// # Errors
    /// When it begins so and names none.
    pub fn named(text: &str) -> Result<Option<Image>, ImageError> {
        if text.starts_with(PREFIX) { text.parse().map(Some) } else { Ok(None) }
    }

    /// The same of what stands in the place of a path. A file of such a name is `./rbd:...`.
    ///
    /// # Errors
    /// When it begins so and names none.
    pub fn named_by(path: &Path) -> Result<Option<Image>, ImageError> {
        path.to_str().map_or(Ok(None), Image::named)
    }

    /// As Ceph's programs take it: `POOL/IMAGE`.
    pub fn spec(&self) -> String {
        self.to_string().split_off(PREFIX.len())
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Image { pool, namespace, name, snapshot } = self;
        write!(f, "{PREFIX}{pool}/")?;
        if let Some(namespace) = namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(name)?;
        snapshot.as_ref().map_or(Ok(()), |snapshot| write!(f, "@{snapshot}"))
    }
}

impl FromStr for Image {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Image, ImageError> {
        let wrong = |remedy: String| ImageError { text: text.to_owned(), remedy };
        let malformed = || wrong(FORM.to_owned());
        let spec = text.strip_prefix(PREFIX).ok_or_else(malformed)?;
        let (whole, snapshot) = match spec.split_once('@') {
            Some((whole, snapshot)) => (whole, Some(snapshot)),
            None => (spec, None),
        };
        let parts: Vec<&str> = whole.split('/').collect();
        let is_wrong =
            |part: &&str| part.is_empty() || part.contains(|c: char| c == '@' || c == '/' || c.is_control());
        if parts.iter().chain(&snapshot).any(is_wrong) {
            return Err(malformed());
        }
        let (pool, namespace, name) = match parts.as_slice() {
            [name] => {
                return Err(wrong(format!(
                    "write its pool too, as {PREFIX}POOL/{name}; in the pool that Ceph takes where none is said it is {PREFIX}rbd/{name}"
                )));
            }
            [pool, name] => (*pool, None, *name),
            [pool, namespace, name] => (*pool, Some((*namespace).to_owned()), *name),
            _ => return Err(malformed()),
        };
        Ok(Image {
            pool: pool.to_owned(),
            namespace,
            name: name.to_owned(),
            snapshot: snapshot.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_written_as_they_are_read() {
        for text in
            ["rbd:rbd/vol1", "rbd:fast/team-a/db.0", "rbd:rbd/vol1@monday", "rbd:fast/team-a/db 0@2026-11-25"]
        {
            let image = Image::named(text).expect("an image").expect("one of Ceph's");
            assert_eq!(image.to_string(), text);
            assert_eq!(format!("rbd:{}", image.spec()), text);
        }
        let image: Image = "rbd:fast/team-a/db@old".parse().expect("an image");
        assert_eq!((image.pool.as_str(), image.namespace.as_deref()), ("fast", Some("team-a")));
        assert_eq!((image.name.as_str(), image.snapshot.as_deref()), ("db", Some("old")));
    }

    #[test]
    fn what_is_no_image_says_what_to_write() {
        let no_pool = Image::named("rbd:vol1").expect_err("no pool").to_string();
        assert!(no_pool.ends_with("it is rbd:rbd/vol1"), "{no_pool}");
        for text in [
            "rbd:",
            "rbd:/",
            "rbd:/vol1",
            "rbd:rbd/",
            "rbd://rbd/vol1",
            "rbd:a//b",
            "rbd:a/b/c/d",
            "rbd:a/b@",
            "rbd:a/b@c@d",
            "rbd:a/b@c/d",
            "rbd:@a/b",
            "rbd:a@b/c",
            "rbd:a/b\nc",
            "rbd:a/\u{1b}[31m",
        ] {
            let error = Image::named(text).expect_err(text).to_string();
            assert!(error.contains("write rbd:POOL/IMAGE"), "{text:?}: {error}");
        }
        for text in ["/dev/rbd0", "rbd/vol1", "./rbd:a/b", "RBD:a/b", ""] {
            assert_eq!(Image::named(text), Ok(None), "{text}");
        }
    }
}
