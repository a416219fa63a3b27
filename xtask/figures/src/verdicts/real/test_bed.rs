//! What the cases run on: files on the real disk and in memory, loop devices over them, and groups that are throttled.
//!
//! All of it has the name of this run, so that one sweeper finds it: a shell that waits for the end of its standard input,
//! which comes whatever ends this program, and then ends the programs of the groups and removes what is left.

use super::case::{Base, Throttle};
use crate::pages::{self, write};
use crate::run::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where files on a real disk are made; it must not be memory.
const ON_DISK: &str = "/var/tmp";
/// A file system in memory.
const IN_MEMORY: &str = "/dev/shm";
/// MiB of the file, or of each of several.
const ALONE: u64 = 1024;
const EACH: u64 = 256;
/// How often a loop device is asked for: others may take the free one in between.
const TRIES: u32 = 10;

/// Settings of a device that cases change, which outlive what a loop device was over.
const SETTINGS: [&str; 2] = ["max_sectors_kb", "read_ahead_kb"];
/// Weight of the programs of a case beside others' (cgroup v1 `cpu.shares`, its largest; v2 `cpu.weight`): on a machine that
/// others use, what a case starts has its part of the processors. Ahead of them is another matter: see `judge`.
const WEIGHT: [(&str, &str); 2] = [("cpu.shares", "262144"), ("cpu.weight", "10000")];

/// Ends the programs in the groups `$3`, detaches the loop devices over files in `$1` and `$2`, and removes these.
const SWEEPER: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
for turn in 1 2 3 4 5; do
    for group in "$3" "$3"/*; do
        [ -f "$group/cgroup.procs" ] && for process in $(cat "$group/cgroup.procs"); do kill -9 "$process"; done
    done
    sleep 0.1
    rmdir "$3"/* "$3" "$4" 2> /dev/null
    [ -d "$3" ] || break
done
losetup --list --noheadings --output NAME,BACK-FILE | while read -r name file; do
    case "$file" in "$1"/*|"$2"/*) losetup --detach "$name";; esac
done
rm -rf "$1" "$2"
"#;

pub struct TestBed {
    pub ebb: String,
    disk: PathBuf,
    memory: PathBuf,
    groups: Groups,
    sweeper: Child,
}

/// Where groups with limits on block devices are made.
struct Groups {
    root: PathBuf,
    /// The group with a weight of its own, where that is another one.
    weighted: Option<PathBuf>,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// `blkio.throttle.*`
    One,
    /// `io.max`
    Two,
}

impl TestBed {
    /// Directories and groups of this run, and its sweeper.
    pub fn new(ebb: &str) -> Result<TestBed, String> {
        let name = format!("ebbtide-verdicts-{}", std::process::id());
        let (disk, memory) = (Path::new(ON_DISK).join(&name), Path::new(IN_MEMORY).join(&name));
        let one = Path::new("/sys/fs/cgroup/blkio/cgroup.procs").exists();
        let (parent, version) = if one {
            (Path::new("/sys/fs/cgroup/blkio"), Version::One)
        } else {
            (Path::new("/sys/fs/cgroup"), Version::Two)
        };
        let root = parent.join(&name);
        let weighted = one.then(|| Path::new("/sys/fs/cgroup/cpu").join(&name));
        let sweeper = Command::new("sh")
            .args(["-c", SWEEPER, "sweeper"])
            .args([&disk, &memory, &root, weighted.as_ref().unwrap_or(&root)])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        let groups = Groups { root, weighted, version };
        let test_bed = TestBed { ebb: ebb.to_owned(), disk, memory, groups, sweeper };
        let groups = &test_bed.groups;
        for directory in [&test_bed.disk, &test_bed.memory, &groups.root].into_iter().chain(&groups.weighted)
        {
            fs::create_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        if version == Version::Two {
            write(&parent.join("cgroup.subtree_control"), "+io +cpu")?;
            write(&groups.root.join("cgroup.subtree_control"), "+io")?;
        }
        let (file, weight) = WEIGHT[usize::from(!one)];
        write(&groups.weighted.as_ref().unwrap_or(&groups.root).join(file), weight)?;
        if output("stat", &["-f", "-c", "%T", ON_DISK])?.trim() == "tmpfs" {
            return Err(format!("{ON_DISK} is in memory, and real cases need a real disk"));
        }
        Ok(test_bed)
    }

    /// Directory for files of a case, on disk.
    pub fn directory(&self) -> &Path {
        &self.disk
    }

    /// `major:minor` and name of the disk below [`TestBed::directory`].
    pub fn disk(&self) -> Result<(String, String), String> {
        let directory = self.disk.to_string_lossy();
        let number = output("findmnt", &["-n", "-o", "MAJ:MIN", "-T", &directory])?.trim().to_owned();
        let own = PathBuf::from(format!("/sys/dev/block/{number}"));
        let own = fs::canonicalize(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        let whole = match own.join("partition").exists().then(|| own.parent()).flatten() {
            Some(whole) => whole,
            None => &own,
        };
        let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok((read(&whole.join("dev"))?, name.unwrap_or_default()))
    }

    /// The file with this number, which is made when it is first asked for.
    pub fn file(&self, base: Base, index: usize, alone: bool) -> Result<String, String> {
        let mib = if alone { ALONE } else { EACH };
        let directory = if base == Base::LoopInMemory { &self.memory } else { &self.disk };
        let path = directory.join(format!("{mib}-{index}.img"));
        let shown = path.to_string_lossy().into_owned();
        if !path.exists() {
            let size = format!("--size={mib}m");
            // With its own filling, which it takes for nothing that could be lost.
            let arguments = [
                "bench",
                &shown,
                "--rw=write",
                "--bs=1m",
                "--iodepth=4",
                &size,
                "--end_fsync",
                "--quiet",
                "--no-save",
            ];
            output(&self.ebb, &arguments)?;
        }
        Ok(shown)
    }

    /// What the load of a case runs on.
    pub fn target(&self, base: Base, index: usize, alone: bool) -> Result<Target, String> {
        let file = self.file(base, index, alone)?;
        if base == Base::File {
            return Ok(Target { path: file, file: None, number: self.disk()?.0, before: Vec::new() });
        }
        let direct = if base == Base::LoopCached { "--direct-io=off" } else { "--direct-io=on" };
        let mut tries = 0;
        let path = loop {
            match output("losetup", &["--find", "--show", direct, &file]) {
                Ok(path) => break path.trim().to_owned(),
                Err(why) if tries == TRIES => return Err(why),
                Err(_) => tries += 1,
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let mut target = Target { path, file: Some(file), number: String::new(), before: Vec::new() };
        target.number = read(&Path::new("/sys/block").join(target.name()).join("dev"))?;
        // A run that was killed may have left the device with small requests.
        write(&target.queue("max_sectors_kb"), &read(&target.queue("max_hw_sectors_kb"))?)?;
        target.before =
            SETTINGS.iter().map(|file| read(&target.queue(file))).collect::<Result<Vec<String>, String>>()?;
        Ok(target)
    }

    /// Makes a control group with nothing in it.
    pub fn group(&self, name: &str) -> Result<Group, String> {
        let directory = self.groups.root.join(name);
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let weighted = self.groups.weighted.clone();
        Ok(Group { directory, weighted, version: self.groups.version })
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        let _ = self.sweeper.wait();
    }
}

/// A file or device; a loop device is detached when this goes.
pub struct Target {
    pub path: String,
    /// What a loop device is over.
    pub file: Option<String>,
    /// `major:minor` of the device, or of the disk that a file lies on.
    pub number: String,
    /// What a loop device had of [`SETTINGS`].
    before: Vec<String>,
}

impl Target {
    /// Kernel name of a device.
    pub fn name(&self) -> &str {
        self.path.trim_start_matches("/dev/")
    }

    /// A file of `/sys/block/NAME/queue`.
    pub fn queue(&self, file: &str) -> PathBuf {
        Path::new("/sys/block").join(self.name()).join("queue").join(file)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.file.is_some() {
            for (file, value) in SETTINGS.iter().zip(&self.before) {
                let _ = write(&self.queue(file), value);
            }
            // The sweeper has another go at it.
            let _ = output("losetup", &["--detach", &self.path]);
        }
    }
}

/// A group of programs, which goes when they have ended.
pub struct Group {
    directory: PathBuf,
    weighted: Option<PathBuf>,
    version: Version,
}

impl Group {
    /// Where the number of a process that joins is written; of one with a real-time priority without the weight, which goes
    /// with no such (`CONFIG_RT_GROUP_SCHED`).
    pub fn processes(&self, real_time: bool) -> impl Iterator<Item = PathBuf> {
        let weighted = self.weighted.as_ref().filter(|_| !real_time);
        let all = [&self.directory].into_iter().chain(weighted);
        all.map(|directory| directory.join("cgroup.procs"))
    }

    /// Holds the group's programs to so many operations or bytes of a device per second, or to none (`rate` 0 in version 1).
    pub fn hold(&self, device: &str, throttle: &Throttle, rate: u64) -> Result<(), String> {
        set(&self.directory, self.version, device, throttle, rate)
    }

    /// The same from another thread, `after` so long.
    pub fn hold_later(
        &self,
        device: &str,
        throttle: Throttle,
        after: Duration,
    ) -> std::thread::JoinHandle<()> {
        let (directory, version, device) = (self.directory.clone(), self.version, device.to_owned());
        std::thread::spawn(move || {
            std::thread::sleep(after);
            // Where the program has ended before, its group is gone.
            let _ = set(&directory, version, &device, &throttle, throttle.rate);
        })
    }
}

fn set(
    directory: &Path,
    version: Version,
    device: &str,
    throttle: &Throttle,
    rate: u64,
) -> Result<(), String> {
    let (file, line) = line(version, device, throttle, rate);
    write(&directory.join(file), &line)
}

/// File and line that set a limit.
fn line(version: Version, device: &str, throttle: &Throttle, rate: u64) -> (String, String) {
    let unit = if throttle.bytes { "bps" } else { "iops" };
    match version {
        Version::One => {
            let way = if throttle.write { "write" } else { "read" };
            (format!("blkio.throttle.{way}_{unit}_device"), format!("{device} {rate}"))
        }
        Version::Two => {
            let way = if throttle.write { 'w' } else { 'r' };
            ("io.max".to_owned(), format!("{device} {way}{unit}={rate}"))
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Text of a small file of the kernel's, trimmed.
pub fn read(path: &Path) -> Result<String, String> {
    Ok(pages::read(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_as_either_version_wants_them() {
        let throttle = Throttle { below: false, write: true, bytes: false, rate: 500, first: None };
        let one = line(Version::One, "7:3", &throttle, 500);
        assert_eq!(one, ("blkio.throttle.write_iops_device".to_owned(), "7:3 500".to_owned()));
        let throttle = Throttle { write: false, bytes: true, ..throttle };
        let two = line(Version::Two, "7:3", &throttle, 1000);
        assert_eq!(two, ("io.max".to_owned(), "7:3 rbps=1000".to_owned()));
    }
}
