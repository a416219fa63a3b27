//! A disk of the guest that is held to the volume model: the guest's kernel asks this process, as an NBD client.
//!
//! What it answers is as late as the simulator says, so a difference between the two is the kernel's. Sectors of zeros
//! take no memory.

use ebbtide_model::units::{Bytes, Instant, MemberOffset, Nanos};
use ebbtide_model::volume::{Model, Shape};
use ebbtide_model::workload::OpKind;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const SECTOR: usize = 512;
/// The protocol's numbers (NetworkBlockDevice/nbd, doc/proto.md).
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// Answers that wait for their instants: (instant, order, bytes).
#[derive(Default)]
struct Answers {
    waiting: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    given: u64,
    ended: bool,
}

/// Serves one disk on the socket that is this process's standard input, until the kernel is done with it.
///
/// # Errors
/// When the kernel does not speak the protocol.
pub fn serve(shape: &Shape) -> Result<(), String> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let mut stream = socket.map_err(|error| error.to_string())?;
    let mut answers = stream.try_clone().map_err(|error| error.to_string())?;
    let (queue, changed) = (Mutex::new(Answers::default()), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&mut answers, &queue, &changed));
        let ended = requests(&mut stream, shape, &queue, &changed);
        queue.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        changed.notify_all();
        ended.map_err(|error| error.to_string())
    })
}

fn bytes<const N: usize>(stream: &mut UnixStream) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Takes requests, does them, and leaves their answers for when they are due.
fn requests(
    stream: &mut UnixStream,
    shape: &Shape,
    queue: &Mutex<Answers>,
    changed: &Condvar,
) -> std::io::Result<()> {
    let mut model = Model::new(shape, 1);
    let mut sectors: HashMap<u64, Vec<u8>> = HashMap::new();
    loop {
        if u32::from_be_bytes(bytes(stream)?) != REQUEST {
            return Err(std::io::Error::other("not a request"));
        }
        let [_, _, _, kind] = bytes(stream)?;
        let handle: [u8; 8] = bytes(stream)?;
        let offset = u64::from_be_bytes(bytes(stream)?);
        let length = u32::from_be_bytes(bytes(stream)?);
        let mut answer = [&REPLY.to_be_bytes()[..], &[0; 4], &handle].concat();
        let now = clock();
        let op = match kind {
            0 => OpKind::Read,
            1 => OpKind::Write,
            2 => return Ok(()),
            _ => {
                leave(queue, changed, now, answer);
                continue;
            }
        };
        let mut data = vec![0; length as usize];
        let first = offset / SECTOR as u64;
        if op == OpKind::Write {
            stream.read_exact(&mut data)?;
            for (number, sector) in (first..).zip(data.chunks(SECTOR)) {
                if sector.iter().all(|byte| *byte == 0) {
                    sectors.remove(&number);
                } else {
                    sectors.insert(number, sector.to_vec());
                }
            }
        } else {
            for (number, sector) in (first..).zip(data.chunks_mut(SECTOR)) {
                if let Some(kept) = sectors.get(&number) {
                    sector.copy_from_slice(kept);
                }
            }
            answer.extend_from_slice(&data);
        }
        let end = model.submit(now, op, MemberOffset(offset), Bytes(u64::from(length)), None);
        leave(queue, changed, end, answer);
    }
}

/// Since the epoch: all disks of a guest have one clock.
fn clock() -> Instant {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Instant::START + Nanos(since.as_nanos() as u64)
}

fn leave(queue: &Mutex<Answers>, changed: &Condvar, at: Instant, answer: Vec<u8>) {
    let mut answers = queue.lock().unwrap_or_else(PoisonError::into_inner);
    answers.given += 1;
    let number = answers.given;
    answers.waiting.push(Reverse((at, number, answer)));
    changed.notify_all();
}

fn answer(stream: &mut UnixStream, queue: &Mutex<Answers>, changed: &Condvar) {
    let mut answers = queue.lock().unwrap_or_else(PoisonError::into_inner);
    while !answers.ended {
        let now = clock();
        let wait = match answers.waiting.peek() {
            Some(Reverse((at, ..))) if *at <= now => {
                let Some(Reverse((_, _, bytes))) = answers.waiting.pop() else { continue };
                drop(answers);
                // A client that went needs no answer.
                let _gone = stream.write_all(&bytes);
                answers = queue.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            Some(Reverse((at, ..))) => Duration::from_nanos((*at - now).0),
            None => Duration::from_secs(3600),
        };
        answers = changed.wait_timeout(answers, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}
