//! States of devices and files. Each is built for real, on loop devices over files of its own, and taken apart when it is
//! dropped.

mod protected;

pub use protected::PROTECTED;

use super::common::{Loop, tool};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MIB: u64 = 1 << 20;
/// Large enough for btrfs and the second copy of its superblock; XFS wants more.
const SIZE: u64 = 160 * MIB;
const SIZE_XFS: u64 = 320 * MIB;

/// Something that goes when it is dropped.
pub trait Guard {
    /// Bytes that the kernel itself may change meanwhile.
    fn kernels(&self) -> Range<u64> {
        0..0
    }
}
impl Guard for Loop {}

pub struct Mount(PathBuf);
impl Guard for Mount {}

impl Mount {
    pub fn new(source: &str, directory: &Path, options: &[&str]) -> Mount {
        std::fs::create_dir_all(directory).unwrap();
        let mut arguments: Vec<&str> = options.to_vec();
        arguments.extend([source, directory.to_str().unwrap()]);
        tool("mount", &arguments);
        Mount(directory.to_owned())
    }

    /// What is mounted on `directory` already.
    pub fn of(directory: &Path) -> Mount {
        Mount(directory.to_owned())
    }

    /// Lets the file system write nothing more in its own time.
    pub fn settle(&self) {
        tool("mount", &["-o", "remount,ro", text(&self.0)]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        until_done(Command::new("umount").arg(&self.0));
    }
}

/// Tries again while somebody who looks at everything on the host has it open for a moment.
fn until_done(command: &mut Command) {
    for _ in 0..50 {
        match command.output() {
            Ok(output) if output.status.success() => return,
            _ => std::thread::sleep(std::time::Duration::from_millis(100)),
        }
    }
}

/// Swap, switched off again.
struct Swap(String);
impl Guard for Swap {
    fn kernels(&self) -> Range<u64> {
        PAGE..SWAP
    }
}

const PAGE: u64 = 4096;
/// The least that mkswap makes.
const SWAP: u64 = 10 * PAGE;

impl Swap {
    fn on(path: &str) -> Swap {
        tool("mkswap", &[path, &(SWAP >> 10).to_string()]);
        tool("swapon", &[path]);
        Swap(path.to_owned())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
    }
}

/// A program that runs meanwhile and has told that it is ready.
pub struct Program(Child);
impl Guard for Program {}

impl Program {
    /// Python that prints a line when it has done what it is for. It keeps a descriptor of its own for what it maps.
    pub fn python(code: &str) -> Program {
        let code =
            format!("import fcntl,mmap,os,sys,time\n{code}\nprint('ready', flush=True)\ntime.sleep(600)");
        Program::start(Command::new("python3").args(["-c", &code]))
    }

    /// The same in a mount namespace of its own (`CLONE_NEWNS`).
    pub fn python_apart(code: &str) -> Program {
        Program::python(&format!(
            "import ctypes,subprocess\nctypes.CDLL(None).unshare(0x20000)\n\
             subprocess.check_call(['mount', '--make-rprivate', '/'])\n{code}"
        ))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Program(child)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file with the immutable attribute, which it loses when dropped.
struct Immutable(PathBuf);
impl Guard for Immutable {}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg("-i").arg(&self.0).status();
    }
}

/// One state, as it stands.
pub struct Standing {
    /// What the program is pointed at.
    pub target: PathBuf,
    /// Files whose bytes must stay as they are.
    pub kept: Vec<PathBuf>,
    /// Taken apart from the last to the first.
    pub guards: Vec<Box<dyn Guard>>,
}

impl Drop for Standing {
    fn drop(&mut self) {
        while self.guards.pop().is_some() {}
    }
}

impl Standing {
    /// What must stay, byte for byte, with what still waits to be written to it.
    pub fn bytes(&self) -> Vec<(u64, Vec<u8>)> {
        for path in std::iter::once(&self.target).chain(&self.kept) {
            // Some cannot be opened any more; those that can be written through can.
            if let Ok(file) = File::open(path) {
                let _ = file.sync_all();
            }
        }
        let kernels: Vec<Range<u64>> = self.guards.iter().map(|guard| guard.kernels()).collect();
        let mut all: Vec<(u64, Vec<u8>)> = self.kept.iter().flat_map(|path| blocks(path)).collect();
        all.retain(|(offset, _)| !kernels.iter().any(|range| range.contains(offset)));
        all
    }
}

/// The blocks of a file that are not all zeros.
fn blocks(path: &Path) -> Vec<(u64, Vec<u8>)> {
    const BLOCK: usize = 4096;
    let file = File::open(path).unwrap();
    let (size, mut at, mut found) = (file.metadata().unwrap().len(), 0, Vec::new());
    while at < size {
        let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) else { break };
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap();
        let mut bytes = vec![0; (hole - data) as usize];
        file.read_exact_at(&mut bytes, data).unwrap();
        let numbered = bytes.chunks(BLOCK).zip((data..).step_by(BLOCK));
        found.extend(
            numbered
                .filter(|(block, _)| block.iter().any(|b| *b != 0))
                .map(|(block, at)| (at, block.to_vec())),
        );
        at = hole;
    }
    found
}

/// A way to build a state in a directory of its own.
pub struct State {
    pub name: &'static str,
    pub build: fn(&Path) -> Standing,
}

/// A new file of zeros.
pub fn blank(place: &Path, name: &str) -> PathBuf {
    let path = place.join(name);
    File::create_new(&path).unwrap().set_len(SIZE).unwrap();
    path
}

fn mkfs_xfs(file: &Path) {
    File::options().write(true).open(file).unwrap().set_len(SIZE_XFS).unwrap();
    tool("mkfs.xfs", &["-q", "-f", text(file)]);
}

fn put(path: &Path, offset: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A loop device over a file that `prepare` has worked on.
fn device(place: &Path, prepare: impl FnOnce(&Path)) -> Standing {
    let file = blank(place, "disk");
    prepare(&file);
    let over = Loop::over(&file);
    Standing { target: over.device.clone().into(), kept: vec![file], guards: vec![Box::new(over)] }
}

fn mkfs(kind: &str, target: &str) {
    match kind {
        "ext4" => {
            drop(tool("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", target]))
        }
        "xfs" => mkfs_xfs(Path::new(target)),
        "btrfs" => drop(tool("mkfs.btrfs", &["-q", "-f", target])),
        other => panic!("{other}"),
    }
}

/// Somebody's file system on the file, which is not mounted.
fn signed(place: &Path, kind: &'static str) -> Standing {
    device(place, |file| mkfs(kind, text(file)))
}

/// A device with a mounted file system; the program is pointed at the device.
fn mounted(place: &Path, kind: &str) -> Standing {
    let mut standing = device(place, |file| mkfs(kind, text(file)));
    let mount = Mount::new(text(&standing.target), &place.join("mounted"), &[]);
    std::fs::write(place.join("mounted/precious"), vec![7; 100_000]).unwrap();
    mount.settle();
    standing.guards.push(Box::new(mount));
    standing
}

/// Mounts the target where only another program sees it.
fn mount_elsewhere(place: &Path, standing: &mut Standing) {
    let directory = place.join("hidden");
    std::fs::create_dir(&directory).unwrap();
    // What other states have mounted would stay mounted there.
    let script = format!(
        "grep -o ' /var/tmp/[^ ]*' /proc/self/mounts | xargs -r umount -l; mount {} {} && echo ready && exec sleep 600",
        standing.target.display(),
        directory.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    standing.guards.push(Box::new(Program::start(&mut command)));
}

/// A loop device over `offset` on, of a device or file.
fn part_of(path: &Path, offset: u64) -> Loop {
    Loop::from(&["--offset", &offset.to_string(), text(path)])
}

/// A device or file with somebody's mounted file system on a loop device over part of it.
fn under_a_mounted_part(place: &Path, target: PathBuf, mut standing: Standing) -> Standing {
    let part = part_of(&standing.target, MIB);
    mkfs("ext4", &part.device);
    let mount = Mount::new(&part.device, &place.join("mounted"), &[]);
    mount.settle();
    standing.guards.push(Box::new(part));
    standing.guards.push(Box::new(mount));
    standing.target = target;
    standing
}

/// A partition of 100 MiB from 1 MiB on, which the kernel is told of and forgets again.
struct Partition(String);
impl Guard for Partition {}

impl Partition {
    /// Of the disk that `standing` is; its path.
    fn of(standing: &mut Standing, disk: &Path) -> PathBuf {
        let disk = text(disk).to_owned();
        tool("addpart", &[&disk, "1", "2048", "204800"]);
        let path = PathBuf::from(format!("{disk}p1"));
        standing.guards.push(Box::new(Partition(disk)));
        path
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        until_done(Command::new("delpart").args([&self.0, "1"]));
    }
}

/// A regular file with somebody's bytes.
fn file(place: &Path) -> Standing {
    let path = place.join("file");
    std::fs::write(&path, vec![7; (8 * MIB) as usize]).unwrap();
    Standing { target: path.clone(), kept: vec![path], guards: Vec::new() }
}

/// Large enough for a file system, and what trials leave free on it.
fn roomy(place: &Path) -> Standing {
    let standing = file(place);
    File::options().write(true).open(&standing.target).unwrap().set_len(SIZE).unwrap();
    standing
}

fn opened(place: &Path, code: &str) -> Standing {
    let mut standing = file(place);
    let code = code.replace("PATH", &format!("'{}'", standing.target.display()));
    standing.guards.push(Box::new(Program::python(&code)));
    standing
}

/// A blank device that Python does `code` with; PATH in it is the device.
pub fn held_device(place: &Path, code: &str) -> Standing {
    let mut standing = device(place, |_| {});
    let code = code.replace("PATH", &format!("'{}'", standing.target.display()));
    standing.guards.push(Box::new(Program::python(&code)));
    standing
}

/// Python that opens PATH in a second thread after `before`, while the first one goes on to `first`.
fn in_a_thread(before: &str, first: &str) -> String {
    format!(
        "import ctypes,threading\ndef second():\n {before}\n f=os.open(PATH, os.O_RDWR)\n \
         print('ready', flush=True)\n time.sleep(600)\nthreading.Thread(target=second).start()\n{first}"
    )
}

/// The file of `below` as it is on an overlay whose upper directory is the one that it is in.
fn overlaid(place: &Path, mut below: Standing) -> Standing {
    for name in ["lower", "work", "merged"] {
        std::fs::create_dir(place.join(name)).unwrap();
    }
    let file = below.kept[0].clone();
    let upper = file.parent().unwrap();
    let (lower, work) = (place.join("lower"), place.join("work"));
    let layers =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let mount = Mount::new("overlay", &place.join("merged"), &["-t", "overlay", "-o", &layers]);
    below.guards.push(Box::new(mount));
    below.target = place.join("merged").join(file.file_name().unwrap());
    below
}

/// A directory below `place` that can be the upper one of an overlay.
fn upper(place: &Path) -> PathBuf {
    let upper = place.join("upper");
    std::fs::create_dir(&upper).unwrap();
    upper
}

/// A partition table with one partition.
fn table(file: &Path, kind: &str) {
    let mut child = Command::new("sfdisk").args(["-q", text(file)]).stdin(Stdio::piped()).spawn().unwrap();
    let script = format!("label: {kind}\nstart=2048,size=204800\n");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let mut begin = vec![0; 2];
    let mut open = File::open(file).unwrap();
    open.seek(SeekFrom::Start(510)).unwrap();
    open.read_exact(&mut begin).unwrap();
    assert_eq!(begin, [0x55, 0xaa]);
}

/// States in which a target may be written with `--destroy` alone: what shows that the others are refused for what they
/// are.
pub const FREE: &[State] = &[
    State { name: "blank device", build: |place| device(place, |_| {}) },
    State {
        name: "partition of a disk with a table",
        build: |place| {
            let mut standing = device(place, |file| table(file, "dos"));
            let disk = standing.target.clone();
            standing.target = Partition::of(&mut standing, &disk);
            standing
        },
    },
    State { name: "file", build: roomy },
    State { name: "file on an overlay", build: |place| overlaid(place, roomy(&upper(place))) },
];
