//! Builds on a made-up machine: every step fails in turn, and the program is killed at every boundary.

use super::*;
use crate::command::{CommandError, Output};
use crate::sys;
use ebbtide_model::journal::{JournalError, Leftover, leftovers};
use ebbtide_model::plan::build::{
    Build, Mounted, Purpose, QueueAttribute, QueueSetting, Site, attach_loop, build,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Mutex;

const DISKS: [&str; 5] = ["vdb", "vdc", "vdd", "vde", "vdf"];
const KEY: &[u8] = b"the key";

/// The state that programs change, as facts: `md:/dev/md200` is its uuid and so on.
type Facts = BTreeMap<String, String>;

/// A machine below a directory. It knows as much of each program as the builder uses, refuses what the real one
/// refuses (stopping what is mounted, making what is there), and fails when it is told to.
#[derive(Clone)]
struct Machine {
    root: PathBuf,
    facts: Arc<Mutex<Facts>>,
    /// The mutating command that fails, counted from 0, before or after it did its work.
    fails: Arc<Mutex<Option<(usize, bool)>>>,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Machine {
    fn new(root: &Path) -> Machine {
        for name in DISKS {
            let queue = root.join("sys/class/block").join(name).join("queue");
            std::fs::create_dir_all(&queue).expect("makes");
            std::fs::write(queue.join("scheduler"), "[none]").expect("writes");
            std::fs::write(queue.join("nr_requests"), "128\n").expect("writes");
            std::fs::create_dir_all(root.join("dev")).expect("makes");
            std::fs::write(root.join("dev").join(name), "").expect("writes");
        }
        for directory in ["run", "sys/block", "proc/self"] {
            std::fs::create_dir_all(root.join(directory)).expect("makes");
        }
        let machine = Machine {
            root: root.to_owned(),
            facts: Arc::default(),
            fails: Arc::default(),
            ran: Arc::default(),
        };
        machine.publish();
        machine
    }

    fn sys(&self) -> Sys {
        Sys::below(&self.root)
    }

    /// All that a build may change: facts, directories, tunables.
    fn state(&self) -> Vec<String> {
        let mut state: Vec<String> =
            self.facts.lock().expect("locks").iter().map(|(key, value)| format!("{key}={value}")).collect();
        state.extend(sys::names(&self.root.join("run")));
        for name in DISKS {
            for file in ["scheduler", "nr_requests"] {
                let file = self.root.join("sys/class/block").join(name).join("queue").join(file);
                let text = sys::text(&file).unwrap_or_default();
                state.push(text.trim_matches(['[', ']']).to_owned());
            }
        }
        state
    }

    /// What /proc, /sys and /dev show of the facts.
    fn publish(&self) {
        let facts = self.facts.lock().expect("locks");
        let block = self.root.join("sys/block");
        std::fs::remove_dir_all(&block).expect("removes");
        let (mut mounts, mut swaps) = (String::new(), "Filename Type Size Used Priority\n".to_owned());
        std::fs::create_dir_all(&block).expect("makes");
        for (key, value) in facts.iter() {
            match key.split_once(':') {
                Some(("md", device)) => {
                    std::fs::create_dir_all(block.join(device.trim_start_matches("/dev/")).join("md"))
                        .expect("makes");
                }
                Some(("loop", device)) => {
                    let place = block.join(device.trim_start_matches("/dev/")).join("loop");
                    std::fs::create_dir_all(&place).expect("makes");
                    std::fs::write(place.join("backing_file"), value).expect("writes");
                }
                Some(("mount", place)) => {
                    mounts.push_str(&format!("30 1 9:0 / {place} rw - xfs {value} rw\n"));
                }
                Some(("swap", device)) => swaps.push_str(&format!("{device} partition 1000 0 3\n")),
                Some(("node", device)) => {
                    let node = self.sys().at(Path::new(device));
                    std::fs::create_dir_all(node.parent().expect("has a parent")).expect("makes");
                    std::fs::write(node, "").expect("writes");
                }
                _ => {}
            }
        }
        std::fs::write(self.root.join("proc/self/mountinfo"), mounts).expect("writes");
        std::fs::write(self.root.join("proc/swaps"), swaps).expect("writes");
    }

    fn answer(&self, program: &str, words: &[&str]) -> (i32, String) {
        let last = words.last().copied().unwrap_or_default().replace(&self.root.display().to_string(), "");
        let option = |name: &str| {
            words.iter().enumerate().find_map(|(i, word)| {
                word.strip_prefix(&format!("{name}="))
                    .or_else(|| words.get(i + 1).copied().filter(|_| *word == name))
            })
        };
        let mut facts = self.facts.lock().expect("locks");
        let get = |facts: &Facts, key: &str| facts.get(key).cloned();
        let rows = |kind: &str, rows: Vec<String>| {
            (0, format!("{{\"report\":[{{\"{kind}\":[{}]}}]}}", rows.join(",")))
        };
        let select = || option("--select").unwrap_or_default().to_owned();
        match (program, words.first().copied().unwrap_or_default()) {
            ("udevadm", _) => (0, String::new()),
            ("mdadm", "--detail" | "--examine") => {
                let key = if words[0] == "--detail" { "md" } else { "super" };
                get(&facts, &format!("{key}:{last}"))
                    .map_or((1, String::new()), |uuid| (0, format!("MD_UUID={uuid}\n")))
            }
            ("mdadm", "--create") => {
                let device = words[1];
                let uuid = option("--uuid").unwrap_or_default().to_owned();
                for member in words.iter().filter(|word| word.starts_with("/dev/") && **word != device) {
                    facts.insert(format!("super:{member}"), uuid.clone());
                }
                facts.insert(format!("node:{device}"), "x".into());
                (facts.insert(format!("md:{device}"), uuid).map_or(0, |_| 1), String::new())
            }
            ("mdadm", "--stop") if facts.values().any(|user| *user == last) => {
                (1, "Device or resource busy".into())
            }
            ("mdadm", "--stop") => {
                facts.remove(&format!("node:{last}"));
                // What is on the array is gone with it.
                facts.remove(&format!("label:{last}"));
                (facts.remove(&format!("md:{last}")).map_or(1, |_| 0), String::new())
            }
            ("mdadm", "--zero-superblock") => {
                (facts.remove(&format!("super:{last}")).map_or(1, |_| 0), String::new())
            }
            ("pvcreate", _) => {
                let uuid = option("--uuid").unwrap_or_default().to_owned();
                (facts.insert(format!("pv:{last}"), uuid).map_or(0, |_| 5), String::new())
            }
            ("pvs", _) => {
                let found = facts
                    .iter()
                    .filter(|(key, uuid)| key.starts_with("pv:") && select() == format!("pv_uuid={uuid}"));
                let row = |(key, uuid): (&String, &String)| {
                    format!("{{\"pv_name\":\"{}\",\"pv_uuid\":\"{uuid}\"}}", key.trim_start_matches("pv:"))
                };
                rows("pv", found.map(row).collect())
            }
            ("pvremove", _) if facts.keys().any(|key| key.starts_with("vg:")) => (5, "used by a VG".into()),
            ("pvremove", _) => (facts.remove(&format!("pv:{last}")).map_or(5, |_| 0), String::new()),
            ("vgcreate", _) => {
                let name = words.iter().find(|word| word.starts_with("ebb_")).copied().unwrap_or_default();
                (facts.insert(format!("vg:{name}"), "x".into()).map_or(0, |_| 5), String::new())
            }
            ("vgs", _) => {
                let found = facts.keys().filter(|key| {
                    key.strip_prefix("vg:").is_some_and(|name| select() == format!("vg_name={name}"))
                });
                rows("vg", found.map(|key| format!("{{\"vg_name\":\"{key}\"}}")).collect())
            }
            ("vgremove", _) if facts.keys().any(|key| key.starts_with("lv:")) => {
                (5, "contains volumes".into())
            }
            ("vgremove", _) => (facts.remove(&format!("vg:{last}")).map_or(5, |_| 0), String::new()),
            ("lvcreate", _) => {
                let group = words.iter().find(|word| word.starts_with("ebb_")).copied().unwrap_or_default();
                facts.insert(format!("node:/dev/{group}/data"), "x".into());
                (facts.insert(format!("lv:{group}/data"), "x".into()).map_or(0, |_| 5), String::new())
            }
            ("lvextend", _) => {
                let volume = words.iter().find(|word| word.starts_with("ebb_")).copied().unwrap_or_default();
                (if facts.contains_key(&format!("lv:{volume}")) { 0 } else { 5 }, String::new())
            }
            ("lvs", _) => {
                let found = facts.keys().filter(|key| {
                    key.strip_prefix("lv:")
                        .and_then(|name| name.split_once('/'))
                        .is_some_and(|(group, name)| select() == format!("vg_name={group} && lv_name={name}"))
                });
                rows("lv", found.map(|_| "{}".to_owned()).collect())
            }
            ("lvremove", _) => {
                facts.remove(&format!("node:/dev/{last}"));
                facts.remove(&format!("label:/dev/{last}"));
                (facts.remove(&format!("lv:{last}")).map_or(5, |_| 0), String::new())
            }
            ("cryptsetup", "luksFormat") => {
                facts.insert(format!("label:{last}"), option("--label").unwrap_or_default().to_owned());
                (0, String::new())
            }
            ("cryptsetup", "open") => {
                facts.insert(format!("node:/dev/mapper/{last}"), "x".into());
                let below = words[words.len() - 2].to_owned();
                (facts.insert(format!("crypt:{last}"), below).map_or(0, |_| 5), String::new())
            }
            ("cryptsetup", "status") => {
                (if facts.contains_key(&format!("crypt:{last}")) { 0 } else { 4 }, String::new())
            }
            ("cryptsetup", "close") => {
                facts.remove(&format!("node:/dev/mapper/{last}"));
                facts.remove(&format!("label:/dev/mapper/{last}"));
                (facts.remove(&format!("crypt:{last}")).map_or(4, |_| 0), String::new())
            }
            ("mkfs.xfs", _) => {
                facts.insert(format!("label:{last}"), option("-L").unwrap_or_default().to_owned());
                (0, String::new())
            }
            ("blkid", _) => get(&facts, &format!("label:{last}"))
                .map_or((2, String::new()), |label| (0, format!("TYPE=xfs\nLABEL={label}\n"))),
            ("wipefs", _) if facts.contains_key(&format!("swap:{last}")) => {
                (1, "Device or resource busy".into())
            }
            ("wipefs", _) => (facts.remove(&format!("label:{last}")).map_or(1, |_| 0), String::new()),
            ("mkswap", _) => {
                facts.insert(format!("label:{last}"), option("--label").unwrap_or_default().to_owned());
                (0, String::new())
            }
            ("swapon", _) => {
                (facts.insert(format!("swap:{last}"), "x".into()).map_or(0, |_| 255), String::new())
            }
            ("swapoff", _) => (facts.remove(&format!("swap:{last}")).map_or(255, |_| 0), String::new()),
            ("mount", _) => {
                let device = words[words.len() - 2].to_owned();
                (facts.insert(format!("mount:{last}"), device).map_or(0, |_| 32), String::new())
            }
            ("umount", _) => (facts.remove(&format!("mount:{last}")).map_or(32, |_| 0), String::new()),
            ("losetup", "--detach") => {
                (facts.remove(&format!("loop:{last}")).map_or(1, |_| 0), String::new())
            }
            ("losetup", _) => {
                let device = words[words.len() - 2];
                (facts.insert(format!("loop:{device}"), last).map_or(0, |_| 1), String::new())
            }
            (other, _) => panic!("the machine does not know {other}"),
        }
    }
}

impl Runner for Machine {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        assert_eq!(
            !input.is_empty(),
            arguments.contains(&"-"),
            "the key is on standard input where one is read"
        );
        let asks = matches!(program, "udevadm" | "pvs" | "vgs" | "lvs" | "blkid")
            || matches!(arguments.first(), Some(&("--detail" | "--examine" | "status")));
        let mut fail = None;
        if !asks {
            let mut fails = self.fails.lock().expect("locks");
            fail = fails.filter(|(left, _)| *left == 0).map(|(_, after)| after);
            *fails = fails.and_then(|(left, after)| left.checked_sub(1).map(|left| (left, after)));
            self.ran.lock().expect("locks").push(format!("{program} {}", arguments.join(" ")));
        }
        let (status, text) =
            if fail == Some(false) { (1, String::new()) } else { self.answer(program, arguments) };
        if !asks {
            self.publish();
        }
        let status = if fail.is_some() { 1 } else { status };
        let stderr = if fail.is_some() { "made to fail".to_owned() } else { String::new() };
        Ok(Output { status: Some(status), stdout: text.into_bytes(), stderr })
    }

    fn run_on(&self, program: &str, arguments: &[&str], file: &File) -> Result<Output, CommandError> {
        on_name(self, program, arguments, file)
    }
}

/// A program that reads its standard input gets the name of what is open there.
fn on_name(
    machine: &dyn Runner,
    program: &str,
    arguments: &[&str],
    file: &File,
) -> Result<Output, CommandError> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("is open");
    let (_, others) = arguments.split_last().expect("the last is the file");
    let arguments: Vec<&str> = others.iter().copied().chain(name.to_str()).collect();
    machine.run_with(program, &arguments, b"")
}

/// A journal in memory; as a real one it is what a kill leaves.
#[derive(Default)]
struct Memory(Mutex<Vec<Entry>>);

impl Journal for Memory {
    fn write(&self, entry: &Entry) -> Result<(), JournalError> {
        self.0.lock().expect("locks").push(entry.clone());
        Ok(())
    }
}

impl Memory {
    fn left(&self) -> Vec<BuildUndo> {
        leftovers(&self.0.lock().expect("locks"))
            .into_iter()
            .map(|left| match left {
                Leftover::Step { undo, .. } => undo,
                Leftover::Path { path, .. } => panic!("{} is no step", path.display()),
            })
            .collect()
    }
}

/// Loop device, tunables, LVM below md below LUKS below XFS: every kind of step there is.
fn steps() -> Vec<BuildStep> {
    let mut steps = vec![attach_loop("/dev/loop5", "/var/tmp/v")];
    steps.extend(planned(|text| text).steps);
    steps
}

/// The build of that design after `change` to its text.
fn planned(change: impl Fn(String) -> String) -> Build {
    let text = "name = \"n\"\n[volumes.v]\ncount = 5\nsize = \"1GiB\"\n[designs.d]\nlayout = \"stripe\"\n\
        members = [{ layout = \"linear\", backing = \"lvm\", members = [\"v[0..1]\"] }, \"v2\", \"v3\"]\n\
        encryption = { format = \"luks2\", key = \"prompt\" }\nfilesystem = \"xfs\"\nqueue_depth = 64\n\
        swap = [{ members = [\"v4\"], priority = 3 }]\n\
        [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";
    let text = change(text.to_owned());
    let experiment = ebbtide_experiment::parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
    let devices = DISKS.map(|name| format!("/dev/{name}"));
    let site = Site { run: "r", build: 0, devices: &devices, md_numbers: &[200], purpose: Purpose::Trial };
    build(&experiment.designs[0], &site).expect("has a plan")
}

fn builder(machine: &Machine, journal: &Arc<Memory>) -> Builder {
    Builder::new(machine.sys(), Box::new(machine.clone()), journal.clone())
}

/// One that knows the key.
fn key_builder(machine: &Machine, journal: &Arc<Memory>) -> Builder {
    let mut builder = builder(machine, journal);
    builder.set_key(KEY.to_vec());
    builder
}

fn go() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn what_was_built_is_undone() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    let (before, journal) = (machine.state(), Arc::new(Memory::default()));
    let mut builder = builder(&machine, &journal);
    let plain = builder.build(&steps(), &go()).expect_err("has no key").to_string();
    assert!(plain.contains("needs a key"), "{plain}");
    assert_eq!(machine.state(), before);
    builder.set_key(KEY.to_vec());
    builder.build(&steps(), &go()).expect("builds");
    let built = machine.state();
    for part in [
        "swap:/dev/vdf=x",
        "mount:/run/ebbtide/r=/dev/mapper/ebb_r_crypt",
        "loop:/dev/loop5=/var/tmp/v",
        "64",
    ] {
        assert!(built.iter().any(|fact| fact == part), "{part}: {built:?}");
    }
    builder.undo_to(0).expect("undoes");
    assert_eq!(machine.state(), before);
    assert_eq!(journal.left(), []);
}

/// What is shared stays while what is each design's own comes and goes, and is known again, or known to be something else by now.
#[test]
fn what_is_shared_stands_until_somebody_changes_it() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    let (before, journal) = (machine.state(), Arc::new(Memory::default()));
    let mut builder = key_builder(&machine, &journal);
    let without_swap = |text: String| text.replace("swap = [{ members = [\"v4\"], priority = 3 }]\n", "");
    let one = planned(without_swap);
    let other = planned(|text| without_swap(text).replace("queue_depth = 64", "queue_depth = 32"));
    assert_eq!(one.steps[..one.shared], other.steps[..other.shared]);
    assert_ne!(one.steps, other.steps);
    assert_eq!(planned(|text| text).shared, 0, "nothing outlasts a trial that swaps");

    builder.build(&one.steps[..one.shared], &go()).expect("builds");
    let (shared, standing) = (0..builder.mark(), machine.state());
    for design in [&one, &other, &one] {
        assert!(builder.stands(shared.clone()).expect("is asked"));
        let mark = builder.mark();
        builder.build(&design.steps[design.shared..], &go()).expect("builds");
        assert_ne!(machine.state(), standing);
        assert!(builder.stands(shared.clone()).expect("is asked"));
        builder.undo_to(mark).expect("undoes");
        assert_eq!(machine.state(), standing);
    }
    let facts = machine.facts.lock().expect("locks").clone();
    for (key, by) in [
        ("md:/dev/md200", Some("00000000:00000000:00000000:00000000")),
        ("label:/dev/mapper/ebb_r_crypt", Some("SOMEBODYS")),
        ("label:/dev/md200", None),
        ("crypt:ebb_r_crypt", None),
        ("lv:", None),
    ] {
        let whole =
            facts.keys().find(|fact| fact.starts_with(key)).unwrap_or_else(|| panic!("{key}: {facts:?}"));
        match by {
            Some(by) => machine.facts.lock().expect("locks").insert(whole.clone(), by.to_owned()),
            None => machine.facts.lock().expect("locks").remove(whole),
        };
        assert!(!builder.stands(shared.clone()).expect("is asked"), "{whole}");
        machine.facts.lock().expect("locks").clone_from(&facts);
    }
    builder.undo_to(0).expect("undoes");
    assert_eq!((machine.state(), journal.left()), (before, vec![]));
}

/// Commands that change something in a whole build.
fn commands() -> usize {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    key_builder(&machine, &Arc::default()).build(&steps(), &go()).expect("builds");
    let ran = machine.ran.lock().expect("locks").len();
    assert!(ran > 8, "{ran}");
    ran
}

#[test]
fn whatever_command_fails_everything_is_undone() {
    for (failing, after) in (0..commands()).flat_map(|failing| [(failing, false), (failing, true)]) {
        let root = tempfile::tempdir().expect("a directory");
        let machine = Machine::new(root.path());
        let (before, journal) = (machine.state(), Arc::new(Memory::default()));
        *machine.fails.lock().expect("locks") = Some((failing, after));
        let error = key_builder(&machine, &journal).build(&steps(), &go()).expect_err("fails").to_string();
        let ran = machine.ran.lock().expect("locks")[failing].clone();
        assert!(error.contains("made to fail") && error.contains(&ran), "{error}");
        assert_eq!(machine.state(), before, "after {ran}");
        assert_eq!(journal.left(), [], "after {ran}");
    }
}

#[test]
fn a_kill_at_every_boundary_is_cleaned_up_from_the_journal() {
    let steps = steps();
    for end in 0..=steps.len() {
        let root = tempfile::tempdir().expect("a directory");
        let machine = Machine::new(root.path());
        let (before, journal) = (machine.state(), Arc::new(Memory::default()));
        key_builder(&machine, &journal).build(&steps[..end], &go()).expect("builds");
        // And once between the journal and the step.
        if let Some(undo) = steps.get(end).and_then(|step| step.undo.clone()) {
            journal.write(&Entry::Step { number: 99, undo }).expect("writes");
        }
        for _ in 0..2 {
            for step in journal.left() {
                undo(&machine.sys(), &machine, &step).unwrap_or_else(|error| panic!("{end}: {error}"));
            }
            assert_eq!(machine.state(), before, "killed before step {end}; a second cleanup changes nothing");
        }
    }
}

#[test]
fn both_errors_are_kept_and_what_stays_is_in_the_journal() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    let journal = Arc::new(Memory::default());
    let mut builder = builder(&machine, &journal);
    let md = steps().into_iter().filter(|step| matches!(step.undo, Some(BuildUndo::StopMd { .. })));
    builder.build(&md.collect::<Vec<_>>(), &go()).expect("builds");
    // Somebody mounts the array behind our back.
    machine.facts.lock().expect("locks").insert("mount:/mnt".into(), "/dev/md200".into());
    machine.publish();
    let stopped = AtomicBool::new(true);
    let left = builder.undo_to(0).expect_err("is busy").to_string();
    assert!(left.contains("mdadm --stop"), "{left}");
    assert_eq!(journal.left().len(), 1);
    assert_eq!(builder.build(&steps(), &stopped), Err(BuildError::Stopped));
    machine.facts.lock().expect("locks").remove("mount:/mnt");
    machine.publish();
    builder.undo_to(0).expect("undoes what was left");
    assert_eq!(journal.left(), []);
}

#[test]
fn nothing_of_somebody_else_is_touched() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    for (key, value) in [
        ("md:/dev/md200", "1:2:3:4"),
        ("super:/dev/vdc", "1:2:3:4"),
        ("label:/dev/vdb", "precious"),
        ("loop:/dev/loop5", "/home/precious"),
        ("pv:/dev/vdb", "precious"),
        ("label:/dev/vdf", "precious"),
        ("swap:/dev/vdf", "x"),
    ] {
        machine.facts.lock().expect("locks").insert(key.into(), value.into());
    }
    machine.publish();
    let before = machine.state();
    for step in steps().iter().rev().filter_map(|step| step.undo.as_ref()) {
        undo(&machine.sys(), &machine, step).expect("is none of ours");
    }
    assert_eq!(machine.state(), before);
}

fn loop_over(file: &str, sequence: Option<u64>) -> BuildUndo {
    BuildUndo::DetachLoop { device: "/dev/loop5".into(), file: file.into(), id: None, sequence }
}

/// What undoing `step` says was left alone.
fn left(machine: &Machine, step: &BuildUndo) -> String {
    let before = machine.state();
    let outcome = undo(&machine.sys(), machine, step).expect("is none of ours");
    assert_eq!(machine.state(), before);
    match outcome {
        Outcome::Left(what) => what,
        other => panic!("{step}: {other:?}"),
    }
}

#[test]
fn what_is_left_alone_is_told_from_what_is_put_back() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    let fact = |key: &str, value: &str| {
        machine.facts.lock().expect("locks").insert(key.into(), value.into());
        machine.publish();
    };
    let undone = |step: &BuildUndo| undo(&machine.sys(), &machine, step).expect("undoes");
    let mountpoint = || PathBuf::from("/run/ebbtide/r");
    let mounted = Mounted { device: "/dev/vdb".into(), fstype: Some("xfs".into()), number: None };
    let mount = BuildUndo::Unmount { mountpoint: mountpoint(), from: Some(mounted) };
    assert_eq!(undone(&mount), Outcome::Before);
    fact("mount:/run/ebbtide/r", "/dev/vdc");
    assert!(left(&machine, &mount).contains("/dev/vdc (xfs) is mounted there, not /dev/vdb"));
    let unknown = BuildUndo::Unmount { mountpoint: mountpoint(), from: None };
    assert!(left(&machine, &unknown).contains("does not say"));
    fact("mount:/run/ebbtide/r", "/dev/vdb");
    let below =
        "30 1 9:0 / /run/ebbtide/r rw - xfs /dev/vdb rw\n31 30 9:1 / /run/ebbtide/r rw - ext4 /dev/vdc rw\n";
    std::fs::write(machine.root.join("proc/self/mountinfo"), below).expect("writes");
    let over = undo(&machine.sys(), &machine, &mount).expect_err("stays to be put back").to_string();
    assert!(over.contains("/dev/vdc (ext4) is mounted over it on /run/ebbtide/r"), "{over}");
    machine.publish();
    assert_eq!(undone(&mount), Outcome::Done);

    let set = |value: &str| QueueSetting {
        device: "/dev/vdb".into(),
        attribute: QueueAttribute::NrRequests,
        value: value.into(),
    };
    let queue = |value: &str, old: &str| BuildUndo::RestoreQueue { set: set(value), old: Some(old.into()) };
    std::fs::create_dir_all(machine.root.join("sys/class/block/vdb")).expect("makes");
    assert!(left(&machine, &queue("64", "256")).contains("nr_requests is 128 and not 64"));
    assert_eq!(undone(&queue("64", "128")), Outcome::Before);
    assert_eq!(undone(&queue("128", "32")), Outcome::Done);

    let wipe =
        BuildUndo::WipeContent { device: "/dev/vdb".into(), label: "ebb00000000".into(), sequence: None };
    assert_eq!(undone(&wipe), Outcome::Before);
    fact("label:/dev/vdb", "MYDATA");
    assert!(left(&machine, &wipe).contains("MYDATA"));
}

#[test]
fn a_loop_device_is_told_by_its_file_and_by_its_use() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    machine.facts.lock().expect("locks").insert("loop:/dev/loop5".into(), "/var/tmp/v".into());
    machine.publish();
    let sequence = root.path().join("sys/block/loop5/diskseq");
    std::fs::write(&sequence, "8\n").expect("writes");
    assert!(left(&machine, &loop_over("/var/tmp/w", Some(8))).contains("is on /var/tmp/v now"));
    std::fs::write(&sequence, "8\n").expect("writes");
    assert!(left(&machine, &loop_over("/var/tmp/v", Some(7))).contains("again since"));
    let done = undo(&machine.sys(), &machine, &loop_over("/var/tmp/v", Some(8)));
    assert_eq!(done, Ok(Outcome::Done));
}

#[test]
fn a_tunable_that_the_kernel_does_not_take_is_told() {
    let root = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(root.path());
    let set = QueueSetting {
        device: "/dev/vdb".into(),
        attribute: QueueAttribute::MaxSectorsKb,
        value: "64".into(),
    };
    let error = queue::set(&machine.sys(), &set).expect_err("there is none").to_string();
    assert_eq!(error, "max_sectors_kb of /dev/vdb cannot be 64: the device has no such attribute");
}

/// A machine on which somebody has the loop device open: detaching it waits for them.
struct HeldOpen(Machine);

impl Runner for HeldOpen {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        if program == "losetup" {
            return Ok(Output { status: Some(0), stdout: Vec::new(), stderr: String::new() });
        }
        self.0.run_with(program, arguments, input)
    }
}

#[test]
fn a_loop_device_that_somebody_has_open_is_still_there() {
    for backing in ["/var/tmp/v", "/var/tmp/v (deleted)"] {
        let root = tempfile::tempdir().expect("a directory");
        let machine = Machine::new(root.path());
        machine.facts.lock().expect("locks").insert("loop:/dev/loop5".into(), backing.into());
        machine.publish();
        let step = loop_over("/var/tmp/v", None);
        let error = undo(&machine.sys(), &HeldOpen(machine.clone()), &step).expect_err("is held open");
        assert_eq!(error, BuildError::StillThere { what: "/dev/loop5".into() }, "{backing}");
        undo(&machine.sys(), &machine, &step).expect("nobody has it open any more");
        assert_eq!(free_loops(&machine.sys(), 6)[5], "/dev/loop5", "{backing}");
    }
}

/// udev that is never done: it takes longer than it is given.
struct BusyUdev(Mutex<Vec<String>>);

impl Runner for BusyUdev {
    fn run_with(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, CommandError> {
        self.0.lock().expect("locks").push(format!("{program} {}", arguments.join(" ")));
        std::thread::sleep(Duration::from_millis(200));
        Ok(Output { status: Some(1), stdout: Vec::new(), stderr: String::new() })
    }
}

#[test]
fn waiting_for_udev_is_part_of_the_patience() {
    let udev = BusyUdev(Mutex::default());
    let still_there = || BuildError::StillThere { what: "it".into() };
    let mut attempts = 0;
    let error = insist_until::<()>(Instant::now() + Duration::from_millis(100), &udev, || {
        attempts += 1;
        Err(still_there())
    });
    assert_eq!(error, Err(still_there()));
    assert!(attempts <= 2, "{attempts} attempts: once more after the wait, and no further");
    let asked = udev.0.lock().expect("locks");
    assert!(asked.iter().all(|asked| asked == "udevadm settle --timeout=0"), "{asked:?}");
}
