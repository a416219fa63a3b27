//! Device numbers that nobody uses.

use super::{BuildError, run};
use crate::command::Runner;
use crate::sys::{self, Sys};

/// From here on, so that arrays are not in the way of those that people number from 0 and mdadm from 127 down.
const MD_FIRST: u32 = 200;
/// md's minor numbers are 20 bits, but mdadm makes devices by number below 512 only.
const MD_END: u32 = 512;

/// `count` numbers of md devices that do not exist; fewer when there are not as many.
pub fn free_md_numbers(sys: &Sys, count: usize) -> Vec<u32> {
    (MD_FIRST..MD_END)
        .filter(|number| {
            let name = format!("md{number}");
            !sys.sys.join("block").join(&name).exists() && !sys.dev.join(&name).exists()
        })
        .take(count)
        .collect()
}

/// `count` loop devices that have no file, in order. One that does not exist yet is made by losetup.
pub fn free_loops(sys: &Sys, count: usize) -> Vec<String> {
    (0u32..)
        .filter(|number| {
            let file = sys.sys.join(format!("block/loop{number}/loop/backing_file"));
            sys::text(&file).is_none()
        })
        .take(count)
        .map(|number| format!("/dev/loop{number}"))
        .collect()
}

/// Loads the kernel's loop driver where it is a module that is not loaded: without it there is no /dev/loop-control.
/// It stays loaded, as after `mount -o loop`.
///
/// # Errors
/// When it cannot be loaded.
pub fn load_loop_driver(sys: &Sys, runner: &dyn Runner) -> Result<(), BuildError> {
    if sys.sys.join("module/loop").exists() || sys.dev.join("loop-control").exists() {
        return Ok(());
    }
    run(runner, "modprobe", &["loop"]).map(drop)
}
