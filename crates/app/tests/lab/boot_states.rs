//! The script that `ebb user-data` prints, among disks in drawn states, with the mdadm of a real kernel (User-Mode Linux).

use ebbtide_lab::uml::{Guest, Kernel};
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

const EXPERIMENT: &str = "name = \"night\"\n[volumes]\na = { size = \"1GiB\" }\nb = { size = \"1GiB\" }\n[designs.stripe]\nlayout = \"stripe\"\n\
    chunk = \"64KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\"\n[designs.mirror]\nlayout = \"mirror\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\"\n\
    [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";

/// The script that `ebb user-data` prints of a design, in a directory that a guest with four disks shares.
struct Place(tempfile::TempDir);

impl Place {
    fn new(design: &str) -> Place {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = place.path().join("e.toml");
        std::fs::write(&file, EXPERIMENT).unwrap();
        let ebb = Command::new(env!("CARGO_BIN_EXE_ebb"))
            .args([
                "user-data",
                "--members",
                "/dev/disk/by-id/t-*",
                "--name",
                "data",
                "--design",
                design,
                "--format",
                "script",
            ])
            .arg(&file)
            .output()
            .unwrap();
        assert!(ebb.status.success(), "{}", String::from_utf8_lossy(&ebb.stderr));
        std::fs::create_dir(place.path().join("share")).unwrap();
        std::fs::write(place.path().join("share/install"), &ebb.stdout).unwrap();
        Place(place)
    }

    /// What `script` prints in a guest.
    fn run(&self, script: &str) -> String {
        let disks: Vec<_> = ["a", "b", "c", "d"].map(|name| self.0.path().join(name)).into();
        for disk in &disks {
            std::fs::File::create(disk).unwrap().set_len(24 << 20).unwrap();
        }
        let lab = ebbtide_runner::places::lab().unwrap();
        let kernel = Kernel::ready(&lab, &mut |text| eprintln!("{text}")).unwrap();
        let share = Some(self.0.path().join("share"));
        let guest = Guest { script: script.to_owned(), disks, share, memory_mib: 800, ..Guest::default() };
        guest.run(&kernel, Duration::from_secs(1800)).unwrap().output
    }
}

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

/// Functions of the guest's script.
const FUNCTIONS: &str = r#"
set -u
export DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
modprobe raid0; modprobe raid1; modprobe ext4
mkdir -p /dev/disk/by-id /data /run/images
links() { rm -f /dev/disk/by-id/*; for d in "$@"; do ln -s /dev/ubd$d /dev/disk/by-id/t-$d; done; }
off() { if mountpoint -q /data; then umount /data; fi; for md in /sys/block/md*; do [ -e $md/md ] && mdadm -q --stop /dev/${md##*/}; done 2>/dev/null; }
keep() { dd if=/dev/ubd$1 of=/run/images/$2 bs=1M status=none; }
give() { dd if=/run/images/$1 of=/dev/ubd$2 bs=1M status=none; }
sum() { for d in "$@"; do md5sum /dev/ubd$d; done | md5sum; }
sh /share/install >/dev/null 2>&1
script=/usr/local/sbin/ebb-data
note=/var/lib/ebbtide/boot/data-$(sed -n 's/^uuid=\([^:]*\).*/\1/p' $script)
sed -i 's/^wait=.*/wait=0/' $script
keep a blank
"#;

/// Images of what disks carry.
const PREPARE: &str = r#"
mkfs.ext4 -q -F /dev/ubda; keep a foreign; give blank a
links a b; $script start >/dev/null 2>&1; echo hello >/data/file; off
keep a m0; keep b m1
mdadm -q --assemble /dev/md/data /dev/ubda /dev/ubdb; mkfs.ext4 -q -F /dev/md/data; off
keep a by_hand0; keep b by_hand1
"#;

#[test]
fn nothing_of_anybody_s_is_lost_whatever_the_disks_carry() {
    let states: u64 = std::env::var("EBB_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(25);
    let place = Place::new("stripe");
    let mut script = FUNCTIONS.to_owned() + PREPARE;
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
    let output = place.run(&script);
    assert!(output.trim_end().ends_with("all"), "{output}");

    let mut wrong = Vec::new();
    for n in 0..states {
        let state = State::draw(n);
        let begin = format!("state {n} ");
        let said = output.lines().find(|line| line.starts_with(&begin)).unwrap_or("nothing was said");
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

/// What happens to a mirror's members, and what the next start has to make of it.
const MIRRORS: &str = r#"
md() { for at in /sys/block/md*; do case $(cat $at/md/array_state 2>/dev/null) in ''|clear|inactive) ;; *) echo /dev/${at##*/} ;; esac; done; }
begin() { off; rm -rf $note; for d in a b c d; do give blank $d; done; links a b; $script start >/dev/null 2>&1; echo old >/data/file; echo "== $1"; }
go() { $script start 2>&1; echo "status $?: $(cat /data/file 2>/dev/null)"; }
copied() { until [ "$(cat /sys/block/md*/md/degraded)" = 0 ]; do sleep 0.1; done; }

begin "members of two machines"
off; rm -rf $note; links c d; $script start >/dev/null 2>&1; off; links a d; go

begin "a member that had failed, alone"
mdadm $(md) --fail /dev/ubdb; echo new >/data/file; $script note; off; links b; go

begin "the other half of a mirror that ran without it"
off; links a; go; echo new >/data/file; off; links b; go

begin "both halves, of which one ran alone"
off; links a; $script start >/dev/null 2>&1; echo new >/data/file; off; links a b; go

begin "a member that was replaced and is here still"
mdadm $(md) --fail /dev/ubdb; mdadm $(md) --remove /dev/ubdb; mdadm $(md) --add /dev/ubdc; copied; echo new >/data/file; off; links a b c; go

begin "a replacement that is not named"
mdadm $(md) --fail /dev/ubdb; mdadm $(md) --remove /dev/ubdb; mdadm $(md) --add /dev/ubdc; copied; echo new >/data/file
$script note; off; links a; go; mdadm $(md) --add /dev/ubdc; copied; umount /data; go; off; echo "named now"; links a c; go

begin "nothing on it yet, and a member missing"
umount /data; dd if=/dev/zero of=$(md) bs=1M status=none; rm -rf $note; off; links a; go; off; links a b; go

begin "another array of this name"
off; rm -rf $note; give blank a; give blank b; mdadm --create /dev/md/data --run -q --level=0 --force --raid-devices=1 /dev/ubdd; links a b; go
echo all
"#;

#[test]
fn a_mirror_is_not_started_with_older_data_and_not_made_of_two() {
    let place = Place::new("mirror");
    let output = place.run(&(FUNCTIONS.to_owned() + MIRRORS));
    let told = |what: &str| {
        let (_, rest) =
            output.split_once(&format!("== {what}\n")).unwrap_or_else(|| panic!("{what}: {output}"));
        rest.split("== ").next().unwrap_or_default().to_owned()
    };
    for (what, wanted) in [
        ("members of two machines", &["members of several arrays", "status 1: \n"][..]),
        ("a member that had failed, alone", &["was not in it when it ran last", "status 1: \n"]),
        (
            "the other half of a mirror that ran without it",
            &["DEGRADED", "status 0: old\n", "was not in it when it ran last", "status 1: \n"],
        ),
        ("both halves, of which one ran alone", &["left out: /dev/ubdb", "status 0: new\n"]),
        ("a member that was replaced and is here still", &["left alone: /dev/ubdb", "status 0: new\n"]),
        (
            "a replacement that is not named",
            &[
                "members= in /usr/local/sbin/ebb-data does not name it",
                "/dev/ubdc is in it and was not looked for",
                "named now\nebb-data: /dev/md127 is mounted at /data\nstatus 0: new\n",
            ],
        ),
        (
            "nothing on it yet, and a member missing",
            &["members are missing", "status 1: \n", "new ext4 on", "status 0: \n"],
        ),
        ("another array of this name", &["new ext4 on", "status 0: \n"]),
    ] {
        let said = told(what);
        for words in wanted {
            assert!(said.contains(words), "{what}: {words:?} is not in\n{said}");
        }
    }
}
