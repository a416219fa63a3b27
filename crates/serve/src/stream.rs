//! Connections whose reads and writes end by a given moment, however slowly the other end goes.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A connection of a client, by TCP or a Unix socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// The address of this host that it came in at; none for a UNIX socket.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        let time = Some(time);
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(time).and(stream.set_write_timeout(time)),
            Stream::Unix(stream) => stream.set_read_timeout(time).and(stream.set_write_timeout(time)),
        }
    }
}

/// A connection until a moment, which its owner may move.
#[derive(Debug)]
pub(crate) struct Timed {
    stream: Stream,
    until: Rc<Cell<Instant>>,
}

impl Timed {
    pub(crate) fn new(stream: Stream, until: Rc<Cell<Instant>>) -> Timed {
        Timed { stream, until }
    }

    /// Lets the next read or write wait for as long as is left.
    fn arm(&self) -> io::Result<()> {
        let left = self.until.get().saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.wait_at_most(left.max(Duration::from_millis(1)))
    }

    /// Tells the other end that nothing more comes, and takes a little of what it still sends: a connection that is closed with something
    /// unread is reset, and the other end loses the answer.
    pub(crate) fn close(&mut self, most: usize) {
        let told = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        let mut left = most;
        let mut buffer = [0; 4096];
        while told.is_ok() && left > 0 {
            match self.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => left = left.saturating_sub(read),
            }
        }
    }
}

/// What a socket says when its time is over.
fn told(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        let read = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        };
        read.map_err(told)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.arm()?;
        let written = match &mut self.stream {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        };
        written.map_err(told)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
