//! States of devices and files. Each is built for real, on loop devices over files of its own, and taken apart when it is
//! dropped.

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

/// States that no option lifts without the id of a device, which loop devices have not.
pub const PROTECTED: &[State] = &[
    // Devices in use.
    State { name: "mounted ext4", build: |place| mounted(place, "ext4") },
    State { name: "mounted xfs", build: |place| mounted(place, "xfs") },
    State { name: "mounted btrfs", build: |place| mounted(place, "btrfs") },
    State {
        name: "symbolic link to a mounted device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            std::os::unix::fs::symlink(&standing.target, place.join("link")).unwrap();
            standing.target = place.join("link");
            standing
        },
    },
    State {
        name: "another node of a mounted device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            let node = place.join("node");
            let numbers = tool("stat", &["-c", "%Hr %Lr", text(&standing.target)]);
            let (major, minor) = numbers.split_once(' ').unwrap();
            tool("mknod", &[text(&node), "b", major, minor]);
            standing.target = node;
            standing
        },
    },
    State {
        name: "mounted in another namespace",
        build: |place| {
            let mut standing = device(place, |file| mkfs("ext4", text(file)));
            mount_elsewhere(place, &mut standing);
            standing
        },
    },
    State {
        name: "swap on a device",
        build: |place| {
            let mut standing = device(place, |_| {});
            let swap = Swap::on(text(&standing.target));
            standing.guards.push(Box::new(swap));
            standing
        },
    },
    State {
        name: "device behind a mounted loop device",
        build: |place| {
            let standing = device(place, |_| {});
            let target = standing.target.clone();
            under_a_mounted_part(place, target, standing)
        },
    },
    State {
        name: "device behind a loop device that nobody uses",
        build: |place| {
            let mut standing = device(place, |_| {});
            let part = part_of(&standing.target, MIB);
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "loop device over a mounted device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            let part = part_of(&standing.target, 64 * MIB);
            standing.target = part.device.clone().into();
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "loop device over a device that is mounted in another namespace",
        build: |place| {
            let mut standing = device(place, |file| mkfs("ext4", text(file)));
            mount_elsewhere(place, &mut standing);
            let part = part_of(&standing.target, 64 * MIB);
            standing.target = part.device.clone().into();
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "loop device over a device with a file system",
        build: |place| {
            let mut standing = signed(place, "ext4");
            let part = part_of(&standing.target, 64 * MIB);
            standing.target = part.device.clone().into();
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "second loop device over the file of a mounted one",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            let second = part_of(&standing.kept[0], 64 * MIB);
            standing.target = second.device.clone().into();
            standing.guards.push(Box::new(second));
            standing
        },
    },
    State {
        name: "part of a file that holds a file system",
        build: |place| {
            let disk = blank(place, "disk");
            mkfs("ext4", text(&disk));
            let part = part_of(&disk, 64 * MIB);
            Standing { target: part.device.clone().into(), kept: vec![disk], guards: vec![Box::new(part)] }
        },
    },
    State {
        name: "disk with a mounted partition",
        build: |place| {
            let mut standing = device(place, |_| {});
            let disk = standing.target.clone();
            let part = Partition::of(&mut standing, &disk);
            mkfs("ext4", text(&part));
            let mount = Mount::new(text(&part), &place.join("mounted"), &[]);
            mount.settle();
            standing.guards.push(Box::new(mount));
            standing
        },
    },
    State {
        name: "disk with an empty partition",
        build: |place| {
            let mut standing = device(place, |_| {});
            let disk = standing.target.clone();
            Partition::of(&mut standing, &disk);
            standing
        },
    },
    State {
        name: "partition of a disk with a file system of its own",
        build: |place| {
            let mut standing = signed(place, "ext4");
            let disk = standing.target.clone();
            standing.target = Partition::of(&mut standing, &disk);
            standing
        },
    },
    State {
        name: "partition of a disk behind a loop device",
        build: |place| {
            let mut standing = device(place, |_| {});
            let disk = standing.target.clone();
            let part = Partition::of(&mut standing, &disk);
            let over = part_of(&standing.target, 200 * MIB);
            standing.guards.push(Box::new(over));
            standing.target = part;
            standing
        },
    },
    State {
        name: "device that a program has open to write",
        build: |place| held_device(place, "f=os.open(PATH, os.O_RDWR)"),
    },
    State {
        name: "device that a program has mapped and closed",
        build: |place| {
            held_device(place, "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 1<<20); os.closerange(3, 99)")
        },
    },
    State {
        name: "device that a program has mapped to read by a descriptor that may write",
        build: |place| {
            held_device(
                place,
                "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 1<<20, prot=mmap.PROT_READ); os.closerange(3, 99)",
            )
        },
    },
    State {
        name: "device that a thread with descriptors of its own has open",
        build: |place| {
            let own = "assert ctypes.CDLL(None).unshare(0x400) == 0";
            held_device(place, &in_a_thread(own, "time.sleep(600)"))
        },
    },
    State {
        name: "device that a program has open whose first thread has ended",
        // The last thread that is left tells; 60 is exit(2), of one thread.
        build: |place| held_device(place, &in_a_thread("pass", "ctypes.CDLL(None).syscall(60, 0)")),
    },
    State {
        name: "device that a program has claimed",
        build: |place| {
            let mut standing = device(place, |_| {});
            let code = format!("f=os.open('{}', os.O_RDONLY|os.O_EXCL)", standing.target.display());
            standing.guards.push(Box::new(Program::python(&code)));
            standing
        },
    },
    State {
        name: "device that a program has locked",
        build: |place| {
            let mut standing = device(place, |_| {});
            let code = format!(
                "f=os.open('{}', os.O_RDONLY); fcntl.flock(f, fcntl.LOCK_EX)",
                standing.target.display()
            );
            standing.guards.push(Box::new(Program::python(&code)));
            standing
        },
    },
    State {
        name: "read-only device",
        build: |place| {
            let disk = blank(place, "disk");
            let over = Loop::from(&["--read-only", text(&disk)]);
            Standing { target: over.device.clone().into(), kept: vec![disk], guards: vec![Box::new(over)] }
        },
    },
    // Devices with something on them.
    State { name: "ext4", build: |place| signed(place, "ext4") },
    State { name: "xfs", build: |place| signed(place, "xfs") },
    State { name: "btrfs", build: |place| signed(place, "btrfs") },
    State { name: "swap area", build: |place| device(place, |file| drop(tool("mkswap", &[text(file)]))) },
    State {
        name: "LUKS2",
        build: |place| {
            device(place, |file| {
                let key = place.join("key");
                std::fs::write(&key, "a key").unwrap();
                let quick = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
                let mut arguments = vec!["luksFormat", "--batch-mode", "--type", "luks2"];
                arguments.extend(quick);
                arguments.extend(["--key-file", text(&key), text(file)]);
                tool("cryptsetup", &arguments);
            })
        },
    },
    State {
        name: "LVM physical volume",
        build: |place| {
            // The label of LVM2's on-disk format, in the second sector; libblkid asks for its checksum.
            device(place, |file| {
                let mut sector = [0u8; 512];
                sector[..8].copy_from_slice(b"LABELONE");
                sector[8] = 1;
                sector[20] = 32;
                sector[24..32].copy_from_slice(b"LVM2 001");
                put(file, 512, &sector);
            })
        },
    },
    State {
        name: "md member",
        build: |place| {
            // The superblock of version 1.2, 4 KiB from the start (the kernel's md_p.h): magic and version.
            device(place, |file| put(file, 4096, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]))
        },
    },
    State { name: "GPT", build: |place| device(place, |file| table(file, "gpt")) },
    State { name: "MBR", build: |place| device(place, |file| table(file, "dos")) },
    State {
        name: "GPT without its protective MBR",
        build: |place| {
            device(place, |file| {
                table(file, "gpt");
                put(file, 0, &[0; 512]);
            })
        },
    },
    State {
        name: "lone backup GPT",
        build: |place| {
            device(place, |file| {
                table(file, "gpt");
                put(file, 0, &[0; 64 * 512]);
            })
        },
    },
    State {
        name: "qcow2 image",
        build: |place| {
            device(place, |file| {
                let image = place.join("image");
                tool("qemu-img", &["create", "-q", "-f", "qcow2", text(&image), "10M"]);
                put(file, 0, &std::fs::read(&image).unwrap());
            })
        },
    },
    State {
        name: "bcachefs",
        build: |place| {
            // Its magic number, 24 bytes into the superblock at 4 KiB (bcachefs_format.h).
            device(place, |file| {
                put(file, 4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9]);
                put(file, 4096 + 32, &[0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef]);
            })
        },
    },
    State {
        name: "second copy of btrfs' superblock",
        build: |place| {
            device(place, |file| {
                mkfs("btrfs", text(file));
                put(file, 0, &vec![0; MIB as usize]);
            })
        },
    },
    State {
        name: "backup superblocks of ext4",
        build: |place| {
            device(place, |file| {
                mkfs("ext4", text(file));
                put(file, 0, &vec![0; 2 * MIB as usize]);
            })
        },
    },
    State {
        name: "data at the beginning",
        build: |place| device(place, |file| put(file, 70_000, b"a database")),
    },
    State {
        name: "data at the end",
        build: |place| device(place, |file| put(file, SIZE - 4096, b"a database")),
    },
    // Files.
    State {
        name: "file behind a mounted loop device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            standing.target = standing.kept[0].clone();
            standing
        },
    },
    State {
        name: "hard link to a file behind a mounted loop device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            std::fs::hard_link(&standing.kept[0], place.join("hard")).unwrap();
            standing.target = place.join("hard");
            standing
        },
    },
    State {
        name: "symbolic link to a file behind a loop device",
        build: |place| {
            let mut standing = device(place, |_| {});
            std::os::unix::fs::symlink(&standing.kept[0], place.join("link")).unwrap();
            standing.target = place.join("link");
            standing
        },
    },
    State {
        name: "file behind a loop device over which another one is mounted",
        build: |place| {
            let standing = device(place, |_| {});
            let target = standing.kept[0].clone();
            under_a_mounted_part(place, target, standing)
        },
    },
    State {
        name: "swap file",
        build: |place| {
            let mut standing = file(place);
            tool("chmod", &["600", text(&standing.target)]);
            let swap = Swap::on(text(&standing.target));
            standing.guards.push(Box::new(swap));
            standing
        },
    },
    State {
        name: "file that a program has open",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDWR)"),
    },
    State {
        name: "file that a program has open to read",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDONLY)"),
    },
    State {
        name: "file that a program has mapped",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 0); os.closerange(3, 99)"),
    },
    State {
        name: "file on an overlay that is behind a mounted loop device below it",
        build: |place| overlaid(place, mounted(&upper(place), "ext4")),
    },
    State {
        name: "file on an overlay that is behind a loop device below it, through a bind mount of its own",
        build: |place| {
            let mut standing = overlaid(place, device(&upper(place), |_| {}));
            let bound = place.join("bound");
            File::create(&bound).unwrap();
            tool("mount", &["--bind", text(&standing.target), text(&bound)]);
            standing.guards.push(Box::new(Mount(bound.clone())));
            standing.target = bound;
            standing
        },
    },
    State {
        name: "file on an overlay that a program has open below it",
        build: |place| overlaid(place, opened(&upper(place), "f=os.open(PATH, os.O_RDWR)")),
    },
    State {
        name: "file on an overlay that a program has mapped below it",
        build: |place| {
            let code = "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 0); os.closerange(3, 99)";
            overlaid(place, opened(&upper(place), code))
        },
    },
    State {
        name: "loop device over a file on an overlay that another one is over below it",
        build: |place| {
            let mut standing = overlaid(place, device(&upper(place), |_| {}));
            let second = part_of(&standing.target, 64 * MIB);
            standing.target = second.device.clone().into();
            standing.guards.push(Box::new(second));
            standing
        },
    },
    State {
        name: "file that a program has locked",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDWR); fcntl.lockf(f, fcntl.LOCK_EX)"),
    },
    State {
        name: "program that runs",
        build: |place| {
            let path = place.join("sleeping");
            std::fs::copy("/bin/sleep", &path).unwrap();
            let child = Command::new(&path).arg("600").spawn().unwrap();
            Standing { target: path.clone(), kept: vec![path], guards: vec![Box::new(Program(child))] }
        },
    },
    State {
        name: "immutable file",
        build: |place| {
            let mut standing = file(place);
            tool("chattr", &["+i", text(&standing.target)]);
            let guard = Immutable(standing.target.clone());
            standing.guards.push(Box::new(guard));
            standing
        },
    },
    State {
        name: "file on a read-only mount",
        build: |place| {
            let mut standing = device(place, |file| mkfs("ext4", text(file)));
            let directory = place.join("mounted");
            let mount = Mount::new(text(&standing.target), &directory, &[]);
            std::fs::write(directory.join("file"), vec![7; 4 * MIB as usize]).unwrap();
            tool("mount", &["-o", "remount,ro", text(&directory)]);
            standing.guards.push(Box::new(mount));
            standing.target = directory.join("file");
            standing
        },
    },
];

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
