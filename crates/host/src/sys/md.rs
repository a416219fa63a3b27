//! How far an md array is with what it does by itself.

use super::{Sys, text, word};
use std::path::Path;

/// How far a resync, a recovery, a check or a reshape is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    /// Sectors that are done, of each member.
    pub done: u64,
    /// Sectors that there are.
    pub all: u64,
}

impl Synced {
    /// The part that is done, from 0 to 1.
    pub fn share(self) -> f64 {
        self.done.min(self.all) as f64 / self.all.max(1) as f64
    }
}

/// What the array with this directory in sysfs (`/sys/block/md0/md`) does by itself: `resync`, `recover`, `check`, ...; nothing where it is at rest.
pub fn action(md: &Path) -> Option<String> {
    word(&md.join("sync_action")).filter(|action| is_action(action))
}

/// Whether this `sync_action` is one, and not that there is none.
pub fn is_action(action: &str) -> bool {
    !matches!(action, "idle" | "frozen")
}

/// Whether the array with this directory in sysfs is put together and does not run.
pub fn is_inactive(md: &Path) -> bool {
    word(&md.join("array_state")).as_deref() == Some("inactive")
}

/// Whether the array with this directory in sysfs keeps a bitmap of what is written.
pub fn has_bitmap(md: &Path) -> bool {
    word(&md.join("bitmap/location")).is_some_and(|location| location != "none")
}

/// How far the array `array` (`md0`) is; nothing where it does nothing by itself, or waits for another. From /proc/mdstat, which counts what is done;
/// `sync_completed` counts what is noted in the superblocks, and stands still for a sixteenth of the array (`md_do_sync` in drivers/md/md.c).
pub fn synced(sys: &Sys, array: &str) -> Option<Synced> {
    let told = text(&sys.proc.join("mdstat")).and_then(|text| in_mdstat(&text, array));
    told.or_else(|| noted(&sys.sys.join("block").join(array).join("md")))
}

fn noted(md: &Path) -> Option<Synced> {
    let text = word(&md.join("sync_completed"))?;
    let (done, all) = text.split_once('/')?;
    let (done, all) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
    (all > 0).then_some(Synced { done, all })
}

/// `resync =  6.4% (48384/740352) finish=5.7min`, in KiB, in the lines of `array`.
fn in_mdstat(text: &str, array: &str) -> Option<Synced> {
    let mut lines =
        text.lines().skip_while(|line| line.split_once(" : ").is_none_or(|(name, _)| name != array));
    lines.next()?;
    let mut own = lines.take_while(|line| line.starts_with(' '));
    let figures = own.find_map(|line| line.split_once("% (")?.1.split_once(')'))?.0;
    let (done, all) = figures.split_once('/')?;
    let sectors = |kib: &str| kib.parse::<u64>().ok()?.checked_mul(2);
    let (done, all) = (sectors(done)?, sectors(all)?);
    (all > 0).then_some(Synced { done, all })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    const MDSTAT: &str = "f /proc/mdstat\n|Personalities : [raid0] [raid1] \n|md1 : active raid1 vdc2[1] vdb2[0]\n|      740352 blocks super 1.2 [2/2] [UU]\n\
        |      [=>...................]  resync =  6.4% (48384/740352) finish=5.7min speed=2016K/sec\n|      \n|md10 : active raid1 vde[1] vdd[0]\n\
        |      203776 blocks super 1.2 [2/2] [UU]\n|      \tresync=DELAYED\n|      \n|md2 : active (auto-read-only) raid1 vdf[0]\n\
        |      203776 blocks super 1.2 [2/1] [U_]\n|      \n|unused devices: <none>\n";
    const NOTED: &str = "f /sys/block/md1/md/sync_completed\n|0 / 1480704\nf /sys/block/md2/md/sync_completed\n|none\n\
        f /sys/block/md3/md/sync_completed\n|4096 / 8192\nf /sys/block/md4/md/sync_completed\n|0 / 0\n";

    #[test]
    fn what_is_done_is_told_before_it_is_noted() {
        let root = unpack(&format!("{MDSTAT}{NOTED}"));
        let of = |array: &str| synced(&Sys::below(root.path()), array);
        assert_eq!(of("md1"), Some(Synced { done: 96_768, all: 1_480_704 }));
        assert!((of("md1").map_or(0.0, Synced::share) - 0.065).abs() < 0.001);
        assert_eq!([of("md10"), of("md2"), of("md4"), of("md")], [None; 4]);
        assert_eq!(of("md3").map(Synced::share), Some(0.5));
    }
}
