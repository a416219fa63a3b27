//! Log pages of NVMe drives, each in a file of its own: where it is asked for, and what its bytes mean.

mod ebs;
mod health;

pub use ebs::EbsPage;
pub use health::Health;

/// A log page of an NVMe drive: how it is asked for and read.
pub trait LogPage: Sized {
    /// Its log page identifier (LID).
    const ID: u8;
    /// The namespace that is asked.
    const NAMESPACE: u32;
    /// Bytes that are asked for.
    const LENGTH: usize;

    /// What the page says.
    ///
    /// # Errors
    /// When the bytes are not such a page.
    fn parse(bytes: &[u8]) -> Result<Self, LogPageError>;
}

/// Why bytes are not the log page that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogPageError {
    /// Fewer bytes than the page has.
    #[error("the page has {found} bytes, at least {least} are needed")]
    Short {
        /// Bytes that were read.
        found: usize,
        /// Bytes that hold everything that is read of it.
        least: usize,
    },
    /// Zeros, as of a drive that has no such page.
    #[error("the page is empty")]
    Empty,
    /// It does not begin with a magic number of this page.
    #[error("the page begins with {0:#010x}, which is not its magic number")]
    Magic(u32),
}

/// The first `N` bytes of a page.
fn head<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], LogPageError> {
    bytes.first_chunk().ok_or(LogPageError::Short { found: bytes.len(), least: N })
}

/// The little-endian number of 8 bytes at `at`; 0 beyond the end.
fn u64_at(page: &[u8], at: usize) -> u64 {
    page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
