//! The process of a guest: QEMU, or a kernel that is a program.

use super::LabError;
use super::machine;
use super::places::GuestDirectory;
use super::tools::last_lines;
use ebbtide_door::{own, read};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

/// What QEMU says.
pub(super) const QEMU_LOG: &str = "qemu.log";
/// What a kernel that is a program says, and what its script does.
pub(super) const KERNEL_LOG: &str = "console";
pub(super) const OUTPUT: &str = "output";

/// A log that is longer is not looked into.
const LOG_MAX: u64 = 64 << 20;

/// `program`, which the kernel kills when the thread that starts it ends in whatever way, in a process group of its own.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).stdin(Stdio::null()).process_group(0);
    command
}

/// A guest's process. Dropped, it is ended with its children. Nothing is flushed: who wants the guest's disks has the guest sync them.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub directory: Arc<GuestDirectory>,
}

impl Process {
    /// Starts `command` for the guest of this directory.
    pub fn start(command: &mut Command, directory: &Arc<GuestDirectory>) -> Result<Process, LabError> {
        let child = command.spawn().map_err(LabError::file("start the guest of", directory.path()))?;
        Ok(Process { child, directory: directory.clone() })
    }

    /// How it has ended, where it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.try_wait().map_err(LabError::file("wait for the guest of", self.directory.path()))
    }

    /// That the guest `what`, with the last words of all that speak in it.
    pub fn fault(&self, what: impl Into<String>) -> LabError {
        let mut log = String::new();
        for (name, file) in [
            ("QEMU", QEMU_LOG),
            ("its console", machine::CONSOLE),
            ("its kernel", KERNEL_LOG),
            ("its script", OUTPUT),
        ] {
            let last = last_lines(&self.log(file), 20);
            if !last.is_empty() {
                log += &format!("\n{name} said last:\n{last}");
            }
        }
        LabError::Guest { what: what.into(), log }
    }

    /// The log `name`.
    pub fn log(&self, name: &str) -> String {
        let bytes = read::bytes(&self.directory.path().join(name), LOG_MAX).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A group outlives its first process; one that has ended has no number to send to.
        let lives = self.child.try_wait().is_ok_and(|ended| ended.is_none());
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group.filter(|_| lives) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The log `name` in `directory`, empty, to be written.
pub(super) fn new_log(directory: &Path, name: &str) -> Result<File, LabError> {
    let path = directory.join(name);
    own::anew(&path).map_err(LabError::file("make", &path))
}
