//! What the tools are run on.

use crate::run::output;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a test file.
const SIZE: u64 = 512 << 20;
/// A file system in memory for the loop device's file.
const TMPFS: &str = "/dev/shm";

pub struct Target {
    pub name: &'static str,
    pub title: &'static str,
    pub kind: Kind,
    pub iodepth: u32,
    /// Random writes instead of random reads.
    pub write: bool,
    path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A character device that takes everything at once.
    Null,
    /// A file in the page cache, read through it.
    Cached,
    /// A loop device on a file in tmpfs, O_DIRECT.
    Loop,
    /// A file on a real file system, O_DIRECT.
    Direct,
}

/// All targets; files are made in `dir`.
pub fn all(dir: &Path) -> Vec<Target> {
    let of_kind = |kind| match kind {
        Kind::Null => PathBuf::from("/dev/null"),
        Kind::Loop => Path::new(TMPFS).join("ebbtide-bench-loop.img"),
        Kind::Cached | Kind::Direct => dir.join("file"),
    };
    let target = |(name, title, kind, iodepth): (&'static str, &'static str, Kind, u32)| Target {
        name,
        title,
        kind,
        iodepth,
        write: kind == Kind::Null,
        path: of_kind(kind),
    };
    let (cached, direct) =
        ("4 KiB random reads of a file in the page cache", "4 KiB random reads with O_DIRECT");
    let all = [
        ("null-32", "4 KiB writes to /dev/null, iodepth 32", Kind::Null, 32),
        ("null-128", "4 KiB writes to /dev/null, iodepth 128", Kind::Null, 128),
        ("cached-32", cached, Kind::Cached, 32),
        ("cached-128", cached, Kind::Cached, 128),
        ("loop-128", "4 KiB random reads of a loop device on tmpfs, O_DIRECT", Kind::Loop, 128),
        ("direct-1", direct, Kind::Direct, 1),
        ("direct-32", direct, Kind::Direct, 32),
        ("direct-128", direct, Kind::Direct, 128),
    ];
    all.into_iter().map(target).collect()
}

/// Takes a target away again.
pub struct Guard {
    image: Option<PathBuf>,
    device: Option<String>,
    link: Option<PathBuf>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            match Command::new("losetup").args(["--detach", device]).status() {
                Ok(status) if status.success() => {}
                _ => eprintln!("xtask: {device} could not be detached; run: losetup --detach {device}"),
            }
        }
        for path in [&self.image, &self.link].into_iter().flatten() {
            let _ = fs::remove_file(path);
        }
    }
}

impl Target {
    pub fn direct(&self) -> bool {
        matches!(self.kind, Kind::Loop | Kind::Direct)
    }

    /// What the tools open: for a loop device the link that `set_up` has made to it.
    pub fn path(&self) -> String {
        self.path.with_extension(if self.kind == Kind::Loop { "dev" } else { "" }).display().to_string()
    }

    /// Makes what is missing.
    pub fn set_up(&self) -> Result<Guard, String> {
        let mut guard = Guard { image: None, device: None, link: None };
        match self.kind {
            Kind::Null => {}
            Kind::Cached | Kind::Direct => fill(&self.path)?,
            Kind::Loop => {
                guard.image = Some(self.path.clone());
                fill(&self.path)?;
                let made = output("losetup", &["--find", "--show", &self.path.to_string_lossy()]);
                let device = made.map_err(|error| format!("no loop device (are you root?): {error}"))?;
                let device = device.trim().to_owned();
                let link = PathBuf::from(self.path());
                let _ = fs::remove_file(&link);
                let linked = std::os::unix::fs::symlink(&device, &link);
                guard.device = Some(device);
                guard.link = Some(link.clone());
                linked.map_err(|error| format!("{}: {error}", link.display()))?;
            }
        }
        Ok(guard)
    }

    /// Brings a cached file back into the page cache, which drops pages while it is idle.
    pub fn warm(&self) -> Result<(), String> {
        if self.kind != Kind::Cached {
            return Ok(());
        }
        let failed = |error| format!("{}: {error}", self.path.display());
        let mut file = File::open(&self.path).map_err(failed)?;
        let mut buffer = vec![0; 1 << 20];
        while file.read(&mut buffer).map_err(failed)? > 0 {}
        Ok(())
    }
}

/// A file of data that does not compress, unless it is there already.
fn fill(path: &Path) -> Result<(), String> {
    if fs::metadata(path).is_ok_and(|m| m.len() == SIZE) {
        return Ok(());
    }
    let failed = |error| format!("{}: {error}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut random = File::open("/dev/urandom").map_err(failed)?;
    let mut file = File::create(path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..SIZE >> 20 {
        random.read_exact(&mut buffer).map_err(failed)?;
        file.write_all(&buffer).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}
