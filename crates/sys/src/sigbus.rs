//! What is said when a page of a mapped file cannot be had: its file system is full (btrfs and others that write to new places), or the
//! disk below it failed. SQLite maps the index of its log.

const WORDS: &[u8] =
    b"ebb: a page of a mapped file could not be had (bus error): the file system of the store may be full, or its disk failed. \
What had finished is kept; free some space, then `ebb cleanup` puts back the rest.\n";

extern "C" fn say(_: libc::c_int) {
    // SAFETY: both are safe in a signal handler (signal-safety(7)); the words are static.
    unsafe {
        libc::write(libc::STDERR_FILENO, WORDS.as_ptr().cast(), WORDS.len());
        libc::_exit(1);
    }
}

/// From now on a bus error ends the program with words and exit status 1 instead of a signal.
pub fn tell_bus_errors() {
    let handler = say as extern "C" fn(libc::c_int);
    // SAFETY: the handler calls only what is safe in one, and does not return.
    unsafe { libc::signal(libc::SIGBUS, handler as libc::sighandler_t) };
}
