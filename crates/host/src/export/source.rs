//! What is exported: found, opened at the door, and what it is called for good.

use crate::build::lasting::stable_path;
use crate::command::{Runner, installed};
use crate::judge;
use crate::made::Failure;
use crate::probe;
use crate::rbd;
use crate::sys;
use crate::sys::Sys;
use ebbtide_door::{Access, Claim, DoorError, Expected, Wanted};
use ebbtide_model::export::{Export, Source};
use ebbtide_model::guard::{Permission, WriteRequest};
use ebbtide_model::shown::Shown;
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where names are that mean one device for good.
const BY_ID: &str = "/dev/disk/by-id";
/// Smallest volume that is exported: initiators look for tables at both of its ends.
const SMALLEST: u64 = 1 << 20;
/// What a file's size is a multiple of: nvmet has blocks of up to 4 KiB.
const BLOCK: u64 = 4096;
/// How long a device is waited for at boot.
const AT_BOOT: Duration = Duration::from_secs(90);
/// Where mdadm is told what to assemble by itself.
const MDADM: [&str; 2] = ["etc/mdadm/mdadm.conf", "etc/mdadm.conf"];

/// What the user named.
#[derive(Debug, Clone)]
pub(super) struct Located {
    /// Where to open it.
    pub(super) path: PathBuf,
    /// The device by a link that stays where it has one, or the file without links.
    pub(super) device: PathBuf,
    /// The stable id that it was named by.
    pub(super) id: Option<String>,
    /// Whether it is a block device.
    pub(super) is_device: bool,
}

impl Located {
    /// Whether it will be found again after a boot.
    pub(super) fn check_lasting(&self) -> Result<(), Failure> {
        match !self.is_device || self.device.starts_with(BY_ID) {
            true => Ok(()),
            false => Err(Failure::Usage(format!(
                "{} has no name below /dev/disk/by-id by which it would be found after a boot: leave out --persistent, or give it a serial number",
                self.path.shown()
            ))),
        }
    }
}

/// The volume of an export, claimed at the door.
pub(super) struct Opened<'a> {
    pub(super) claim: Claim,
    /// As it was asked for, to be judged again.
    pub(super) request: WriteRequest<'a>,
    /// As the kernel is told.
    pub(super) source: Source,
    pub(super) bytes: u64,
}

/// That there is nothing at `path`.
fn not_there(path: &Path, error: io::Error) -> Failure {
    Failure::Usage(format!(
        "{}: {error}; write a device (`ebb volumes` lists them), the stable id of one, or a file",
        path.shown()
    ))
}

/// Why it must not be given away; every reason.
pub(super) fn refused(error: DoorError) -> Failure {
    Failure::Refused(match error {
        DoorError::Refused(refusal) => {
            format!("{} is not exported; {}", refusal.path, refusal.reasons_in_words())
        }
        other => other.to_string(),
    })
}

/// `path` from the root.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::file(path, error))
}

/// Finds `source`: a device, a file, or the stable id of a device.
pub(super) fn locate(host: &Sys, source: &Path) -> Result<Located, Failure> {
    let missing = |error| not_there(source, error);
    if let Some(mapped) = rbd::named_by(host, source).map_err(|error| Failure::Usage(error.to_string()))? {
        let path = host.dev.join(&mapped.device);
        return Ok(Located {
            device: path.clone(),
            path,
            id: Some(mapped.image.to_string()),
            is_device: true,
        });
    }
    let named = source.to_str().filter(|text| !text.contains('/'));
    let found = match (std::fs::metadata(source), named) {
        (Err(error), Some(id)) => {
            let devices = probe::devices(host);
            let is_it =
                |device: &&probe::BlockDevice| device.partition_of.is_none() && device.ids.matches(id);
            let device = devices.devices.iter().find(is_it).ok_or_else(|| missing(error))?;
            let path = host.dev.join(&device.name);
            let device = stable_path(host, &devices, &path).map_or_else(|| path.clone(), PathBuf::from);
            return Ok(Located { path, device, id: Some(id.to_owned()), is_device: true });
        }
        (found, _) => found.map_err(missing)?,
    };
    let path = absolute(source)?;
    if !found.file_type().is_block_device() {
        let device = std::fs::canonicalize(&path).map_err(missing)?;
        return Ok(Located { path, device, id: None, is_device: false });
    }
    let id = path.strip_prefix(BY_ID).ok().and_then(Path::to_str).map(str::to_owned);
    let device = match &id {
        Some(_) => path.clone(),
        None => stable_path(host, &probe::devices(host), &path).map_or_else(|| path.clone(), PathBuf::from),
    };
    Ok(Located { path, device, id, is_device: true })
}

/// Opens what was found, as what another host is going to write.
pub(super) fn open<'a>(
    host: &Sys,
    located: &'a Located,
    carries: Option<&'a str>,
) -> Result<Opened<'a>, Failure> {
    let permission = Permission::Exported { id: located.id.as_deref(), carries };
    let request = WriteRequest { path: &located.path, permission };
    let wanted = Wanted { request, expected: Expected::Any, write: true };
    let mut claims = judge::door().claim(&[wanted]).map_err(|(_, error)| refused(error))?;
    let path = &located.path;
    let Some(claim) = claims.pop() else { return Err(Failure::file(path, "it could not be opened")) };
    let bytes = claim.length().map_err(|error| Failure::file(path, error))?;
    let refuse = |what| Err(Failure::file(path, what));
    if bytes < SMALLEST {
        return refuse("it has less than 1 MiB: export something larger");
    }
    let source = match claim.device() {
        Some(number) => {
            let node = probe::node(host, number)
                .map(PathBuf::from)
                .filter(|node| std::fs::metadata(node).is_ok_and(|found| found.rdev() == number));
            let Some(node) = node else { return refuse("the kernel's own name of it is not below /dev") };
            Source::Device(node)
        }
        None => {
            let file = located.device.clone();
            if std::fs::metadata(&file).map_or(true, |found| ebbtide_door::id_of(&found) != claim.id()) {
                return refuse("something else has its name by now; try again");
            }
            if bytes % BLOCK != 0 {
                return refuse("its size is no multiple of 4 KiB: make it one with `truncate -s %4K`");
            }
            // As the kernel is going to, where root is kept out by nothing but this.
            if let Err(error) = claim.open(Access { write: true, ..Access::default() }) {
                return Err(unwritable(path, error));
            }
            let buffered = claim.open(Access { direct: true, ..Access::default() }).is_err();
            Source::File { path: file, buffered }
        }
    };
    if source.path().to_str().is_none_or(|text| text.chars().any(char::is_control)) {
        return refuse("the kernel takes no name with signs that are no text: rename it");
    }
    Ok(Opened { claim, request, source, bytes })
}

/// Why a client could not write to the file at `path`, which cannot be opened to be written, and what to do.
fn unwritable(path: &Path, error: io::Error) -> Failure {
    let advice = match Errno::from_io_error(&error) {
        Some(Errno::PERM) => {
            "; it is immutable or takes appended data only (`lsattr` shows it): `chattr -i -a` lifts that, if it may be written"
        }
        Some(Errno::ROFS) => {
            "; its file system is mounted read-only: export a file elsewhere, or remount it (`mount -o remount,rw`)"
        }
        _ => "",
    };
    Failure::file(path, format!("a client could not write to it: {error}{advice}"))
}

/// Waits until `device` is there after a boot, and until udev has looked at it.
pub(super) fn wait_for(runner: &dyn Runner, device: &Path) -> Result<(), Failure> {
    let until = Instant::now() + AT_BOOT;
    while let Err(error) = std::fs::metadata(device) {
        if Instant::now() >= until {
            return Err(not_there(device, error));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    // Where there is no udev there is nothing to wait for.
    let _ = runner.run("udevadm", &["settle", "--timeout=30"]);
    Ok(())
}

/// What this host may do by itself with what clients put on the exported device.
pub(super) fn warnings(host: &Sys, located: &Located, export: &Export) -> Vec<String> {
    if !located.is_device || !installed("mdadm") || assembles_nothing(host) {
        return Vec::new();
    }
    let file = MDADM.iter().find(|file| host.root().join(file).exists()).unwrap_or(&MDADM[0]);
    vec![format!(
        "an array that a client makes of {} may be assembled by this host too, at the next boot or event of udev: \
         `echo 'AUTO -all' >>/{file}` keeps mdadm to the arrays that the file names (and run `update-initramfs -u` or `dracut --force`)",
        export.device.shown()
    )]
}

/// Whether mdadm assembles only arrays that its configuration names (mdadm.conf(5), AUTO).
fn assembles_nothing(host: &Sys) -> bool {
    let text = MDADM.iter().find_map(|file| sys::text(&host.root().join(file))).unwrap_or_default();
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|first| first.eq_ignore_ascii_case("auto"))
            && words.next().is_some_and(|next| next.eq_ignore_ascii_case("-all"))
    })
}
