//! The world changes between a check and its use: the program is stopped at a point of its own choice
//! (`EBB_TEST_PAUSE`), somebody does something, and it goes on. What is somebody's must be as it was, under its name.

use super::common::{Home, Loop, tool, until};
use super::states::{Mount, Program, blank};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What takes part in a race: somebody's things, and what the program is pointed at.
struct Scene {
    home: Home,
    place: tempfile::TempDir,
    /// A blank device that may be written.
    blank: Loop,
    /// A mounted device with a file system.
    victim: Loop,
    _mounted: Mount,
    guards: std::cell::RefCell<Vec<Box<dyn std::any::Any>>>,
}

impl Scene {
    /// The free device is /dev/loopN: `REATTACH` sets that name free for a moment, and what looks for a free loop
    /// device in the meantime must not find it.
    fn new(number: usize) -> Scene {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let disk = blank(place.path(), "victim-disk");
        tool("mkfs.ext4", &["-q", "-F", disk.to_str().unwrap()]);
        let victim = Loop::over(&disk);
        let mounted = Mount::new(&victim.device, &place.path().join("mounted"), &[]);
        let device = format!("/dev/loop{number}");
        tool("losetup", &[&device, blank(place.path(), "blank-disk").to_str().unwrap()]);
        let blank = Loop { device };
        std::fs::write(place.path().join("mounted/precious"), vec![7; 200_000]).unwrap();
        mounted.settle();
        let scene =
            Scene { home: Home::new(), place, blank, victim, _mounted: mounted, guards: Default::default() };
        std::fs::write(scene.at("precious"), vec![7; 200_000]).unwrap();
        std::fs::create_dir(scene.at("precious-directory")).unwrap();
        std::fs::write(scene.at("precious-directory/file"), "a user's own").unwrap();
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn link(&self, to: &Path, name: &str) {
        let path = self.at(name);
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    fn keep(&self, guard: impl std::any::Any) {
        self.guards.borrow_mut().push(Box::new(guard));
    }

    /// What must be as it was: file by file, and the device byte by byte.
    fn state(&self) -> BTreeMap<String, Vec<u8>> {
        let mut state = BTreeMap::new();
        for name in ["precious", "mounted/precious", "precious-directory/file"] {
            state.insert(name.to_owned(), std::fs::read(self.at(name)).unwrap_or_default());
        }
        std::fs::File::open(&self.victim.device).unwrap().sync_all().unwrap();
        state.insert("victim".to_owned(), std::fs::read(self.at("victim-disk")).unwrap());
        state
    }
}

/// What the program is doing when it is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Writes to the device that `link` leads to.
    Device,
    /// Overwrites the file `target`.
    File,
    /// Runs an experiment on the device that `link` leads to.
    Run,
    /// Replaces the report `r.json`.
    Replace,
    /// Makes the report `r.json`.
    Report,
    /// Makes the file `new` and fills it.
    New,
    /// Makes volumes in `volumes`, and removes them.
    Volumes,
}

impl Doing {
    fn command(self, scene: &Scene) -> Command {
        let home = &scene.home;
        match self {
            Doing::Device | Doing::Run => scene.link(Path::new(&scene.blank.device), "link"),
            Doing::File => std::fs::write(scene.at("target"), vec![0; 4 << 20]).unwrap(),
            Doing::Replace => std::fs::write(scene.at("r.json"), "an old report").unwrap(),
            Doing::Report | Doing::New | Doing::Volumes => {}
        }
        match self {
            Doing::Device => {
                with(home.ebb("bench --rw write --bs 64k --size 4m --destroy"), &scene.at("link"))
            }
            Doing::File => {
                with(home.ebb("bench --rw write --bs 64k --size 4m --destroy"), &scene.at("target"))
            }
            Doing::New => with(home.ebb("bench --rw randread --bs 4k --size 4m"), &scene.at("new")),
            Doing::Run => {
                let device = format!("device = \"/dev/..{}\"", scene.at("link").display());
                home.write("x.toml", &experiment(&device));
                home.ebb("run x.toml --quiet --destroy")
            }
            Doing::Volumes => {
                std::fs::create_dir(scene.at("volumes")).unwrap();
                let directory = format!("directory = \"{}\"\nsize = \"4MiB\"", scene.at("volumes").display());
                home.write("x.toml", &experiment(&directory));
                home.ebb("run x.toml --quiet")
            }
            Doing::Replace | Doing::Report => {
                home.write("x.toml", &super::common::tiny("", super::common::SHORT));
                let mut command = home.ebb("run x.toml --on sim --quiet -o");
                command.arg(scene.at("r.json"));
                command
            }
        }
    }
}

fn with(mut command: Command, target: &Path) -> Command {
    command.arg(target);
    command
}

fn experiment(volume: &str) -> String {
    format!(
        "name = \"x\"\n[volumes.v]\n{volume}\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n[workloads.w]\n\
         rw = \"randwrite\"\nbs = \"4k\"\nruntime = \"20ms\"\n[answer]\ntrials_min = 6\ntrials_max = 6\nbudget = \"10s\"\n"
    )
}

/// Waits until `child` has stopped itself; whether it has.
fn stopped(child: &mut Child) -> bool {
    until("a program that stops itself or ends", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
        match state {
            Some('T') => Ok(true),
            Some('Z') | None => Ok(false),
            _ if child.try_wait().unwrap().is_some() => Ok(false),
            _ => Err(stat),
        }
    })
}

type Attack = (&'static str, fn(&Scene));

/// Somebody points the link elsewhere.
const REPOINT: Attack = ("the link is pointed at a mounted device", |scene| {
    scene.link(Path::new(&scene.victim.device), "link");
});
const REPOINT_TO_FILE: Attack = ("the link is pointed at a file", |scene| {
    scene.link(&scene.at("precious"), "link");
});
const REPOINT_TO_DISK: Attack = ("the link is pointed at the file behind a mounted device", |scene| {
    scene.link(&scene.at("victim-disk"), "link");
});
/// Somebody gives the loop device another file.
const REATTACH: Attack = ("the loop device gets another file", |scene| {
    let _ = Command::new("losetup").args(["--detach", &scene.blank.device]).output();
    let _ = Command::new("losetup").arg(&scene.blank.device).arg(scene.at("precious")).output();
});
/// Somebody makes a file system on the device and mounts it.
const MKFS_AND_MOUNT: Attack = ("a file system is made on the device and mounted", |scene| {
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&scene.blank.device).output().unwrap();
    std::fs::create_dir_all(scene.at("other")).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-o", "noatime"]).arg(&scene.blank.device).arg(scene.at("other"));
    if made.status.success() && mount.output().unwrap().status.success() {
        std::fs::write(scene.at("other/precious"), vec![7; 100_000]).unwrap();
        // So that the file system writes nothing more in its own time.
        tool("mount", &["-o", "remount,ro", scene.at("other").to_str().unwrap()]);
        scene.keep(Unmount(scene.at("other")));
    }
});
const MKFS: Attack = ("a file system is made on the device", |scene| {
    let _ = Command::new("mkfs.ext4").args(["-q", "-F", &scene.blank.device]).output();
});
const DATA: Attack = ("a program writes data to the device", |scene| {
    let device = std::fs::File::options().write(true).open(&scene.blank.device).unwrap();
    device.write_all_at(b"a database", 8192).unwrap();
    device.sync_all().unwrap();
});
const LOOP_OVER: Attack = ("a loop device is set up over the device", |scene| {
    scene.keep(Loop::from(&[&scene.blank.device]));
});
const SWAP: Attack = ("the device becomes swap", |scene| {
    let _ = Command::new("mkswap").arg(&scene.blank.device).output();
    let on = Command::new("swapon").arg(&scene.blank.device).output().unwrap();
    if on.status.success() {
        scene.keep(SwapOff(scene.blank.device.clone()));
    }
});
/// Somebody puts something else where the file was.
const FILE_TO_LINK: Attack = ("the file is replaced by a link to a mounted device", |scene| {
    scene.link(Path::new(&scene.victim.device), "target");
});
const FILE_TO_DISK: Attack =
    ("the file is replaced by a hard link to the file behind a mounted device", |scene| {
        std::fs::remove_file(scene.at("target")).unwrap();
        std::fs::hard_link(scene.at("victim-disk"), scene.at("target")).unwrap();
    });
const FILE_REPLACED: Attack = ("somebody's file is renamed over the file", |scene| {
    std::fs::remove_file(scene.at("target")).unwrap();
    std::fs::hard_link(scene.at("precious"), scene.at("target")).unwrap();
});
const FILE_OPENED: Attack = ("a program opens the file", |scene| {
    scene.keep(Program::python(&format!("f=os.open('{}', os.O_RDWR)", scene.at("target").display())));
});
const FILE_BEHIND_LOOP: Attack = ("a loop device is set up over the file", |scene| {
    scene.keep(Loop::over(&scene.at("target")));
});
/// Somebody puts something where the report goes.
const REPORT_LINK: Attack = ("a link to a mounted device takes the report's name", |scene| {
    scene.link(Path::new(&scene.victim.device), "r.json");
});
const REPORT_FILE: Attack = ("somebody's file takes the report's name", |scene| {
    let _ = std::fs::remove_file(scene.at("r.json"));
    std::fs::write(scene.at("r.json"), "a user's own").unwrap();
    std::fs::write(scene.at("expect-r.json"), "a user's own").unwrap();
});
const REPORT_DIRECTORY: Attack = ("a directory takes the report's name", |scene| {
    let _ = std::fs::remove_file(scene.at("r.json"));
    std::fs::create_dir(scene.at("r.json")).unwrap();
});
const REPORT_HARD_LINK: Attack = ("a hard link to somebody's file takes the report's name", |scene| {
    let _ = std::fs::remove_file(scene.at("r.json"));
    std::fs::hard_link(scene.at("precious"), scene.at("r.json")).unwrap();
});
/// Somebody takes the name of a new file.
const NEW_FILE: Attack = ("somebody's file takes the new file's name", |scene| {
    let _ = std::fs::remove_file(scene.at("new"));
    std::fs::write(scene.at("new"), "a user's own").unwrap();
    std::fs::write(scene.at("expect-new"), "a user's own").unwrap();
});
const NEW_LINK: Attack = ("a link to a mounted device takes the new file's name", |scene| {
    scene.link(Path::new(&scene.victim.device), "new");
});
const DIRECTORY_LINK: Attack = ("a link to somebody's directory takes the place of the run's own", |scene| {
    let made = std::fs::read_dir(scene.at("volumes")).unwrap().flatten().next().unwrap().path();
    std::fs::rename(&made, scene.at("moved")).unwrap();
    std::os::unix::fs::symlink(scene.at("precious-directory"), &made).unwrap();
});
const VOLUME_REPLACED: Attack =
    ("somebody's file takes the name of a volume before it is removed", |scene| {
        for path in files_below(&scene.at("volumes")) {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "a user's own").unwrap();
            std::fs::write(scene.at("expected-below"), path.to_str().unwrap()).unwrap();
        }
    });

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() && !path.is_symlink() => found.extend(files_below(&path)),
            path => found.push(path),
        }
    }
    found
}

struct Unmount(PathBuf);
impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

struct SwapOff(String);
impl Drop for SwapOff {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
    }
}

/// Every point at which something that was looked at is about to be used, with what may happen there.
const RACES: &[(Doing, &str, &[Attack])] = &[
    (
        Doing::Device,
        "volume.pinned",
        &[REPOINT, REPOINT_TO_FILE, REPOINT_TO_DISK, REATTACH, MKFS_AND_MOUNT, MKFS, DATA, LOOP_OVER, SWAP],
    ),
    (
        Doing::Device,
        "volume.opened",
        &[REPOINT, REPOINT_TO_FILE, REPOINT_TO_DISK, REATTACH, MKFS_AND_MOUNT, MKFS, DATA, LOOP_OVER, SWAP],
    ),
    // What is claimed exclusively cannot be mounted, swapped on or made a file system on by tools that ask.
    (
        Doing::Device,
        "volume.judged",
        &[REPOINT, REPOINT_TO_FILE, REPOINT_TO_DISK, REATTACH, MKFS_AND_MOUNT, SWAP],
    ),
    (Doing::Run, "volume.pinned", &[REPOINT, REPOINT_TO_FILE, REATTACH, MKFS_AND_MOUNT, DATA]),
    (Doing::Run, "volume.opened", &[REPOINT, REPOINT_TO_FILE, REATTACH, MKFS_AND_MOUNT, DATA]),
    (Doing::Run, "volume.judged", &[REPOINT, REPOINT_TO_FILE, REATTACH, MKFS_AND_MOUNT]),
    (
        Doing::File,
        "volume.pinned",
        &[FILE_TO_LINK, FILE_TO_DISK, FILE_REPLACED, FILE_OPENED, FILE_BEHIND_LOOP],
    ),
    (
        Doing::File,
        "volume.opened",
        &[FILE_TO_LINK, FILE_TO_DISK, FILE_REPLACED, FILE_OPENED, FILE_BEHIND_LOOP],
    ),
    (Doing::File, "volume.judged", &[FILE_TO_LINK, FILE_TO_DISK, FILE_REPLACED]),
    (Doing::Report, "output.free", &[REPORT_LINK, REPORT_FILE, REPORT_DIRECTORY, REPORT_HARD_LINK]),
    (Doing::Replace, "output.judged", &[REPORT_LINK, REPORT_FILE, REPORT_DIRECTORY, REPORT_HARD_LINK]),
    (Doing::New, "draft.publishing", &[NEW_FILE, NEW_LINK]),
    (Doing::Volumes, "directory.made", &[DIRECTORY_LINK]),
    (Doing::Volumes, "remove.looked", &[VOLUME_REPLACED]),
];

/// What came of one race where something was lost.
fn race(doing: Doing, point: &str, attack: &Attack, number: usize) -> Option<String> {
    let scene = Scene::new(number);
    let before = scene.state();
    let mut command = doing.command(&scene);
    command.env("EBB_TEST_PAUSE", point).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if !stopped(&mut child) {
        let output = child.wait_with_output().unwrap();
        return Some(format!("{point}: it never came there: {output:?}"));
    }
    attack.1(&scene);
    // What the attack put on the free device is somebody's from then on.
    let blank_before = blank_state(&scene);
    tool("kill", &["-CONT", &child.id().to_string()]);
    let output = child.wait_with_output().unwrap();
    let mut lost: Vec<String> = scene
        .state()
        .iter()
        .filter_map(|(name, now)| {
            Some(format!("somebody's {name} has changed {}", changed(&before[name], now)?))
        })
        .collect();
    if let Some(kept) = blank_before
        && blank_state(&scene) != Some(kept)
    {
        lost.push("what somebody put on the device meanwhile is gone".to_owned());
    }
    for name in ["r.json", "new"] {
        if let Ok(expected) = std::fs::read(scene.at(&format!("expect-{name}")))
            && std::fs::read(scene.at(name)).ok() != Some(expected)
        {
            lost.push(format!("somebody's {name} is gone"));
        }
    }
    if let Ok(path) = std::fs::read_to_string(scene.at("expected-below"))
        && std::fs::read_to_string(&path).ok().as_deref() != Some("a user's own")
    {
        lost.push(format!("somebody's {path} is gone"));
    }
    (!lost.is_empty()).then(|| {
        format!(
            "{point}, {}: {}: {:?} {}",
            attack.0,
            lost.join(", "),
            output.status.code(),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Where `now` differs from `before`.
fn changed(before: &[u8], now: &[u8]) -> Option<String> {
    if before == now {
        return None;
    }
    if before.len() != now.len() {
        return Some(format!("from {} to {} bytes", before.len(), now.len()));
    }
    let differ: Vec<usize> = (0..now.len()).filter(|at| before[*at] != now[*at]).collect();
    Some(format!("in {} bytes from {} to {}", differ.len(), differ.first()?, differ.last()?))
}

/// What is on the device that was free, once somebody has put something there.
fn blank_state(scene: &Scene) -> Option<Vec<u8>> {
    let mut begin = vec![0; 1 << 20];
    let device = std::fs::File::open(scene.at("blank-disk")).unwrap();
    if let Ok(open) = std::fs::File::open(&scene.blank.device) {
        let _ = open.sync_all();
    }
    device.read_exact_at(&mut begin, 0).unwrap();
    if begin[..4096].ends_with(b"SWAPSPACE2") {
        // The kernel swaps behind the first page.
        begin.truncate(4096);
    }
    begin.iter().any(|byte| *byte != 0).then_some(begin)
}

#[test]
#[ignore = "requires root and loop devices"]
fn no_change_of_the_world_between_a_check_and_its_use_loses_anything() {
    let races: Vec<(Doing, &str, &Attack)> = RACES
        .iter()
        .flat_map(|(doing, point, attacks)| attacks.iter().map(move |attack| (*doing, *point, attack)))
        .collect();
    assert!(races.len() >= 40, "{}", races.len());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let lost = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        // Numbers that nobody else has, another run of these tests among them.
        let first = 256 + std::process::id() as usize % 256 * 4;
        for number in first..first + 4 {
            let (next, races, lost) = (&next, &races, &lost);
            scope.spawn(move || {
                while let Some((doing, point, attack)) =
                    races.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let what = race(*doing, point, attack, number);
                    lost.lock().unwrap().extend(what);
                }
            });
        }
    });
    let lost = lost.into_inner().unwrap();
    assert!(lost.is_empty(), "{} of {}:\n{}", lost.len(), races.len(), lost.join("\n"));
}
