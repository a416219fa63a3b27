//! What the program says to its other half in the guest, and what comes back.
//!
//! A frame is one byte for its kind, four for the length of its content (little endian), and the content.

use std::io::{self, ErrorKind, Read, Write};

/// Longest content; longer output and input go in several frames.
pub const LENGTH_MAX: usize = 1 << 20;

/// Bytes of output in one frame.
pub const PIECE: usize = 32 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Guest: it is there.
    Ready,
    /// Host: run this program with these arguments.
    Run(Vec<Vec<u8>>),
    /// Host: standard input of the program.
    Input(Vec<u8>),
    /// Host: the end of it.
    InputEnd,
    /// Guest: standard output of the program.
    Output(Vec<u8>),
    /// Guest: standard error of the program.
    Errors(Vec<u8>),
    /// Guest: the program ended with this status; 128 and the signal's number when a signal ended it.
    Ended(i32),
    /// Guest: the program could not be started.
    NotStarted(String),
    /// Host: the frame is in the file of this number ([`file`]).
    Filed(u32),
}

/// Name of the file of a frame that is not on the channel.
pub fn file(number: u32) -> String {
    format!("frame-{number}")
}

/// Writes a frame.
///
/// # Errors
/// As the writer and [`bytes`].
pub fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&bytes(frame)?)?;
    to.flush()
}

/// A frame as it is written.
///
/// # Errors
/// An argument with a NUL in it, which no program can be given, or too many of them.
pub fn bytes(frame: &Frame) -> io::Result<Vec<u8>> {
    let status;
    let joined;
    let (kind, content): (u8, &[u8]) = match frame {
        Frame::Ready => (0, &[]),
        Frame::Run(arguments) => {
            if arguments.iter().any(|argument| argument.contains(&0)) {
                return Err(io::Error::new(ErrorKind::InvalidInput, "an argument has a NUL in it"));
            }
            joined = arguments.join(&0);
            (1, &joined)
        }
        Frame::Input(bytes) => (2, bytes),
        Frame::InputEnd => (3, &[]),
        Frame::Output(bytes) => (4, bytes),
        Frame::Errors(bytes) => (5, bytes),
        Frame::Ended(code) => {
            status = code.to_le_bytes();
            (6, &status)
        }
        Frame::NotStarted(why) => (7, why.as_bytes()),
        Frame::Filed(number) => {
            status = number.to_le_bytes();
            (8, &status)
        }
    };
    if content.len() > LENGTH_MAX {
        return Err(io::Error::new(ErrorKind::InvalidInput, "arguments of more than 1 MiB"));
    }
    let mut bytes = Vec::with_capacity(content.len() + 5);
    bytes.push(kind);
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(content);
    Ok(bytes)
}

/// Reads a frame; nothing at the end of the stream.
///
/// # Errors
/// As the reader; or something that is no frame.
pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut kind = [0];
    match from.read_exact(&mut kind) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LENGTH_MAX {
        return Err(wrong("too long"));
    }
    let mut content = vec![0; length];
    from.read_exact(&mut content)?;
    Ok(Some(match kind[0] {
        0 => Frame::Ready,
        1 => Frame::Run(content.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()),
        2 => Frame::Input(content),
        3 => Frame::InputEnd,
        4 => Frame::Output(content),
        5 => Frame::Errors(content),
        6 => Frame::Ended(i32::from_le_bytes(four(&content)?)),
        7 => Frame::NotStarted(String::from_utf8_lossy(&content).into_owned()),
        8 => Frame::Filed(u32::from_le_bytes(four(&content)?)),
        _ => return Err(wrong("of unknown kind")),
    }))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("not a frame: {what}"))
}

fn four(content: &[u8]) -> io::Result<[u8; 4]> {
    content.try_into().map_err(|_| wrong("a number of other than 4 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
        let argument = proptest::collection::vec(1..=255_u8, 0..20);
        prop_oneof![
            Just(Frame::Ready),
            Just(Frame::InputEnd),
            proptest::collection::vec(argument, 1..5).prop_map(Frame::Run),
            bytes().prop_map(Frame::Input),
            bytes().prop_map(Frame::Output),
            bytes().prop_map(Frame::Errors),
            any::<i32>().prop_map(Frame::Ended),
            any::<u32>().prop_map(Frame::Filed),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(sent in proptest::collection::vec(frames(), 0..8)) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|frame| write(&mut bytes, frame).expect("writes"));
            let mut from = bytes.as_slice();
            let mut got = Vec::new();
            while let Some(frame) = read(&mut from).expect("reads") {
                got.push(frame);
            }
            prop_assert_eq!(sent, got);
        }

        #[test]
        fn noise_is_an_error_or_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut from = bytes.as_slice();
            while let Ok(Some(_)) = read(&mut from) {}
        }
    }
}
