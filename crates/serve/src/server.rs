//! The server: takes connections, and answers one request on each.

use crate::guard::{Refused, Through, judge};
use crate::request::{BadRequest, Head};
use crate::stream::{Stream, Timed};
use crate::{Address, Policy, Request, Response, ServeError};
use ebbtide_door::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);
/// How long a server waits at its end for answers that are on their way.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the rest of a request is taken that was refused, and how much of it.
const REST: (Duration, usize) = (Duration::from_secs(1), 64 << 10);
/// Bytes of stack of a connection's thread.
const STACK: usize = 4 << 20;

/// What a server answers.
pub trait Handler: Send + Sync {
    /// The answer to a request that may be answered.
    fn answer(&self, request: &Request) -> Response;
    /// The page that says that a request is refused, and why.
    fn refused(&self, why: &str) -> String;
    /// What browsers may load and run for its pages.
    fn policy(&self) -> &Policy;
}

/// What a request may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until its last byte has come.
    pub request: Duration,
    /// Until the last byte of the answer is taken, from when it is made.
    pub answer: Duration,
    /// Bytes of its head.
    pub head: usize,
    /// Connections at once; more wait until one ends.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            head: 16 << 10,
            connections: 256,
        }
    }
}

/// How a server is reached.
#[derive(Debug)]
pub struct Options {
    /// The address that it listens on.
    pub address: Address,
    /// Names of this host beside its address and, on loopback, `localhost`.
    pub names: Vec<String>,
    /// What a request may cost.
    pub limits: Limits,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener, SocketAddr),
    Unix(Socket),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

/// What its connections share.
#[derive(Debug)]
struct Shared {
    names: Vec<String>,
    limits: Limits,
    count: Mutex<Count>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    connections: usize,
    /// Of these, how many are being answered.
    answers: usize,
}

impl Server {
    /// Listens; nothing is answered before [`Server::run`].
    ///
    /// # Errors
    /// When other hosts could reach it, or it cannot listen there.
    pub fn new(options: Options) -> Result<Server, ServeError> {
        let Options { address, names, limits } = options;
        if !address.is_local() {
            return Err(ServeError::Exposed { address: address.to_string() });
        }
        let failed = |source: io::Error| ServeError::Listen {
            address: address.to_string(),
            remedy: remedy(&source),
            source,
        };
        let listener = match &address {
            Address::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let local = listener.local_addr().map_err(failed)?;
                Listener::Tcp(listener, local)
            }
            Address::Unix(path) => {
                let socket = Socket::listen_at(path).map_err(failed)?;
                socket.listener().set_nonblocking(true).map_err(failed)?;
                Listener::Unix(socket)
            }
        };
        let shared = Shared { names, limits, count: Mutex::default(), changed: Condvar::new() };
        Ok(Server { listener, shared: Arc::new(shared) })
    }

    /// Where it is found: a URL, or the path of a socket.
    pub fn url(&self) -> String {
        match &self.listener {
            Listener::Tcp(_, local) => format!("http://{local}/"),
            Listener::Unix(socket) => Address::Unix(socket.path()).to_string(),
        }
    }

    /// Answers until `stop` is set; what is being answered then is still sent.
    ///
    /// # Errors
    /// When connections cannot be waited for.
    pub fn run(self, site: Arc<dyn Handler>, stop: &AtomicBool) -> Result<(), ServeError> {
        while !stop.load(Ordering::Relaxed) {
            if !self.shared.has_room(LOOK) || !self.waits(LOOK)? {
                continue;
            }
            let Some(stream) = self.accept() else { continue };
            let (taken, site) = (Taken::of(&self.shared), site.clone());
            let thread = std::thread::Builder::new().name("request".to_owned()).stack_size(STACK);
            // Without a thread the connection is closed, and there may be one for the next.
            if let Err(error) = thread.spawn(move || taken.0.talk(stream, site.as_ref())) {
                tracing::warn!("a request is not answered: {error}");
                std::thread::sleep(LOOK);
            }
        }
        self.shared.wait_for_answers(PATIENCE);
        Ok(())
    }

    /// Whether somebody wants to connect within `time`.
    fn waits(&self, time: Duration) -> io::Result<bool> {
        let fd = match &self.listener {
            Listener::Tcp(listener, _) => listener.as_fd(),
            Listener::Unix(socket) => socket.listener().as_fd(),
        };
        let time = Timespec::try_from(time).ok();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next connection, unless it is gone already.
    fn accept(&self) -> Option<Stream> {
        let accepted = match &self.listener {
            Listener::Tcp(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }),
            Listener::Unix(socket) => socket.listener().accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }),
        };
        match accepted {
            Ok(stream) => Some(stream),
            Err(error) => {
                // No descriptors: some are free when a connection ends.
                if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM)) {
                    tracing::warn!("a request waits: {error}");
                    std::thread::sleep(LOOK);
                }
                None
            }
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there, or something else is in its place: choose another place with --listen"
        }
        io::ErrorKind::AddrNotAvailable => "it is no address of this host: choose another with --listen",
        io::ErrorKind::PermissionDenied => "choose a port above 1023, or a directory that you can write to",
        _ => "choose another place with --listen",
    }
}

/// A connection that is counted until it ends.
struct Taken(Arc<Shared>);

impl Taken {
    fn of(shared: &Arc<Shared>) -> Taken {
        shared.count(|count| count.connections += 1);
        Taken(shared.clone())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.count(|count| count.connections -= 1);
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Count)) {
        change(&mut self.count.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for at most `time` until `enough`; whether it is.
    fn wait(&self, time: Duration, enough: impl Fn(&Count) -> bool) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(count, time, |count| !enough(count));
        let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        enough(&count)
    }

    fn has_room(&self, time: Duration) -> bool {
        self.wait(time, |count| count.connections < self.limits.connections)
    }

    fn wait_for_answers(&self, time: Duration) {
        self.wait(time, |count| count.answers == 0);
    }

    /// Answers the request that comes on `stream`.
    fn talk(&self, stream: Stream, site: &dyn Handler) {
        let until = Rc::new(Cell::new(Instant::now() + self.limits.request));
        let local = stream.local();
        let mut timed = Timed::new(stream, until.clone());
        let sent = self.answer(&mut timed, local, site, &until);
        if let Err(error) = sent {
            tracing::debug!("an answer was not taken: {error}");
        }
        until.set(Instant::now() + REST.0);
        timed.close(REST.1);
    }

    fn answer(
        &self,
        stream: &mut (impl Read + Write),
        local: Option<SocketAddr>,
        site: &dyn Handler,
        until: &Cell<Instant>,
    ) -> io::Result<()> {
        let head = match Head::read(stream, self.limits.head) {
            Err(BadRequest::Gone) => return Ok(()),
            head => head,
        };
        self.count(|count| count.answers += 1);
        let head_only = head.as_ref().is_ok_and(|head| head.head_only);
        let made =
            catch_unwind(AssertUnwindSafe(|| match head.and_then(|head| self.decide(&head, local, site)) {
                Ok(response) => response,
                Err(bad) => refusal(bad, site),
            }));
        let why = "this request found a mistake in ebb; what it was is on the server's standard error";
        let response = made.unwrap_or_else(|_| Response::text(500, why));
        until.set(Instant::now() + self.limits.answer);
        let sent = response.write(stream, site.policy(), head_only);
        self.count(|count| count.answers -= 1);
        sent
    }

    /// The answer to a request that was understood.
    fn decide(
        &self,
        head: &Head,
        local: Option<SocketAddr>,
        site: &dyn Handler,
    ) -> Result<Response, BadRequest> {
        let through = Through { local, names: &self.names };
        match judge(head, through)? {
            Err(Refused::Host) => {
                let why = "This server does not go by the name that was asked for. Names other than its address are given with `ebb serve --name`.";
                Ok(Response::page(421, site.refused(why)))
            }
            Err(Refused::Origin) => {
                Ok(Response::page(403, site.refused("A page of another site may not ask this server.")))
            }
            Ok(()) => Ok(site.answer(&head.request)),
        }
    }
}

fn refusal(bad: BadRequest, site: &dyn Handler) -> Response {
    let page = |status, why: &str| Response::page(status, site.refused(why));
    match bad {
        BadRequest::Slow | BadRequest::Gone => page(408, "The request took too long to come."),
        BadRequest::Long => page(431, "The request is too long."),
        BadRequest::Method => {
            page(405, "This server is read, and nothing else: GET or HEAD.").with("Allow", "GET, HEAD")
        }
        BadRequest::Malformed(why) => page(400, &format!("The request is wrong: {why}.")),
    }
}
