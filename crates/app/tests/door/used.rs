//! What a killed run made and somebody uses by now: it stays until they do not.

use super::cleaning::{RUN, TAG, journal};
use super::common::{Home, LONG, Loop, status, stderr, tiny, tool};
use super::states::{Guard, Mount, Program, blank};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A volume of a killed run, in the run's directory, with the journal that says so.
struct Left {
    home: Home,
    volume: PathBuf,
    journal: PathBuf,
}

impl Left {
    /// `steps` were done after the volume was made.
    fn new(steps: &[Value]) -> Left {
        let home = Home::new();
        let own = home.path("volumes").join(format!("ebbtide-{RUN}"));
        std::fs::create_dir(&own).unwrap();
        let volume = blank(&own, "v");
        let id = |path: &Path| ebbtide_door::id_of(&std::fs::metadata(path).unwrap());
        let made = [
            json!({ "making_directory": own }),
            json!({ "made": [own, id(&own)] }),
            json!({ "making_file": volume }),
            json!({ "made": [volume, id(&volume)] }),
        ];
        let journal = journal(&home, &[&made[..], steps].concat());
        Left { home, volume, journal }
    }

    fn cleanup(&self, line: &str) -> (Output, String) {
        let output = self.home.ebb(line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output, said)
    }

    /// It stays, with its journal, and what is said of it contains `why`.
    fn assert_stays(&self, why: &str) {
        let before = std::fs::read(&self.volume).unwrap();
        for line in ["cleanup --dry-run", "cleanup"] {
            let (output, said) = self.cleanup(line);
            assert!(said.contains(why), "{why}: {output:?}");
            assert!(std::fs::read(&self.volume).unwrap() == before, "{why}: {output:?}");
            assert!(self.journal.exists(), "{why}: {output:?}");
            assert_eq!(status(&output), 1, "{why}: {output:?}");
        }
    }

    fn assert_goes(&self) {
        let (output, _) = self.cleanup("cleanup");
        assert_eq!(status(&output), 0, "{output:?}");
        assert!(!self.volume.parent().unwrap().exists() && !self.journal.exists(), "{output:?}");
    }
}

/// Somebody who uses a volume.
type User = fn(&Left) -> Vec<Box<dyn Guard>>;

#[test]
#[ignore = "requires root and loop devices"]
fn a_volume_that_somebody_uses_stays_until_they_do_not() {
    let uses: [(&str, User); 4] = [
        ("which is mounted on", |left| {
            tool("mkfs.ext4", &["-q", "-F", left.volume.to_str().unwrap()]);
            let disk = Loop::over(&left.volume);
            let mounted = Mount::new(&disk.device, &left.home.path("mounted"), &["-o", "ro"]);
            // Unmounted first.
            vec![Box::new(mounted), Box::new(disk)]
        }),
        ("it is behind loop", |left| vec![Box::new(Loop::over(&left.volume))]),
        ("python3 (process ", |left| {
            let path = left.volume.to_str().unwrap();
            vec![Box::new(Program::python(&format!("f = open('{path}', 'rb')")))]
        }),
        ("python3 (process ", |left| {
            let code = format!(
                "f = open('{}', 'r+b')\nm = mmap.mmap(f.fileno(), 4096)\nf.close()",
                left.volume.to_str().unwrap()
            );
            vec![Box::new(Program::python(&code))]
        }),
    ];
    for (why, user) in uses {
        let left = Left::new(&[]);
        let user = user(&left);
        left.assert_stays(why);
        user.into_iter().for_each(drop);
        // Content of its own keeps it then: see the next test.
        std::fs::File::options().write(true).truncate(true).open(&left.volume).unwrap();
        left.assert_goes();
    }
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_volume_that_somebody_put_a_file_system_on_stays() {
    let left = Left::new(&[]);
    tool("mkfs.ext4", &["-q", "-F", "-L", "MYDATA", left.volume.to_str().unwrap()]);
    left.assert_stays("it carries ext4 \"MYDATA\"");
    std::fs::remove_file(&left.volume).unwrap();
    left.assert_goes();
    // Bytes that are nobody's file system are what trials leave.
    let left = Left::new(&[]);
    std::fs::write(&left.volume, vec![0x5a; 8 << 20]).unwrap();
    left.assert_goes();
}

/// A loop device over a volume of a killed run, as `--on kernel` makes it, with a file system that has the `label`.
struct Stacked {
    disk: Loop,
    left: Left,
}

impl Stacked {
    fn new(label: &str) -> Stacked {
        let left = Left::new(&[]);
        let disk = Loop::over(&left.volume);
        tool("mkfs.ext4", &["-q", "-F", "-L", label, &disk.device]);
        let undo = [
            json!({ "detach_loop": { "device": disk.device, "file": left.volume } }),
            json!({ "wipe_content": { "device": disk.device, "label": "ebb00000001" } }),
        ];
        let mut text = std::fs::read_to_string(&left.journal).unwrap();
        for (number, undo) in undo.iter().enumerate() {
            text += &format!("{}\n", json!({ "step": { "number": number, "undo": undo } }));
        }
        std::fs::write(&left.journal, text).unwrap();
        Stacked { disk, left }
    }

    fn attribute(&self, name: &str) -> String {
        let path = format!("/sys/block/{}/loop/{name}", self.disk.name());
        std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }

    /// Cleaning up leaves all of it while `user` is there, and says each of `why`.
    fn assert_stays_with(&self, user: impl Guard, why: &[&str]) {
        let (output, said) = self.left.cleanup("cleanup");
        assert_eq!(status(&output), 1, "{output:?}");
        for why in why {
            assert!(said.contains(why), "{why}: {output:?}");
        }
        drop(user);
        assert_eq!(self.attribute("backing_file"), self.left.volume.to_str().unwrap(), "{output:?}");
        assert_eq!(self.attribute("autoclear"), "0", "it would go with its user: {output:?}");
        assert!(self.left.volume.exists() && self.left.journal.exists(), "{output:?}");
    }

    fn assert_goes(self) {
        self.left.assert_goes();
        // By now its name may be another's.
        std::mem::forget(self.disk);
    }
}

#[test]
#[ignore = "requires root and loop devices"]
fn what_stands_on_what_is_in_use_stays_with_it() {
    let stacked = Stacked::new("ebb00000001");
    let mounted = Mount::new(&stacked.disk.device, &stacked.left.home.path("mounted"), &[]);
    let device = stacked.disk.device.clone();
    let above = format!("cannot put back step losetup --detach {device}");
    stacked.assert_stays_with(
        mounted,
        &["cannot put back step wipefs", &above, "what stands on it is still there"],
    );
    // Another one's file system, on the run's device.
    let other = Stacked::new("MYDATA");
    let place = other.left.home.path("mounted");
    let mounted = Mount::new(&other.disk.device, &place, &[]);
    let why = format!("is mounted on {}", place.to_str().unwrap());
    other.assert_stays_with(mounted, &["left alone step wipefs", &why]);
    // Nobody uses the device, and the file carries what the run did not make.
    let (output, said) = other.left.cleanup("cleanup");
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(said.contains("it carries ext4 \"MYDATA\"") && other.left.volume.exists(), "{output:?}");
    std::mem::forget(other.disk);
    stacked.assert_goes();
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_loop_device_that_a_program_reads_is_not_detached_behind_its_back() {
    let stacked = Stacked::new("ebb00000001");
    let reader = Program::python(&format!("f = open('{}', 'rb')", stacked.disk.device));
    let why = format!("python3 (process {})", reader.id());
    let foreseen = stacked.left.cleanup("cleanup --dry-run");
    assert!(status(&foreseen.0) == 1 && foreseen.1.contains(&why), "{foreseen:?}");
    let content = tool("blkid", &["-p", "-o", "value", "-s", "LABEL", &stacked.disk.device]);
    stacked.assert_stays_with(
        reader,
        &["cannot put back step wipefs", &why, "what stands on it is still there"],
    );
    // Not even what they read was changed.
    assert_eq!(tool("blkid", &["-p", "-o", "value", "-s", "LABEL", &stacked.disk.device]), content);
    let (output, said) = stacked.left.cleanup("cleanup --dry-run");
    assert!(status(&output) == 0 && !said.contains("cannot"), "{said}");
    stacked.assert_goes();
}

#[test]
#[ignore = "requires root and loop devices"]
fn what_is_waited_for_is_said_at_once() {
    let stacked = Stacked::new("ebb00000001");
    let reader = Program::python(&format!("f = open('{}', 'rb')", stacked.disk.device));
    let mut command = stacked.left.home.ebb("cleanup");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut waits = BufReader::new(child.stderr.take().unwrap()).lines();
    let wait = waits.next().unwrap().unwrap();
    assert!(wait.contains("trying again for up to") && wait.contains("python3 (process"), "{wait}");
    // Told in time to do something about it: said only in the end, it would have been given up by now.
    drop(reader);
    let first = said.next().unwrap().unwrap();
    assert!(first.starts_with("put back step wipefs"), "{first}");
    assert!(child.wait().unwrap().success());
    std::mem::forget(stacked.disk);
}

/// What nothing but its user can take away is not waited for.
#[test]
#[ignore = "requires root and loop devices"]
fn a_mount_over_the_run_s_keeps_what_is_below_it() {
    let stacked = Stacked::new("ebb00000001");
    let point = PathBuf::from("/run/ebbtide").join(format!("{TAG}_over"));
    let ours = Mount::new(&stacked.disk.device, &point, &[]);
    let over = Mount::new("none", &point, &["-t", "tmpfs"]);
    let from = json!({ "device": stacked.disk.device, "fstype": "ext4" });
    let steps = [
        json!({ "step": { "number": 2, "undo": { "remove_directory": point } } }),
        json!({ "step": { "number": 3, "undo": { "unmount": { "mountpoint": point, "from": from } } } }),
    ];
    let text = std::fs::read_to_string(&stacked.left.journal).unwrap();
    std::fs::write(&stacked.left.journal, format!("{text}{}\n{}\n", steps[0], steps[1])).unwrap();
    let (output, said) = stacked.left.cleanup("cleanup");
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(said.contains("(tmpfs) is mounted over it on "), "{output:?}");
    assert_eq!(said.matches("what stands on it is still there").count(), 5, "{output:?}");
    assert!(!stderr(&output).contains("trying again"), "{output:?}");
    drop(over);
    stacked.assert_goes();
    assert!(!point.exists());
    std::mem::forget(ours);
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_session_whose_program_is_still_at_work_is_not_over() {
    let left = Left::new(&[]);
    let code = format!("f = open('{}')\nfcntl.flock(f, fcntl.LOCK_EX)", left.journal.to_str().unwrap());
    let program = Program::python(&code);
    for line in ["cleanup --dry-run", "cleanup"] {
        let (output, said) = left.cleanup(line);
        assert_eq!(status(&output), 1, "{output:?}");
        let who = format!("session {RUN} was ended but is still running (python3, process {})", program.id());
        assert!(said.contains(&who), "{output:?}");
        assert!(!stderr(&output).contains("nothing to clean up") && left.volume.exists(), "{output:?}");
    }
    drop(program);
    left.assert_goes();
    // One that runs is no failure.
    let home = Home::new();
    home.write("x.toml", &tiny("", LONG));
    let running = home.start_until("run x.toml --quiet", 1);
    for line in ["cleanup --dry-run", "cleanup"] {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("is running (`ebb run`, process "),
            "{output:?}"
        );
        assert!(!stderr(&output).contains("nothing to clean up"), "{output:?}");
    }
    let told = home.json("cleanup", &[0]);
    assert_eq!(
        (&told["held"][0]["running"], &told["held"][0]["by"][0]["name"]),
        (&json!(true), &json!("ebb"))
    );
    drop(running);
}

#[test]
#[ignore = "requires root and loop devices"]
fn somebody_s_file_in_a_run_s_directory_is_named() {
    let left = Left::new(&[]);
    let own = left.volume.with_file_name("notes.txt");
    std::fs::write(&own, "a user's own").unwrap();
    for _ in 0..2 {
        let (output, said) = left.cleanup("cleanup");
        assert_eq!(status(&output), 1, "{output:?}");
        assert!(
            said.contains(&format!("{} is in it, which no run made", own.to_str().unwrap())),
            "{output:?}"
        );
        assert!(stderr(&output).contains("1 leftover stays"), "{output:?}");
    }
    std::fs::remove_file(&own).unwrap();
    left.assert_goes();
}
