//! Whether KVM works here, found out by using it.
//!
//! That /dev/kvm opens proves nothing: inside a virtual machine it may be there and guests hang after their
//! firmware. So the guest's own kernel is started without a root file system: it panics, which ends QEMU.
//! What has not ended after [`PATIENCE`] hangs, or is no faster than emulation.

use super::LabError;
use super::image::Image;
use super::machine::Accelerator;
use super::places::Places;
use super::process::command;
use ebbtide_host::sys;
use std::path::Path;
use std::process::Stdio;
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
    let answer = once_a_boot(&places.root().join("kvm"), || {
        Ok(if try_kvm(&image.kernel())? { "works" } else { "hangs" })
    })?;
    Ok(match answer.as_str() {
        "works" => (Accelerator::Kvm, String::new()),
        _ => (Accelerator::Tcg, format!(", as guests on {DEVICE} hang")),
    })
}

/// What `ask` answers, kept in `file` until the host's next boot.
pub(super) fn once_a_boot(
    file: &Path,
    ask: impl FnOnce() -> Result<&'static str, LabError>,
) -> Result<String, LabError> {
    let boot = sys::text(Path::new(BOOT_ID)).unwrap_or_default();
    let kept = sys::text(file).unwrap_or_default();
    match kept.strip_prefix(&boot) {
        Some(answer) if !boot.is_empty() => Ok(answer.trim().to_owned()),
        _ => {
            let answer = ask()?;
            super::files::write(file, format!("{boot}{answer}\n").as_bytes())?;
            Ok(answer.to_owned())
        }
    }
}

/// Whether the kernel panics in time, as it should.
fn try_kvm(kernel: &Path) -> Result<bool, LabError> {
    let mut child = command("qemu-system-x86_64")
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "q35"])
        .args(["-accel", "kvm", "-cpu", "host", "-m", "256", "-append", "panic=-1", "-kernel"])
        .arg(kernel)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(LabError::file("start QEMU with", kernel))?;
    let end = Instant::now() + PATIENCE;
    let mut kill = false;
    // A process that hangs in the kernel cannot even be killed: it is not waited for longer than a second.
    while Instant::now() < end + Duration::from_secs(1) {
        if let Some(status) = child.try_wait().map_err(LabError::file("wait for QEMU with", kernel))? {
            return Ok(!kill && status.success());
        }
        if !kill && Instant::now() >= end {
            kill = true;
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(false)
}
