//! Where the store is, and how SQLite opens it.

use super::error::StoreError;
use ebbtide_door::{Database, Directory, DoorError};
use ebbtide_model::shown::Shown;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a write waits for another process's write.
pub(super) const BUSY: Duration = Duration::from_secs(10);

/// Where the user's own store is: `$XDG_DATA_HOME/ebbtide/store.sqlite`, `~/.local/share` where that is not set
/// (XDG base directories; a relative path in the variable does not count).
///
/// # Errors
/// When the environment does not say.
pub fn default_path() -> Result<PathBuf, StoreError> {
    let directory =
        crate::places::user_directory("XDG_DATA_HOME", ".local/share").ok_or(StoreError::NoHome)?;
    Ok(directory.join("store.sqlite"))
}

/// [`default_path`], after making the directories above it, for this user only.
pub(super) fn make_default() -> Result<PathBuf, StoreError> {
    let path = default_path()?;
    if let Some(directory) = path.parent() {
        Directory::make_all(directory)
            .map_err(|error| StoreError::Directory { path: directory.to_owned(), what: error.to_string() })?;
    }
    Ok(path)
}

/// The file of the store at `path`, made where there is none and it is to be made.
pub(super) fn claim(path: &Path, make: bool) -> Result<Option<Database>, StoreError> {
    let open = |what: String| StoreError::Open { path: path.to_owned(), what };
    if make
        && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && !parent.exists()
    {
        return Err(open(format!("the directory {} does not exist", parent.shown())));
    }
    let file = Database::at(path, make).map_err(|error| match error {
        DoorError::Refused(refusal) => open(refusal.reasons_in_words()),
        DoorError::NoVolume { what, .. } => open(format!("it is {what}")),
        DoorError::Unnamed(what) => open(what),
        DoorError::System { source, .. } => open(source.to_string()),
    })?;
    match file.as_ref().and_then(Database::foreign) {
        Some(what) => Err(StoreError::NotAStore { path: path.to_owned(), what: what.to_owned() }),
        None => Ok(file),
    }
}

/// Opens `file` with `flags` beside those that every connection has; nothing of it is read yet.
pub(super) fn connect(file: &Database, flags: OpenFlags) -> Result<Connection, StoreError> {
    let fail = |error| StoreError::sqlite(file.path(), error);
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file.path(), flags).map_err(fail)?;
    connection.busy_timeout(BUSY).map_err(fail)?;
    Ok(connection)
}

/// Opens `file`, which cannot be written, or not what SQLite keeps beside it.
pub(super) fn read_only(file: &Database) -> Result<Connection, StoreError> {
    let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let reads = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
    };
    if reads(&connection).is_ok() {
        return Ok(connection);
    }
    // What goes with a write-ahead log cannot be made here. Told that nobody changes it, SQLite reads the file alone.
    let mut log = file.path().as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
        tracing::warn!(
            "{}: what was written last is in its log, which cannot be read here",
            file.path().shown()
        );
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let uri = format!("file:{}?immutable=1", escaped(file.path()));
    Connection::open_with_flags(uri, flags).map_err(|error| StoreError::sqlite(file.path(), error))
}

/// `path` as a URI has it (SQLite's "Uniform Resource Identifiers").
fn escaped(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes
        .map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
