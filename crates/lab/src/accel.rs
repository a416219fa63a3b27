//! Whether KVM works here, found out by using it.
//!
//! That /dev/kvm opens proves nothing: inside a virtual machine it may be there and guests hang after their
//! firmware. So the guest's own kernel is started without a root file system: it panics, which ends QEMU.
//! What has not ended after [`PATIENCE`] hangs, or is no faster than emulation.

use super::LabError;
use super::image::Image;
use super::machine::Accelerator;
use super::places::Places;
use ebbtide_host::sys;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const DEVICE: &str = "/dev/kvm";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What guests of `image` run on, and why not on KVM. The answer is kept until the host's next boot.
///
/// # Errors
/// When QEMU cannot be started, or the answer cannot be kept.
pub fn choose(places: &Places, image: &Image) -> Result<(Accelerator, String), LabError> {
    if let Err(error) = ebbtide_door::kernel::port(Path::new(DEVICE)) {
        return Ok((Accelerator::Tcg, format!(", as {DEVICE} cannot be used: {error}")));
    }
    let answer = |works| match works {
        true => (Accelerator::Kvm, String::new()),
        false => (Accelerator::Tcg, format!(", as guests on {DEVICE} hang")),
    };
    let boot = sys::text(Path::new(BOOT_ID)).unwrap_or_default();
    let kept = places.root().join("kvm");
    let known = sys::text(&kept).unwrap_or_default();
    match known.strip_prefix(&boot).map(str::trim) {
        Some("works") if !boot.is_empty() => return Ok(answer(true)),
        Some("hangs") if !boot.is_empty() => return Ok(answer(false)),
        _ => {}
    }
    let works = try_kvm(&image.kernel())?;
    let word = if works { "works" } else { "hangs" };
    super::files::write(&kept, format!("{boot}{word}\n").as_bytes())?;
    Ok(answer(works))
}

/// Whether the kernel panics in time, as it should.
fn try_kvm(kernel: &Path) -> Result<bool, LabError> {
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-nodefaults", "-no-user-config"])
        .args(["-display", "none", "-no-reboot", "-M", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256"])
        .arg("-kernel")
        .arg(kernel)
        .args(["-append", "panic=-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(LabError::file("start QEMU with", kernel))?;
    let end = Instant::now() + PATIENCE;
    let mut kill = false;
    // A process that hangs in the kernel cannot even be killed: it is not waited for longer than a second.
    while Instant::now() < end + Duration::from_secs(1) {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(!kill && status.success()),
            Ok(None) => {}
            Err(error) => return Err(LabError::file("wait for QEMU with", kernel)(error)),
        }
        if !kill && Instant::now() >= end {
            kill = true;
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(false)
}
