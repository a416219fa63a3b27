//! Telling the kernel what to export: objects of configfs, made, linked, set and removed.

use ebbtide_door::config;
use std::io;
use std::path::Path;

/// Where the kernel is told. Tests have one of their own.
pub trait ConfigFs {
    /// Makes an object.
    ///
    /// # Errors
    /// As the kernel says it.
    fn make(&self, path: &Path) -> io::Result<()>;

    /// Links the object `path` to `target`.
    ///
    /// # Errors
    /// As the kernel says it.
    fn link(&self, target: &Path, path: &Path) -> io::Result<()>;

    /// Writes the attribute `path`.
    ///
    /// # Errors
    /// As the kernel says it.
    fn set(&self, path: &Path, value: &[u8]) -> io::Result<()>;

    /// Removes the object or link `path`.
    ///
    /// # Errors
    /// As the kernel says it.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// That of this host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kernel;

impl ConfigFs for Kernel {
    fn make(&self, path: &Path) -> io::Result<()> {
        config::make(path)
    }

    fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        config::link(target, path)
    }

    fn set(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        config::write(path, value)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        config::remove(path)
    }
}
