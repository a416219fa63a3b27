//! Archives in cpio's "newc" format, as the kernel unpacks them for its initial RAM disk
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// Writes an archive, entry by entry.
pub struct Archive<W: Write> {
    to: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// An archive into `to`.
    pub fn new(to: W) -> Self {
        Archive { to, entries: 0 }
    }

    /// A directory; those above it must come before it.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, DIRECTORY | 0o755, (0, 0), &[])
    }

    /// A file that everybody may execute.
    pub fn program(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.entry(name, FILE | 0o755, (0, 0), content)
    }

    /// A character device that only root may open.
    pub fn device(&mut self, name: &str, major: u32, minor: u32) -> io::Result<()> {
        self.entry(name, CHARACTER_DEVICE | 0o600, (major, minor), &[])
    }

    /// Writes the trailer and gives back the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len())
            .map_err(|_| io::Error::other(format!("{name} is too large for the archive")))?;
        self.entries += 1;
        let links = 1;
        let name_size = name.len() as u32 + 1;
        write!(self.to, "070701")?;
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
        for field in fields {
            write!(self.to, "{field:08x}")?;
        }
        self.to.write_all(name.as_bytes())?;
        self.to.write_all(&[0])?;
        // Header (110 bytes) with name, and content, each end on a multiple of 4.
        self.pad(110 + name.len() + 1)?;
        self.to.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.to.write_all(&[0; 3][..written.wrapping_neg() % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_on_multiples_of_four() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("d").expect("writes");
        archive.program("d/abc", b"hello").expect("writes");
        archive.device("console", 5, 1).expect("writes");
        let bytes = archive.finish().expect("writes");
        let starts: Vec<usize> =
            (0..bytes.len() - 5).filter(|at| &bytes[*at..*at + 6] == b"070701").collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.iter().all(|at| at % 4 == 0), "{starts:?}");
        // d: 110 + 2; d/abc: 110 + 6 + 5 content, padded to 8.
        assert_eq!(starts[1] - starts[0], 112);
        assert_eq!(starts[2] - starts[1], 116 + 8);
        assert_eq!(&bytes[starts[1] + 116..starts[1] + 121], b"hello");
        assert_eq!(&bytes[starts[1] + 6 + 6 * 8..starts[1] + 6 + 7 * 8], b"00000005", "the size field");
    }
}
