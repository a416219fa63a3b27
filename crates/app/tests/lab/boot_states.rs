//! The script that `ebb user-data` prints, among disks in drawn states, with the mdadm of a real kernel (User-Mode Linux).

use ebbtide_lab::uml::{Guest, Kernel};
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

const EXPERIMENT: &str = "name = \"night\"\n[volumes]\na = { size = \"1GiB\" }\nb = { size = \"1GiB\" }\n[designs.d]\nlayout = \"stripe\"\n\
    chunk = \"64KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\"\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";

/// What a disk may carry. Members are of one array with a file in it; those of `by_hand` have a file system that somebody else made on that array.
const KINDS: [&str; 6] = ["blank", "foreign", "m0", "m1", "by_hand0", "by_hand1"];

/// A state of the three disks: what each carries, how many of them are there, whether the note of a made array is.
struct State {
    disks: [&'static str; 3],
    there: usize,
    noted: bool,
}

impl State {
    /// The state of number `n`: the first are those that lost data once.
    fn draw(n: u64) -> State {
        let special = [
            (["m0", "m1", "m1"], 3, true),
            (["m1", "m0", "m0"], 3, false),
            (["by_hand0", "by_hand1", "blank"], 3, true),
            (["by_hand0", "by_hand1", "blank"], 2, false),
            (["m0", "blank", "blank"], 3, false),
            (["blank", "foreign", "blank"], 1, false),
            (["blank", "blank", "foreign"], 2, false),
        ];
        if let Some((disks, there, noted)) = special.get(n as usize) {
            return State { disks: *disks, there: *there, noted: *noted };
        }
        // A linear congruential generator (Knuth's MMIX constants): its upper bits are drawn enough.
        let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let disks = [(); 3].map(|()| KINDS[below(KINDS.len() as u64) as usize]);
        State { disks, there: 1 + below(3) as usize, noted: below(2) == 0 }
    }

    /// What the script has to end with, from the state alone.
    fn expected(&self) -> &'static str {
        let there = &self.disks[..self.there];
        let count = |kind: &str| there.iter().filter(|found| found.ends_with(kind)).count();
        let (first, second, blank) = (count("0"), count("1"), count("blank"));
        if first + second > 0 {
            // Halves of the two are of the same array at different times: each carries its own half of a file system.
            let mixed = there.iter().any(|kind| kind.starts_with('m'))
                && there.iter().any(|kind| kind.starts_with("by"));
            return match (first, second) {
                (1, 1) if mixed => "any",
                (1, 1) if there.contains(&"m0") => "kept",
                _ => "refused",
            };
        }
        if count("foreign") > 0 || blank < 2 || self.noted { "refused" } else { "made" }
    }
}

/// Functions of the guest's script, and the images of what disks carry.
const PREPARE: &str = r#"
set -u
export DM_DISABLE_UDEV=1
modprobe raid0; modprobe ext4
mkdir -p /dev/disk/by-id /data /run/images
links() { rm -f /dev/disk/by-id/*; for d in "$@"; do ln -s /dev/ubd$d /dev/disk/by-id/t-$d; done; }
off() { if mountpoint -q /data; then umount /data; fi; for md in /sys/block/md*; do [ -e $md/md ] && mdadm -q --stop /dev/${md##*/}; done 2>/dev/null; }
keep() { dd if=/dev/ubd$1 of=/run/images/$2 bs=1M status=none; }
give() { dd if=/run/images/$1 of=/dev/ubd$2 bs=1M status=none; }
sum() { for d in "$@"; do md5sum /dev/ubd$d; done | md5sum; }
sh /share/install >/dev/null 2>&1
script=/usr/local/sbin/ebb-data note=/var/lib/ebbtide/boot/data
sed -i 's/^wait=.*/wait=0/' $script
keep a blank
mkfs.ext4 -q -F /dev/ubda; keep a foreign; give blank a
links a b; $script start >/dev/null 2>&1; echo hello >/data/file; off
keep a m0; keep b m1
mdadm -q --assemble /dev/md/data /dev/ubda /dev/ubdb; mkfs.ext4 -q -F /dev/md/data; off
keep a by_hand0; keep b by_hand1
"#;

#[test]
fn nothing_of_anybody_s_is_lost_whatever_the_disks_carry() {
    let states: u64 = std::env::var("EBB_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(25);
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = place.path().join("e.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let ebb = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(["user-data", "--members", "/dev/disk/by-id/t-*", "--name", "data", "--format", "script"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(ebb.status.success(), "{}", String::from_utf8_lossy(&ebb.stderr));
    let share = place.path().join("share");
    std::fs::create_dir(&share).unwrap();
    std::fs::write(share.join("install"), &ebb.stdout).unwrap();

    let mut script = PREPARE.to_owned();
    for n in 0..states {
        let State { disks, there, noted } = State::draw(n);
        let names = ["a", "b", "c"];
        for (kind, name) in disks.iter().zip(names) {
            let _ = writeln!(script, "give {kind} {name}");
        }
        let note = if noted { "mkdir -p $note; date >$note/made" } else { "rm -rf $note" };
        let _ = writeln!(
            script,
            "{note}; links {}; before=$(sum a b c); said=$($script start 2>&1); status=$?; kept=; \
             if [ -e /data/file ]; then kept=kept; fi; off; same=; if [ \"$(sum a b c)\" = \"$before\" ]; then same=same; fi; \
             echo \"state {n} $status kept=$kept same=$same $said\" | tr '\\n' ' '; echo",
            names[..there].join(" ")
        );
    }
    script += "echo all\n";
    let disks: Vec<_> = ["a", "b", "c"].map(|name| place.path().join(name)).into();
    for disk in &disks {
        std::fs::File::create(disk).unwrap().set_len(24 << 20).unwrap();
    }
    let lab = ebbtide_runner::places::lab().unwrap();
    let kernel = Kernel::ready(&lab, &mut |text| eprintln!("{text}")).unwrap();
    let guest = Guest { script, disks, share: Some(share), memory_mib: 800, ..Guest::default() };
    let outcome = guest.run(&kernel, Duration::from_secs(1800)).unwrap();
    assert!(outcome.output.trim_end().ends_with("all"), "{}", outcome.output);

    let mut wrong = Vec::new();
    for n in 0..states {
        let state = State::draw(n);
        let begin = format!("state {n} ");
        let said = outcome.output.lines().find(|line| line.starts_with(&begin)).unwrap_or("nothing was said");
        let mounted = said.starts_with(&format!("state {n} 0 "));
        let right = match state.expected() {
            "kept" => mounted && said.contains("kept=kept"),
            "made" => mounted && said.contains("kept= "),
            "any" => true,
            // Starting an array and looking at it writes nothing.
            _ => !mounted && said.contains("same=same") && said.contains("not mounted: "),
        };
        if !right {
            wrong.push(format!(
                "{:?} of {:?}, noted {}: expected {}: {said}",
                state.there,
                state.disks,
                state.noted,
                state.expected()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
