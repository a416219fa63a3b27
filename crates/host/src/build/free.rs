//! Device numbers that nobody uses.

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
