//! Records of what was made on this host: obeyed only where nobody but root, or who asks, can have written them.

use crate::sys::{self, Sys};
use ebbtide_door::read::{self, ReadError};
use ebbtide_model::shown::Shown;
use rustix::process::{getegid, geteuid};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The record at `path`, which has the form `schema`; nothing where there is none.
///
/// # Errors
/// Why it is not obeyed, as a sentence about it.
pub(crate) fn record<T: DeserializeOwned>(
    sys: &Sys,
    path: &Path,
    schema: &str,
    longest: u64,
) -> Result<Option<T>, String> {
    #[derive(Deserialize)]
    struct Form {
        schema: String,
    }
    let Some(bytes) = bytes(sys, path, longest)? else { return Ok(None) };
    let unfit = |error| format!("it is no record of this version: {error}");
    let Form { schema: found } = serde_json::from_slice(&bytes).map_err(unfit)?;
    if found != schema {
        return Err(other_form(&found, schema));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(unfit)
}

/// The content of the record at `path`; nothing where there is none.
///
/// # Errors
/// As [`record`].
pub(crate) fn bytes(sys: &Sys, path: &Path, longest: u64) -> Result<Option<Vec<u8>>, String> {
    let mut file = match read::regular(path) {
        Err(ReadError::System(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| error.of_it())?,
    };
    let found = file.metadata().map_err(|error| format!("it cannot be looked at: {error}"))?;
    is_trusted(sys, path, &found).map_err(|(who, mend)| format!("it {who}: {mend}"))?;
    if let Some(place) = path.parent() {
        is_trusted_place(sys, place)?;
    }
    read::up_to(&mut file, longest).map(Some).map_err(|error| error.of_it())
}

/// Whether records in the directory `place` are obeyed, where it is there.
///
/// # Errors
/// Why not, and what mends it.
pub(crate) fn is_trusted_place(sys: &Sys, place: &Path) -> Result<(), String> {
    for place in place.ancestors().take(2) {
        let Ok(found) = std::fs::metadata(place) else { continue };
        is_trusted(sys, place, &found)
            .map_err(|(who, mend)| format!("the directory {} {who}: {mend}", place.shown()))?;
    }
    Ok(())
}

/// Who else can write to `path`, and what mends that.
fn is_trusted(sys: &Sys, path: &Path, found: &Metadata) -> Result<(), (String, String)> {
    let (me, group) = (geteuid().as_raw(), getegid().as_raw());
    let is_own = [0, me].contains(&found.uid());
    let of_others = if [0, group].contains(&found.gid()) { 0o002 } else { 0o022 };
    let is_closed = found.mode() & of_others == 0;
    let (who, commands): (_, &[&str]) = match (is_own, is_closed) {
        (true, true) => return Ok(()),
        (true, false) => {
            (format!("may be written to by others (mode {:o})", found.mode() & 0o7777), &["chmod go-w"])
        }
        (false, true) => (format!("belongs to {}", user(sys, found.uid())), &["chown root:"]),
        (false, false) => (
            format!("belongs to {}, and others may write to it, too", user(sys, found.uid())),
            &["chown root:", "chmod go-w"],
        ),
    };
    let commands: Vec<String> =
        commands.iter().map(|command| format!("`{command} {}`", path.shown())).collect();
    let mend = format!("see that nobody has changed what is in it, and then {}", commands.join(" and "));
    Err((who, mend))
}

/// The user with the number `uid`, by name where there is one.
fn user(sys: &Sys, uid: u32) -> String {
    let users = sys::text(&sys.at(Path::new("/etc/passwd"))).unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.map_or_else(|| format!("the user {uid}"), |name| format!("the user {name} ({uid})"))
}

/// That a record has the form `found`, and not `known`.
pub(crate) fn other_form(found: &str, known: &str) -> String {
    let version = |form: &str| {
        Some((form.rsplit_once('/')?.0.to_owned(), form.rsplit_once('/')?.1.parse::<u32>().ok()?))
    };
    match (version(found), version(known)) {
        (Some((form, found)), Some((same, known))) if form == same && found > known => format!(
            "it was written by a newer ebb ({form}/{found}, and this one knows {same}/{known}): use that one, or a newer one"
        ),
        _ => format!("it has the form {}, and this ebb knows {known}", Path::new(found).shown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn what_others_may_have_written_is_not_obeyed() {
        let root = tempfile::tempdir().expect("a directory");
        let place = root.path().join("ebbtide/apply");
        fs::create_dir_all(&place).expect("makes");
        fs::create_dir_all(root.path().join("etc")).expect("makes");
        fs::write(
            root.path().join("etc/passwd"),
            "root:x:0:0::/root:/bin/sh\nalice:x:4711:4711::/:/bin/sh\n",
        )
        .expect("writes");
        let path = place.join("data.json");
        fs::write(&path, "{\"schema\":\"ebbtide.apply/1\"}").expect("writes");
        let above = place.parent().expect("has one").to_owned();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("sets");
        for directory in [&place, &above] {
            mode(directory, 0o755);
        }
        mode(&path, 0o600);
        let sys = Sys::below(root.path());
        let read = || bytes(&sys, &path, 1 << 10);
        assert!(matches!(read(), Ok(Some(_))));
        for (changed, usual) in [(&path, 0o600), (&place, 0o755), (&above, 0o755)] {
            mode(changed, usual | 0o002);
            let said = read().expect_err("is refused");
            assert!(
                said.contains("by others") && said.contains(&format!("`chmod go-w {}`", changed.display())),
                "{said}"
            );
            mode(changed, usual);
            if geteuid().is_root() {
                chown(changed, Some(4711), Some(0)).expect("gives it away");
                let said = read().expect_err("is refused");
                assert!(
                    said.contains("the user alice (4711)")
                        && said.contains(&format!("`chown root: {}`", changed.display())),
                    "{said}"
                );
                chown(changed, Some(0), Some(0)).expect("takes it back");
            }
        }
        assert!(matches!(read(), Ok(Some(_))));
        assert!(is_trusted_place(&sys, &root.path().join("not/there")).is_ok());
    }

    #[test]
    fn a_record_of_another_form_says_which_ebb_reads_it() {
        let root = tempfile::tempdir().expect("a directory");
        let place = root.path().join("ebbtide/apply");
        fs::create_dir_all(&place).expect("makes");
        let path = place.join("data.json");
        let read = |text: &str| {
            fs::write(&path, text).expect("writes");
            record::<serde_json::Value>(&Sys::below(root.path()), &path, "ebbtide.apply/1", 1 << 10)
        };
        assert!(matches!(read("{\"schema\":\"ebbtide.apply/1\"}"), Ok(Some(_))));
        for (text, wanted) in [
            (
                "{\"schema\":\"ebbtide.apply/2\",\"steps\":7}",
                "it was written by a newer ebb (ebbtide.apply/2",
            ),
            (
                "{\"schema\":\"ebbtide.attach/2\"}",
                "it has the form ebbtide.attach/2, and this ebb knows ebbtide.apply/1",
            ),
            ("{}", "it is no record of this version"),
            ("{\"schema\":\"ebbtide.apply/99999999999\"}", "it has the form"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(wanted), "{said}");
        }
    }
}
