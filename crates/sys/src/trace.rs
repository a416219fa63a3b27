//! Tracing (ptrace(2)): a thread that is traced stops where its tracer asks for it, and nobody else sees that. When the thread that traces
//! ends, for whatever reason, the kernel lets all that it traced go on.

use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Each child and each thread that a traced thread begins is traced too, and what stops it is told apart from signals.
const ALL: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// How a thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Until it begins or ends a system call.
    Call,
    /// Until something else stops it.
    Stop,
}

/// Where a thread has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Before or after a system call: none is under way.
    Call,
    /// It has just begun, or was interrupted: no call is under way.
    Trap,
    /// Somebody has stopped its process, as by Ctrl-Z, and it is to stay so ([`leave_stopped`]).
    Group,
    /// A signal of this number has come, which it gets when it goes on with it.
    Signal(i32),
    /// It has begun a process or a thread of this number.
    Began(u32),
    /// Its process runs another program; it had this number before.
    Exec(u32),
    /// It is about to end.
    Ends,
}

/// What has become of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It stands still until it is let go on.
    Stopped(Stop),
    /// It has ended with this status; a process when the last of its threads has.
    Exited(i32),
    /// A signal of this number has ended it.
    Killed(i32),
}

fn number(thread: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(thread).map_err(|_| Errno::SRCH.into())
}

/// A request about `thread` whose argument is a number.
fn ask(request: libc::c_uint, thread: u32, argument: libc::c_int) -> io::Result<()> {
    let (thread, address) = (number(thread)?, std::ptr::null_mut::<libc::c_void>());
    // SAFETY: the requests that are made here take a number as their argument, or ignore it, and touch no memory of ours.
    let done = unsafe { libc::ptrace(request, thread, address, libc::c_long::from(argument)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The calling thread traces `thread`, which goes on, and whatever that begins.
///
/// # Errors
/// When it has ended, is traced already, or this user may not.
pub fn seize(thread: u32) -> io::Result<()> {
    ask(libc::PTRACE_SEIZE, thread, ALL)
}

/// Stops `thread` soon. A call that is under way ends early, as by a signal without a handler.
///
/// # Errors
/// When it has ended.
pub fn interrupt(thread: u32) -> io::Result<()> {
    ask(libc::PTRACE_INTERRUPT, thread, 0)
}

/// Lets `thread` go on, with the signal of this number; 0 is none.
///
/// # Errors
/// When it has ended, or is not stopped.
pub fn go_on(thread: u32, until: Until, signal: i32) -> io::Result<()> {
    let request = match until {
        Until::Call => libc::PTRACE_SYSCALL,
        Until::Stop => libc::PTRACE_CONT,
    };
    ask(request, thread, signal)
}

/// Whether `thread`, which has stopped at a call ([`Stop::Call`]), is before it and not after it.
///
/// # Errors
/// When it has ended, or the kernel is older than Linux 5.3.
pub fn is_before_call(thread: u32) -> io::Result<bool> {
    let mut place = [0_u8; 1];
    let (thread, address) = (number(thread)?, std::ptr::without_provenance_mut::<libc::c_void>(place.len()));
    // SAFETY: the kernel writes no more bytes than the address argument says (ptrace(2)), the first of what it has to tell.
    let done = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, address, place.as_mut_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(place[0] == libc::PTRACE_SYSCALL_INFO_ENTRY) }
}

/// Leaves `thread` in the stop that somebody else has asked for, until somebody else ends it.
///
/// # Errors
/// When it has ended.
pub fn leave_stopped(thread: u32) -> io::Result<()> {
    ask(libc::PTRACE_LISTEN, thread, 0)
}

/// The next thread to which something has happened: of those that this thread traces, or a child. Nothing where nothing has, or there is none.
pub fn next() -> Option<(u32, Change)> {
    let mut status = 0;
    // SAFETY: the kernel writes one integer, which lives as long as the call.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    let thread = u32::try_from(thread).ok().filter(|thread| *thread > 0)?;
    Some((thread, change(thread, status)))
}

fn change(thread: u32, status: i32) -> Change {
    if libc::WIFEXITED(status) {
        return Change::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Change::Killed(libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    Change::Stopped(match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Trap,
        libc::PTRACE_EVENT_STOP => Stop::Group,
        libc::PTRACE_EVENT_EXEC => Stop::Exec(told_with(thread).unwrap_or(thread)),
        libc::PTRACE_EVENT_EXIT => Stop::Ends,
        _ => Stop::Began(told_with(thread).unwrap_or(thread)),
    })
}

/// The number that the kernel tells with the stop of a thread: what it has begun, or its own before it became the first of a new program.
fn told_with(thread: u32) -> Option<u32> {
    let mut told: libc::c_ulong = 0;
    let (thread, address) = (number(thread).ok()?, std::ptr::null_mut::<libc::c_void>());
    // SAFETY: the kernel writes one long integer, which lives as long as the call.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, thread, address, &raw mut told) };
    u32::try_from(told).ok().filter(|_| done == 0)
}

/// Starts `command`, traced by the calling thread before it does anything. Its first stop is [`Stop::Exec`]. Its process number, or why it
/// cannot be started.
///
/// # Errors
/// When it cannot be traced.
pub fn start(mut command: Command) -> io::Result<io::Result<u32>> {
    let (mut heard, tell) = io::pipe()?;
    let (wait, mut go) = io::pipe()?;
    let ends = (tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
    let stands = move || {
        let (tell, wait, go) = ends;
        let (own, mut byte) = (std::process::id().to_ne_bytes(), 0_u8);
        // SAFETY: all three descriptors are this process's, as its parent had them; the kernel reads and writes within the two arrays.
        let is_traced = unsafe {
            libc::close(go);
            libc::write(tell, own.as_ptr().cast(), own.len()) == own.len().cast_signed()
                && libc::read(wait, (&raw mut byte).cast(), 1) == 1
        };
        if is_traced { Ok(()) } else { Err(Errno::PERM.into()) }
    };
    // SAFETY: between fork and exec the closure calls getpid, close, write and read alone, which are safe there (signal-safety(7)).
    unsafe { command.pre_exec(stands) };
    std::thread::scope(|scope| {
        // It is told whether the program runs only then: another thread waits for that.
        let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
            let spawned = command.spawn();
            drop((tell, wait));
            spawned
        })?;
        let mut own = [0; 4];
        let traced = heard.read_exact(&mut own).map(|()| u32::from_ne_bytes(own));
        let traced = traced.and_then(|child| {
            // One that cannot begin ends without a stop.
            ask(libc::PTRACE_SEIZE, child, libc::PTRACE_O_TRACEEXEC)?;
            go.write_all(&[1])
        });
        drop(go);
        let spawned = spawned.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        match (traced, spawned) {
            (Err(error), Err(_)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            (_, spawned) => Ok(spawned.map(|child| child.id())),
        }
    })
}

/// Traces what the program that [`start`] has begun begins: from its first stop.
///
/// # Errors
/// When it has ended.
pub fn with_children(thread: u32) -> io::Result<()> {
    ask(libc::PTRACE_SETOPTIONS, thread, ALL)
}
