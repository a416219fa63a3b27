//! A socket with a name in a directory, for this user only, gone when it is dropped.

use crate::directory::{Directory, id_of};
use ebbtide_model::journal::FileId;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that may wait to be taken.
const BACKLOG: i32 = 512;

/// A listening socket that only this user can connect to; its name is removed with it, and nothing else that has the name by then.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    directory: Directory,
    name: OsString,
    id: FileId,
}

impl Socket {
    /// Makes the socket `path`, where nothing may be but a socket at which nobody listens any more.
    ///
    /// # Errors
    /// `AddrInUse` when there is something else of this name, or it cannot be made.
    pub fn listen_at(path: &Path) -> io::Result<Socket> {
        let (directory, name) = Directory::of(path)?;
        if let Some(found) = directory.look(&name)? {
            let left = found.file_type().is_socket()
                && matches!(UnixStream::connect(path), Err(e) if is_refused(&e));
            if !left {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            directory.remove(&name, &id_of(&found))?;
        }
        let address = SocketAddrUnix::new(path)?;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The name gets the permissions that the socket has when it is bound.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        bind(&fd, &address)?;
        let made = directory.look(&name)?.ok_or(io::ErrorKind::NotFound)?;
        let socket = Socket { listener: UnixListener::from(fd), directory, id: id_of(&made), name };
        listen(&socket.listener, BACKLOG)?;
        Ok(socket)
    }

    /// Its path as it was given.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// The socket that accepts connections.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = self.directory.remove(&self.name, &self.id) {
            tracing::debug!("the socket's name stays: {error}");
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_socket_is_its_users_and_goes_with_what_listens() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("socket");
        let socket = Socket::listen_at(&path).expect("listens");
        assert_eq!(path.metadata().expect("is there").mode() & 0o777, 0o600);
        UnixStream::connect(&path).expect("connects");
        let again = Socket::listen_at(&path).expect_err("somebody listens");
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(path.symlink_metadata().is_err());
    }

    #[test]
    fn what_a_kill_left_is_replaced_and_nothing_else() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("socket");
        drop(UnixListener::bind(&path).expect("binds"));
        let socket = Socket::listen_at(&path).expect("nobody listens");
        // Somebody else's by the time it ends.
        std::fs::remove_file(&path).expect("removes");
        std::fs::write(&path, "mine").expect("writes");
        drop(socket);
        assert_eq!(std::fs::read_to_string(&path).expect("stays"), "mine");
        assert!(Socket::listen_at(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("stays"), "mine");
    }
}
