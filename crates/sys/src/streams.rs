//! What the program was started with: Rust's runtime opens /dev/null in place of a standard stream that is closed, before `main`, and
//! what is printed would be lost without an error.

use rustix::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: F_GETFD takes no pointer and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    OUTPUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the loader calls each function of this section once before `main`, with the first thread alone; this one calls the system
// and stores into a static, and needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether standard output was closed when the program was started (`>&-`).
pub fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Standard error, for another program to write to.
pub fn errors() -> BorrowedFd<'static> {
    // SAFETY: Rust's runtime opens the standard streams that are closed before `main`, and nothing here closes one.
    unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) }
}
