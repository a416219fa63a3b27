use super::*;
use rustix::fd::AsFd;
use std::sync::atomic::Ordering;

/// A ring on `file` with four buffers of a page, and a fifth that is not its own; none where the kernel gives none.
fn ring(file: &impl AsFd) -> Option<(Ring<'_>, Vec<Buffer>)> {
    if !waits().is_ok_and(|waits| waits) {
        eprintln!("skipped: no io_uring here");
        return None;
    }
    let (buffers, _) = Buffers::new(4, 4096, false).expect("buffers");
    let (more, _) = Buffers::new(5, 4096, false).expect("buffers");
    Some((
        Ring::new(vec![file.as_fd()], buffers, 8, Options::default()).expect("a ring"),
        more.all().collect(),
    ))
}

/// Waits until at least `want` completions can be taken.
fn wait(ring: &mut Ring<'_>, want: usize) {
    while ring.ring.completion().len() < want {
        match ring.submit_and_wait(want) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => panic!("{error}"),
            _ => {}
        }
    }
}

fn transfer(is_write: bool, buffer: Buffer) -> Transfer {
    Transfer { is_write, file: 0, offset: 0, buffer, at: 0, length: 4096 }
}

#[test]
fn what_one_buffer_wrote_another_reads() {
    let file = tempfile::tempfile().expect("a file");
    for registered in [false, true] {
        let Some((mut ring, all)) = ring(&file) else { return };
        if registered {
            ring.register_files().and_then(|()| ring.register_buffers()).expect("registered");
        }
        ring.words(all[1], 4096)[511].store(7 + u64::from(registered), Ordering::Relaxed);
        let mut seen = [(0, 0); 4];
        for (submitted, id) in [(transfer(true, all[1]), 10), (transfer(false, all[3]), 11)] {
            assert!(ring.transfer(&submitted, id));
            assert!(ring.in_flight() == 1 && ring.buffers().is_none(), "the kernel may be at them");
            wait(&mut ring, 1);
            assert_eq!((ring.reap(&mut seen), seen[0], ring.in_flight()), (1, (u64::from(id), 4096), 0));
        }
        let read = ring.buffers().expect("nothing is in flight").slice(all[3], 4088, 8).to_vec();
        assert_eq!(read, (7 + u64::from(registered)).to_ne_bytes());
    }
}

#[test]
fn what_is_no_transfer_is_not_counted() {
    let file = tempfile::tempfile().expect("a file");
    let Some((mut ring, _)) = ring(&file) else { return };
    assert!(ring.nothing() && ring.cancel_all() && ring.in_flight() == 0);
    wait(&mut ring, 2);
    let mut seen = [(0, 0); 4];
    assert_eq!((ring.reap(&mut seen), ring.in_flight()), (2, 0));
    assert!(seen[..2].iter().any(|(id, _)| *id == CANCEL));
}

#[test]
fn nothing_outside_of_a_buffer_is_submitted() {
    let file = tempfile::tempfile().expect("a file");
    type Wrong = fn(&[Buffer]) -> Transfer;
    let cases: [Wrong; 4] = [
        |all| transfer(false, all[4]),
        |all| Transfer { at: 1, ..transfer(false, all[3]) },
        |all| Transfer { length: 4097, ..transfer(true, all[0]) },
        |all| Transfer { file: 1, ..transfer(true, all[0]) },
    ];
    for wrong in cases {
        let Some((mut ring, all)) = ring(&file) else { return };
        let wrong = wrong(&all);
        let submitted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ring.transfer(&wrong, 0)));
        assert!(submitted.is_err() && ring.in_flight() == 0, "{wrong:?}");
    }
}

#[test]
fn a_ring_that_is_dropped_in_flight_leaves_its_buffers_to_the_kernel() {
    let (end, _other) = std::io::pipe().expect("a pipe");
    let Some((mut ring, all)) = ring(&end) else { return };
    // Nobody writes: the read stays with the kernel.
    assert!(ring.transfer(&transfer(false, all[0]), 0));
    ring.submit_and_wait(0).expect("submits");
    let address = ring.buffers.address(all[0], 0, 0) as usize;
    drop(ring);
    let mapped = std::fs::read_to_string("/proc/self/maps").expect("the process's own");
    let is_in = |line: &str| {
        let (from, rest) = line.split_once('-')?;
        let to = rest.split_once(' ')?.0;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some((number(from)?..number(to)?).contains(&address))
    };
    assert!(mapped.lines().any(|line| is_in(line) == Some(true)), "still mapped");
}
