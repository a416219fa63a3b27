//! What a run made and somebody uses when it ends: it stays, and the run says so.

use super::common::{Home, LONG, Loop, status, tiny, tool};
use super::states::{Guard, Mount, Program};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Somebody who uses a volume.
type User = fn(&Home, &Path) -> Vec<Box<dyn Guard>>;

/// The first volume file of a run, and its directory.
fn first_volume(home: &Home) -> (PathBuf, PathBuf) {
    let mut files: Vec<PathBuf> =
        home.files_in("volumes").into_iter().filter(|path| path.is_file()).collect();
    files.sort();
    let directory = files[0].parent().unwrap().to_owned();
    (files[0].clone(), directory)
}

/// What a run that printed JSON says that it left.
fn warning(output: &Output) -> String {
    let session: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = "not everything was put back";
    let all = session["warnings"].as_array().unwrap().iter().map(Value::to_string);
    all.filter(|warning| warning.contains(said)).collect::<String>().replace("\\\"", "\"")
}

fn formatted(volume: &Path) {
    tool("mkfs.ext4", &["-q", "-F", "-L", "MYDATA", volume.to_str().unwrap()]);
}

/// Somebody who mounts something over `place` in a mount namespace of their own.
fn unseen_mount(place: &Path) -> Program {
    let place = place.to_str().unwrap();
    Program::python_apart(&format!("subprocess.check_call(['mount', '-t', 'tmpfs', 'none', '{place}'])"))
}

const USES: [(&str, User); 5] = [
    ("which is mounted on", |home, volume| {
        formatted(volume);
        let disk = Loop::over(volume);
        let mounted = Mount::new(&disk.device, &home.path("mounted"), &["-o", "ro"]);
        vec![Box::new(mounted), Box::new(disk)]
    }),
    ("it is behind loop", |_, volume| vec![Box::new(Loop::over(volume))]),
    ("python3 (process ", |_, volume| {
        vec![Box::new(Program::python(&format!("f = open('{}', 'rb')", volume.to_str().unwrap())))]
    }),
    ("it is mounted on", |home, volume| {
        let place = home.write("bound", "");
        tool("mount", &["--bind", volume.to_str().unwrap(), place.to_str().unwrap()]);
        vec![Box::new(Mount::of(&place))]
    }),
    ("it carries ext4 \"MYDATA\"", |_, volume| {
        formatted(volume);
        Vec::new()
    }),
];

#[test]
#[ignore = "requires root and loop devices"]
fn a_volume_that_somebody_uses_outlives_its_run() {
    let by_itself = "trials_min = 20\ntrials_max = 20\nbudget = \"60s\"";
    let ends = [(LONG, Some("INT"), [130, 130]), (LONG, Some("TERM"), [130, 130]), (by_itself, None, [0, 3])];
    for (number, (why, user)) in USES.into_iter().enumerate() {
        let (answer, signal, statuses) = ends[number % ends.len()];
        let home = Home::new();
        home.write("x.toml", &tiny("", answer));
        let running = home.start_until("run x.toml --on files --quiet --json", 1);
        let (volume, directory) = first_volume(&home);
        let user = user(&home, &volume);
        let before = std::fs::read(&volume).unwrap();
        signal.into_iter().for_each(|signal| running.signal(signal));
        let output = running.wait();
        assert!(statuses.contains(&status(&output)), "{why}: {:?} {}", output.status, warning(&output));
        let said = warning(&output);
        assert!(said.contains(why) && said.contains("`ebb cleanup` tries again"), "{why}: {said}");
        assert!(std::fs::read(&volume).unwrap() == before, "{why}: {said}");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "the others are gone: {said}");
        drop(user);
        let carries = why.contains("carries") || why.contains("which is mounted");
        if carries {
            let output = home.ebb("cleanup").output().unwrap();
            assert_eq!(status(&output), 1, "{why}: {output:?}");
            std::fs::remove_file(&volume).unwrap();
        }
        let output = home.ebb("cleanup").output().unwrap();
        assert_eq!(status(&output), 0, "{why}: {output:?}");
        assert!(!directory.exists(), "{why}: {output:?}");
    }
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_directory_on_which_something_is_mounted_elsewhere_outlives_its_run() {
    let home = Home::new();
    home.write("x.toml", &tiny("", LONG));
    let running = home.start_until("run x.toml --on files --quiet --json", 1);
    let (_, directory) = first_volume(&home);
    let user = unseen_mount(&directory);
    running.signal("INT");
    let output = running.wait();
    let why = format!("none (tmpfs) is mounted on it in the mount namespace of process {}", user.id());
    assert!(warning(&output).contains(&why), "{output:?}");
    assert!(directory.exists() && mounted_for(&user, &directory));
    let output = home.ebb("cleanup --dry-run").output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(&why), "{output:?}");
    drop(user);
    let output = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(!directory.exists());
}

fn mounted_for(user: &Program, place: &Path) -> bool {
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", user.id())).unwrap();
    mounts.contains(place.to_str().unwrap())
}

/// What a killed run left under a mount is not taken for gone.
#[test]
#[ignore = "requires root and loop devices"]
fn what_a_mount_hides_is_not_taken_for_gone() {
    let home = Home::new();
    home.write("x.toml", &tiny("", LONG));
    let running = home.start_until("run x.toml --on files --quiet --json", 1);
    let (volume, _) = first_volume(&home);
    running.signal("KILL");
    running.wait();
    let over = Mount::new("none", &home.path("volumes"), &["-t", "tmpfs"]);
    for line in ["cleanup --dry-run", "cleanup"] {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), 1, "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let place = home.path("volumes");
        let why = format!("none (tmpfs) is mounted over it on {}", place.to_str().unwrap());
        assert!(said.contains(&why) && !said.contains("nothing to remove"), "{said}");
    }
    drop(over);
    assert!(volume.exists());
    let dry = home.ebb("cleanup --dry-run").output().unwrap();
    assert_eq!(status(&dry), 0, "{dry:?}");
    let output = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(home.files_in("volumes").len(), 0);
}
