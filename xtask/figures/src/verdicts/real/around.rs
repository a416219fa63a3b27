//! What else goes on during a case: what it makes itself, and what others do.

use super::case::Neighbour;
use super::test_bed::{Group, read};
use crate::run::words;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest life of a neighbour, in seconds.
const LIFE: u32 = 60;
/// How long others are looked at.
const LOOK: Duration = Duration::from_millis(400);

/// A program beside the load, which ends with this.
pub struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that runs in a group.
pub fn in_group(group: &Group, real_time: bool, program: &str) -> Command {
    let mut command = Command::new("sh");
    let join = "while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit 1; shift; done; shift; exec \"$@\"";
    command.args(["-c", join, "sh"]).args(group.processes(real_time)).args(["--", program]);
    command
}

fn beside(mut command: Command) -> Result<Beside, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(Beside).map_err(|error| format!("a program beside the load: {error}"))
}

/// A loop without an end on one core.
pub fn hog(group: &Group, core: usize) -> Result<Beside, String> {
    let mut command = in_group(group, false, "taskset");
    command.args(["-c", &core.to_string(), "sh", "-c", "while :; do :; done"]);
    beside(command)
}

/// fio on a file or device.
pub fn neighbour(group: &Group, path: &str, n: &Neighbour) -> Result<Beside, String> {
    let mut command = in_group(group, false, "fio");
    let Neighbour { rw, bs_kib, iodepth, rate_mib } = n;
    let rate = rate_mib.map_or(String::new(), |rate| format!("--rate={rate}m"));
    command.args(words(&format!(
        "--name=neighbour --filename={path} --rw={rw} --bs={bs_kib}k --iodepth={iodepth} --direct=1 --ioengine=io_uring \
         --time_based --runtime={LIFE} --thread {rate}"
    )));
    beside(command)
}

/// Time of all cores in ticks.
struct Ticks {
    busy: u64,
    stolen: u64,
    all: u64,
}

fn ticks() -> Result<Ticks, String> {
    let text = read(Path::new("/proc/stat"))?;
    let first = text.lines().next().unwrap_or_default();
    let fields: Vec<u64> = first.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else {
        return Err(format!("/proc/stat: {first}"));
    };
    let busy = user + nice + system + irq + softirq + steal;
    Ok(Ticks { busy, stolen: steal, all: busy + idle + iowait })
}

/// Share of the time of all cores that the hypervisor takes while `work` runs.
pub fn stolen_during<T>(work: impl FnOnce() -> T) -> Result<(f64, T), String> {
    share_during(|ticks| ticks.stolen, work)
}

/// Busy share of all cores while `work` runs.
pub fn busy_during<T>(work: impl FnOnce() -> T) -> Result<(f64, T), String> {
    share_during(|ticks| ticks.busy, work)
}

fn share_during<T>(of: fn(&Ticks) -> u64, work: impl FnOnce() -> T) -> Result<(f64, T), String> {
    let before = ticks()?;
    let done = work();
    let after = ticks()?;
    let all = after.all.saturating_sub(before.all).max(1);
    Ok((of(&after).saturating_sub(of(&before)) as f64 / all as f64, done))
}

/// Bytes that a disk has read and written since the system started (`/sys/block/NAME/stat`, in sectors of 512 bytes).
fn bytes(disk: &str) -> Result<(u64, u64), String> {
    let stat = read(&Path::new("/sys/block").join(disk).join("stat"))?;
    let sectors = |field: usize| stat.split_whitespace().nth(field).and_then(|text| text.parse::<u64>().ok());
    let both = sectors(2).zip(sectors(6));
    both.map(|(read, written)| (read * 512, written * 512)).ok_or_else(|| format!("{disk}: {stat}"))
}

/// Bytes that a disk has read since the system started.
pub fn bytes_read(disk: &str) -> Result<u64, String> {
    Ok(bytes(disk)?.0)
}

/// What others do for a moment: busy share of all cores, and bytes per second that they move on a disk.
pub fn look(disk: &str) -> Result<(f64, f64), String> {
    let before = bytes(disk)?;
    let (busy, ()) = busy_during(|| std::thread::sleep(LOOK))?;
    let after = bytes(disk)?;
    let moved = after.0.saturating_sub(before.0) + after.1.saturating_sub(before.1);
    Ok((busy, moved as f64 / LOOK.as_secs_f64()))
}
