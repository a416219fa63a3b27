//! Lines out of the pieces in which a stream comes.

/// What has come of a stream and was not yet taken as lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// No line ends before this position.
    searched: usize,
}

impl Lines {
    /// Adds bytes as they were received.
    pub fn add(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let Some(end) = self.rest[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.rest.len();
            return None;
        };
        let mut line: Vec<u8> = self.rest.drain(..=self.searched + end).collect();
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// What came after the last whole line.
    pub fn rest(self) -> Vec<u8> {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_out_of_any_pieces() {
        let text = b"one\n\ntwo\nthr";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for piece in text.chunks(size) {
                lines.add(piece);
                got.extend(std::iter::from_fn(|| lines.next_line()));
            }
            assert_eq!(got, [b"one".to_vec(), Vec::new(), b"two".to_vec()], "pieces of {size}");
            assert_eq!(lines.rest(), b"thr", "pieces of {size}");
        }
    }
}
