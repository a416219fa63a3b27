//! A file system on a loop device over a run's own file, and who comes between.

use super::common::{Home, Loop, Running, status, tool, until, until_true};
use super::states::{Mount, Program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A run of `--on kernel` with a file system, while its trial is at work.
struct Stacked {
    home: Home,
    run: Running,
    /// Where the file system is mounted.
    place: PathBuf,
    device: String,
    volume: PathBuf,
}

/// Rests between trials, in which the file system is not there.
const REST: &str = "3s";

impl Stacked {
    fn new() -> Stacked {
        let stacked = Stacked::held();
        stacked.run.signal("CONT");
        stacked
    }

    /// Stopped while the file system is mounted, until somebody says CONT.
    fn held() -> Stacked {
        let home = Home::new();
        home.write(
            "k.toml",
            &format!(
                "name = \"k\"\n[volumes.a]\nsize = \"160MiB\"\ndirectory = \"{}\"\n[designs.s]\nlayout = \"linear\"\n\
                 members = [\"a\"]\nfilesystem = \"ext4\"\n[workloads.w]\nrw = \"randwrite\"\nbs = \"4k\"\n\
                 span = \"4MiB\"\nruntime = \"2s\"\n[answer]\ntrials_min = 6\ntrials_max = 6\nrest = \"{REST}\"\n",
                home.path("volumes").to_str().unwrap()
            ),
        );
        let run = home.start("run k.toml --on kernel --quiet");
        let volume = until("the volume's file", || {
            let all = home.files_in("volumes");
            all.iter().find(|path| path.ends_with("000-a.img")).cloned().ok_or_else(|| format!("{all:?}"))
        });
        let device = until("its loop device", || {
            let found =
                tool("losetup", &["--associated", volume.to_str().unwrap(), "--noheadings", "-O", "NAME"]);
            if found.is_empty() { Err("none".to_owned()) } else { Ok(found) }
        });
        let place = until("its mount point", || {
            run.signal("STOP");
            let found = Command::new("findmnt").args(["-no", "TARGET", &device]).output().unwrap();
            let place = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
            // The trial's own file is there when it has been laid out.
            if place.is_absolute() {
                return Ok(place);
            }
            run.signal("CONT");
            Err("none".to_owned())
        });
        Stacked { home, run, place, device, volume }
    }

    /// Ends the run without a chance to put anything back, and takes away what it mounted, as a reboot would.
    fn killed(self) -> (Home, String, PathBuf) {
        let Stacked { home, run, place, device, volume } = self;
        std::thread::sleep(Duration::from_millis(500));
        run.signal("KILL");
        run.wait();
        until("an unmounted file system", || {
            let output = Command::new("umount").arg(&place).output().unwrap();
            if output.status.success() { Ok(()) } else { Err(format!("{output:?}")) }
        });
        (home, device, volume)
    }
}

fn sum(path: &Path) -> String {
    tool("sha1sum", &[path.to_str().unwrap()])
}

fn cleanup(home: &Home, line: &str) -> (i32, String) {
    let output = home.ebb(line).output().unwrap();
    (status(&output), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_mount_in_another_namespace_on_the_run_s_mount_point_outlives_it() {
    // A namespace has a copy of the mounts: the run's is among them only while its trial lasts.
    let Stacked { home, run, place, .. } = Stacked::held();
    let place = place.to_str().unwrap();
    let user = Program::python_apart(&format!(
        "subprocess.check_call(['umount', '{place}'])\n\
         subprocess.check_call(['mount', '-t', 'tmpfs', 'precious', '{place}'])"
    ));
    run.signal("CONT");
    run.signal("INT");
    let output = run.wait();
    let why = "precious (tmpfs) is mounted on it in the mount namespace of process";
    assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", user.id())).unwrap();
    assert!(mounts.contains("precious"), "{mounts}");
    for line in ["cleanup --dry-run", "cleanup"] {
        let (status, said) = cleanup(&home, line);
        assert!(status == 1 && said.contains(why), "{said}");
    }
    drop(user);
    assert_eq!(cleanup(&home, "cleanup").0, 0);
    assert!(!Path::new(place).exists());
}

#[test]
#[ignore = "requires root and loop devices"]
fn what_somebody_mounts_through_another_loop_device_is_not_built_over() {
    let Stacked { home, run, place, volume, .. } = Stacked::new();
    // Between two trials the volume is nobody's.
    until_true("the end of the mount point", || !place.exists());
    std::thread::sleep(Duration::from_millis(500));
    let other = Loop::over(&volume);
    tool("mkfs.ext4", &["-q", "-F", "-L", "users", &other.device]);
    let mounted = Mount::new(&other.device, &home.path("mounted"), &[]);
    let own = home.path("mounted/own");
    std::fs::write(&own, vec![0xa5; 1 << 20]).unwrap();
    tool("sync", &[]);
    let before = sum(&own);
    std::thread::sleep(Duration::from_secs(5));
    run.signal("INT");
    run.wait();
    drop(mounted);
    drop(other);
    tool("e2fsck", &["-fn", volume.to_str().unwrap()]);
    let again = Loop::over(&volume);
    let mounted = Mount::new(&again.device, &home.path("mounted"), &["-o", "ro"]);
    assert_eq!(sum(&own), before);
    drop(mounted);
    drop(again);
    let (status, said) = cleanup(&home, "cleanup");
    assert!(status == 1 && said.contains("it carries ext4 \"users\""), "{said}");
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_clone_in_the_place_of_a_killed_run_s_device_is_left_alone() {
    let (home, device, volume) = Stacked::new().killed();
    let clone = home.path("clone");
    std::fs::copy(&volume, &clone).unwrap();
    tool("losetup", &["--detach", &device]);
    tool("losetup", &[&device, clone.to_str().unwrap()]);
    let clones = Loop { device: device.clone() };
    let mounted = Mount::new(&device, &home.path("mounted"), &[]);
    std::fs::write(home.path("mounted/own"), "a user's own").unwrap();
    drop(mounted);
    tool("sync", &[]);
    let before = sum(&clone);
    let (_, said) = cleanup(&home, "cleanup");
    assert!(said.contains(&format!("somebody attached {device} anew since")), "{said}");
    tool("sync", &[]);
    assert_eq!(sum(&clone), before, "{said}");
    drop(clones);
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_partition_table_beside_a_killed_run_s_file_system_stays() {
    let (home, device, _) = Stacked::new().killed();
    let mut sfdisk = home.command("sfdisk");
    let mut child =
        sfdisk.args(["-q", "--no-reread", &device]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"2048,,83\n").unwrap();
    assert!(child.wait().unwrap().success());
    let table = tool("sfdisk", &["-d", &device]);
    let (_, said) = cleanup(&home, "cleanup");
    // It is the run's own file, with what somebody put there.
    assert!(
        said.contains("put back step wipefs") && said.contains("it carries a dos partition table"),
        "{said}"
    );
    let volume = home.files_in("volumes").into_iter().find(|path| path.is_file()).unwrap();
    let again = Loop::over(&volume);
    assert_eq!(
        tool("sfdisk", &["-d", &again.device]).lines().last(),
        table.replace(&device, &again.device).lines().last()
    );
}

#[test]
#[ignore = "requires root and loop devices"]
fn what_is_left_after_a_reboot_is_put_back() {
    let (home, device, volume) = Stacked::new().killed();
    tool("losetup", &["--detach", &device]);
    assert!(tool("blkid", &["-p", volume.to_str().unwrap()]).contains("LABEL=\"ebb"));
    let (status, said) = cleanup(&home, "cleanup --dry-run");
    assert!(status == 0 && !said.contains("cannot"), "{said}");
    let (status, said) = cleanup(&home, "cleanup");
    assert!(status == 0 && !volume.exists(), "{said}");
}
