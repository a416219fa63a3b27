//! The script that `ebb user-data` prints, among disks in drawn states, with the mdadm of a real kernel (User-Mode Linux).

use super::cases::{cases, check};
use ebbtide_lab::uml::{Guest, Kernel};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const EXPERIMENT: &str = "name = \"night\"\n[volumes]\na = { size = \"1GiB\", device = \"/dev/disk/by-id/t-a\" }\n\
    b = { size = \"1GiB\", device = \"/dev/disk/by-id/t-b\" }\nc = { size = \"1GiB\", device = \"/dev/disk/by-id/t-c\" }\n\
    [designs.two]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\"\nreadahead = \"1MiB\"\nscheduler = \"none\"\n\
    [designs.parity]\nlayout = \"raid5\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\", \"c\"]\nfilesystem = \"ext4\"\n\
    [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";

const DISKS: [&str; 4] = ["a", "b", "c", "d"];
const BYTES: u64 = 8 << 20;

/// Writes what `ebb user-data` prints with `arguments` to `script`.
fn print(place: &Path, script: &str, (design, arguments): (&str, &[&str])) {
    let file = place.join("e.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let ebb = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(["user-data", "--script", "--name", "data", "--mount", "/srv/at/data", "--quiet"])
        .arg(format!("{}:{design}", file.display()))
        .args(arguments)
        .output()
        .unwrap();
    assert!(ebb.status.success(), "{}", String::from_utf8_lossy(&ebb.stderr));
    std::fs::write(place.join("share").join(script), &ebb.stdout).unwrap();
}

/// What the script that is fetched in place of `ebb` is: the program itself would be large.
fn fetched() -> String {
    format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_ebb"))
}

/// What `script` prints in a guest that has the printed scripts in /share.
fn told(script: String) -> String {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::create_dir(place.path().join("share")).unwrap();
    print(place.path(), "kind", ("two", &["--members", "/dev/disk/by-id/t-*"]));
    print(place.path(), "named", ("two", &[]));
    print(place.path(), "parity", ("parity", &[]));
    let ebb = place.path().join("share/ebb");
    std::fs::write(&ebb, fetched()).unwrap();
    let sum = Command::new("sha256sum").arg(&ebb).output().unwrap().stdout;
    let sum = String::from_utf8_lossy(&sum[..64]).into_owned();
    for (script, sum) in [("brought", sum), ("other", "0".repeat(64))] {
        let kind = ["--members", "/dev/disk/by-id/t-*", "--ebb", "http://127.0.0.1:8000/ebb", "--sha256"];
        print(place.path(), script, ("two", &[&kind[..], &[&sum]].concat()));
    }
    let disks: Vec<_> = DISKS.map(|name| place.path().join(name)).into();
    for disk in &disks {
        std::fs::File::create(disk).unwrap().set_len(BYTES).unwrap();
    }
    let lab = ebbtide_runner::places::lab().unwrap();
    let kernel = Kernel::ready(&lab, &mut |text| eprintln!("{text}")).unwrap();
    let share = Some(place.path().join("share"));
    let guest = Guest { script, disks, share, memory_mib: 600, ..Guest::default() };
    let output = guest.run(&kernel, Duration::from_secs(1800)).unwrap().output;
    assert!(output.trim_end().ends_with("all"), "{output}");
    output
}

/// What a disk may carry, and what is said of it. A `system` is mounted; of a kind it is left alone.
const KINDS: [(&str, &str); 11] = [
    ("blank", "is blank"),
    ("foreign", "carries ext4"),
    // Two disks with this are clones of each other.
    ("half", "carries linux_raid_member"),
    ("running", "md126 is made of it"),
    ("parted", "carries a partition table: gpt"),
    // Its partition table is lost, and its partition's file system is not.
    ("hidden", "is not zeros"),
    ("raw", "is not zeros"),
    ("last", "is not zeros"),
    // Nothing is on it, and somebody has a loop device over it.
    ("looped", "loop is made of it"),
    ("swap", "carries swap"),
    ("system", "in use (/mnt)"),
];

/// Where it is to be mounted, and what is said of that.
const PLACES: [(&str, &str); 6] = [
    ("free", ""),
    ("full", "/srv/at/data is not empty"),
    ("link", "/srv/at/data leads to /run/real by a symbolic link"),
    ("below", "/srv/at/data is below /srv/at, which"),
    ("taken", "none is mounted at /srv/at/data"),
    ("given", "/etc/fstab mounts /dev/sdz at /srv/at/data"),
];

/// A state of the machine: what its disks carry, whether the last of them comes late, where it is to be mounted, and whether the disks
/// are named.
#[derive(Debug, Clone)]
struct State {
    disks: Vec<usize>,
    late: bool,
    place: usize,
    named: bool,
}

impl State {
    fn blank(disks: usize) -> State {
        State { disks: vec![0; disks], late: false, place: 0, named: false }
    }

    /// The state of number `n`: each thing alone first, then drawn ones.
    fn draw(n: usize) -> State {
        let kinds = (0..KINDS.len()).map(|kind| State { disks: vec![0, kind], ..State::blank(0) });
        let named = [0, KINDS.len() - 1]
            .map(|kind| State { named: true, ..State { disks: vec![0, kind], ..State::blank(0) } });
        let late = State { late: true, ..State::blank(2) };
        let system = State { disks: vec![0, KINDS.len() - 1, 0], ..State::blank(0) };
        let clones = State { disks: vec![2, 2], ..State::blank(0) };
        let places = (1..PLACES.len()).map(|place| State { place, ..State::blank(2) });
        let alone: Vec<State> = kinds
            .chain(named)
            .chain(places)
            .chain([State::blank(1), State::blank(3), late, system, clones])
            .collect();
        if let Some(state) = alone.get(n) {
            return state.clone();
        }
        // A linear congruential generator (Knuth's MMIX constants): its upper bits are drawn enough.
        let mut state = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % bound as u64) as usize
        };
        // Half of the disks are blank.
        let disks = (0..1 + below(DISKS.len())).map(|_| below(2) * below(KINDS.len())).collect();
        let mut state =
            State { disks, late: false, place: below(3) / 2 * below(PLACES.len()), named: below(3) == 0 };
        // There is one `running` and one `system` at most.
        for kind in [3, KINDS.len() - 1] {
            let more: Vec<_> = (0..state.disks.len()).filter(|at| state.disks[*at] == kind).skip(1).collect();
            more.into_iter().for_each(|at| state.disks[at] = 0);
        }
        // Nothing is waited for where enough are there.
        state.late = state.place == 0
            && state.candidates().len() == 2
            && state.candidates().last() == Some(&(state.disks.len() - 1));
        state
    }

    /// The disks that it may be made of.
    fn candidates(&self) -> Vec<usize> {
        let is_meant = |at: &usize| if self.named { *at < 2 } else { self.disks[*at] != KINDS.len() - 1 };
        (0..self.disks.len()).filter(is_meant).collect()
    }

    /// Whether it is made: of exactly two disks, which are blank.
    fn is_made(&self) -> bool {
        let candidates = self.candidates();
        self.place == 0 && candidates.len() == 2 && candidates.iter().all(|at| self.disks[*at] == 0)
    }

    /// All that has to be said where it is not made.
    fn words(&self) -> Vec<String> {
        if self.place > 0 {
            return vec![PLACES[self.place].1.to_owned()];
        }
        let seen = (0..self.disks.len()).filter(|at| !self.named || *at < 2);
        seen.map(|at| {
            format!(
                "/dev/ubd{} {}{}",
                DISKS[at],
                if self.disks[at] + 1 < KINDS.len() {
                    ""
                } else if self.named {
                    "is "
                } else {
                    "is left alone, "
                },
                KINDS[self.disks[at]].1.replace("loop ", &format!("loop{at} "))
            )
        })
        .collect()
    }

    /// The guest's commands that make the state `n` and say what comes of it.
    fn script(&self, n: usize) -> String {
        let mut script = String::from("begin\n");
        for (at, name) in DISKS.iter().enumerate() {
            let kind = self.disks.get(at).map_or("blank", |kind| KINDS[*kind].0);
            let _ = writeln!(script, "give {kind} {name}");
        }
        let there = if self.late { self.disks.len() - 1 } else { self.disks.len() };
        let _ = writeln!(script, "links {}; place_{}", DISKS[..there].join(" "), PLACES[self.place].0);
        let wait = if self.late {
            let _ = writeln!(script, "(sleep 1; links {}) &", DISKS[..self.disks.len()].join(" "));
            600
        } else {
            0
        };
        let _ = writeln!(script, "go {} {wait}; same=", if self.named { "named" } else { "kind" });
        let candidates = if self.is_made() { self.candidates() } else { Vec::new() };
        for (at, name) in DISKS.iter().enumerate().filter(|(at, _)| !candidates.contains(at)) {
            let kind = self.disks.get(at).map_or("blank", |kind| KINDS[*kind].0);
            let _ = writeln!(
                script,
                "cmp -s /run/images/{kind} /dev/ubd{name} || same=\"$same{name} is written to;\""
            );
        }
        let _ = writeln!(script, "echo \"state {n} $status same=$same later=$(later) $said\"; off");
        script
    }
}

/// Functions of the guest's script, and images of what disks carry.
const FUNCTIONS: &str = r#"
set -u
export DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
modprobe raid0; modprobe raid1; modprobe raid456; modprobe ext4; modprobe loop
mkdir -p /dev/disk/by-id /run/images /srv /run/real /usr/local/sbin /etc/mdadm
printf '#!/bin/sh\necho made >>/run/initramfs\n' >/usr/local/sbin/update-initramfs; chmod +x /usr/local/sbin/update-initramfs
off() {
    mount | awk '$3 == "/srv/at/data" || $3 == "/mnt" { print $3 }' | xargs -r -n 1 umount
    losetup -D
    for md in /sys/block/md*; do [ ! -e $md/md ] || mdadm -q --stop /dev/${md##*/} 2>/dev/null; done
    rm -rf /dev/md /run/blkid
}
begin() {
    off; rm -rf /srv/at; rm -f /etc/udev/rules.d/90-ebb-data.rules /run/initramfs
    printf '# theirs\n' >/etc/fstab; printf '# theirs' >/etc/mdadm/mdadm.conf
    for d in a b c d; do echo mq-deadline >/sys/block/ubd$d/queue/scheduler; done
}
links() { rm -f /dev/disk/by-id/*; for d in "$@"; do ln -s /dev/ubd$d /dev/disk/by-id/t-$d; done; }
keep() { dd if=/dev/ubd$1 of=/run/images/$2 bs=1M status=none; }
give() {
    dd if=/run/images/$1 of=/dev/ubd$2 bs=1M status=none
    case $1 in
        system) mount -o ro,noload /dev/ubd$2 /mnt ;;
        running) mdadm -q --assemble --run --readonly /dev/md126 /dev/ubd$2 ;;
        looped) losetup /dev/loop$(echo $2 | tr abcd 0123) /dev/ubd$2 ;;
        parted) partx -d /dev/ubd$2 2>/dev/null ;;
    esac
}
place_free() { :; }
place_full() { mkdir -p /srv/at/data; touch /srv/at/data/file; }
place_link() { mkdir -p /srv/at; ln -s /run/real /srv/at/data; }
place_below() { echo '/dev/sdy /srv/at ext4 nofail 0 0' >>/etc/fstab; }
place_taken() { mkdir -p /srv/at/data; mount -t tmpfs none /srv/at/data; }
place_given() { echo '/dev/sdz /srv/at/data xfs nofail 0 0' >>/etc/fstab; }
# Fewer places of a disk are read, for the sake of time.
go() {
    sed "s/^wait=.*/wait=$2/; s/at + 1/at + 16/" /share/$1 >/run/made
    said=$(sh /run/made 2>&1 | tr '\n' ' '; [ ! -e /srv/at/data/lost+found ] || echo here); status=1
    case $said in *here) status=0 ;; esac
    wait
}
# Where it is made: run again it does nothing, and the system's own programs bring it back.
later() {
    [ $status = 0 ] || return
    [ "$(cat /sys/block/md127/queue/read_ahead_kb)" = 1024 ] && grep -q 'MD_UUID.*1024' /etc/udev/rules.d/90-ebb-data.rules && [ -e /run/initramfs ] &&
        grep -qx '# theirs' /etc/mdadm/mdadm.conf /etc/fstab || echo files
    for d in a b c d; do
        wanted=mq-deadline; [ ! -e /sys/block/md127/slaves/ubd$d ] || wanted=none
        grep -q "\[$wanted\]" /sys/block/ubd$d/queue/scheduler || echo "$(cat /sys/block/ubd$d/queue/scheduler) and not $wanted of $d"
    done
    sh /run/made | grep -q 'nothing to do' || echo again
    echo kept >/srv/at/data/file; off; mdadm -q --assemble --scan 2>/dev/null
    sh /run/made | grep -q 'has its lines already, and it is not mounted' || echo unmounted
    mount /srv/at/data; cat /srv/at/data/file
}
keep a blank; keep a looped
mkfs.ext4 -q -F /dev/ubda; keep a foreign; keep a system; give blank a
mdadm -q --create /dev/md/old --run --level=1 --metadata=1.2 --raid-devices=2 --assume-clean /dev/ubda /dev/ubdb; mkfs.ext4 -q -F /dev/md/old; off; keep a half; keep a running
give blank a; echo 'start=2048' | sfdisk -q --no-reread --label gpt /dev/ubda; partx -d /dev/ubda 2>/dev/null; keep a parted
mkfs.ext4 -q -F -E offset=1048576 /dev/ubda 6M 2>/dev/null; dd if=/dev/zero of=/dev/ubda bs=1M count=1 conv=notrunc status=none; dd if=/dev/zero of=/dev/ubda bs=512 seek=16351 count=33 conv=notrunc status=none; keep a hidden
give blank a; dd if=/dev/urandom of=/dev/ubda bs=1M seek=5 count=2 conv=notrunc status=none; keep a raw
give blank a; printf x | dd of=/dev/ubda bs=1 seek=8388607 conv=notrunc status=none; keep a last
give blank a; mkswap -q /dev/ubda 2>/dev/null || mkswap /dev/ubda >/dev/null; keep a swap
"#;

#[test]
fn an_array_is_made_of_blank_disks_alone_and_nothing_of_anybody_s_is_written_to() {
    // With `./run-tests --all` two hundred.
    let rounds =
        ebbtide_host::testing::number("EBB_TEST_ROUNDS", 200 / ebbtide_host::testing::every(7) as u64)
            as usize;
    let states: Vec<State> = (0..rounds).map(State::draw).collect();
    let scripts: String = states.iter().enumerate().map(|(n, state)| state.script(n)).collect();
    let output = told(format!("{FUNCTIONS}{scripts}echo all\n"));
    let mut wrong = Vec::new();
    for (n, state) in states.iter().enumerate() {
        let begin = format!("state {n} ");
        let said = output.lines().find(|line| line.starts_with(&begin)).unwrap_or("nothing was said");
        let right = if state.is_made() {
            said.contains(&format!("state {n} 0 same= later=kept ebb-data: made of "))
        } else {
            said.contains(&format!("state {n} 1 same= later= ebb-data: refused: "))
                && state.words().iter().all(|words| said.contains(words))
        };
        if !right {
            let kinds: Vec<_> = state.disks.iter().map(|kind| KINDS[*kind].0).collect();
            let end = if state.is_made() { "made".to_owned() } else { format!("{:?}", state.words()) };
            wrong.push(format!("{kinds:?}, {state:?}: expected {end}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{output}", wrong.join("\n"));
}

/// Copies of the members while they are synchronised are what a loss of power leaves.
const POWER_CUT: &str = r#"
echo 1 >/proc/sys/dev/raid/speed_limit_max; echo 1 >/proc/sys/dev/raid/speed_limit_min
begin; for d in a b c; do give blank $d; done; links a b c
cp /share/parity /run/made; sh /run/made
echo "degraded $(cat /sys/block/md*/md/degraded)"; echo kept >/srv/at/data/file; sync
for d in a b c; do keep $d cut-$d; done
umount /srv/at/data; echo idle >/sys/block/md127/md/sync_action; off
for d in a b c; do give cut-$d $d; done
mdadm --assemble --scan; mount /srv/at/data && cat /srv/at/data/file; off
begin; for d in a b c; do give blank $d; done; links a b
read -r before _ </proc/uptime; sed -i 's/^wait=.*/wait=3/' /run/made; sh /run/made; read -r after _ </proc/uptime
echo "waited $((${after%.*} - ${before%.*}))"
echo all
"#;

#[test]
fn a_loss_of_power_while_parity_is_built_costs_nothing_and_what_is_missing_is_waited_for() {
    let output = told(format!("{FUNCTIONS}{POWER_CUT}"));
    for words in [
        "made of /dev/ubda /dev/ubdb /dev/ubdc",
        "degraded 0\n",
        "\nkept\n",
        "/dev/disk/by-id/t-c is not there",
    ] {
        assert!(output.contains(words), "{words:?} is not in\n{output}");
    }
    let (_, waited) = output.split_once("\nwaited ").unwrap();
    let seconds: u64 = waited.lines().next().unwrap().parse().unwrap();
    assert!(seconds >= 2, "{output}");
}

const BROUGHT: &str = r#"
rm -f /usr/local/bin/ebb; ip link set lo up; (cd /share && exec python3 -m http.server -b 127.0.0.1 8000) >/dev/null 2>&1 & server=$!
until curl -s -o /dev/null http://127.0.0.1:8000/ebb; do kill -0 $server || exit; sleep 0.1; done
for script in other brought; do sed -i 's/^wait=.*/wait=0/' /share/$script; done
try() { status=0; said=$(sh /share/$2 2>&1) || status=$?; echo "CASE $1 status $status $(echo "$said" | tr '\n' ' ')"; }
begin; for d in a b c; do give blank $d; done; give system d; links a b d
try other other; [ -e /usr/local/bin/ebb ] || echo "CASE nothing status 0 "
give foreign b; try foreign brought; give blank b
try made brought; findmnt -n -o SOURCE /srv/at/data; echo kept >/srv/at/data/file
links a b c d; try again brought
cmp -s /run/images/system /dev/ubdd && cmp -s /run/images/blank /dev/ubdc && echo "CASE others status 0 "
kill $server; echo all
"#;

#[test]
fn ebb_is_brought_and_makes_it_of_the_disks_that_nobody_uses() {
    let told = cases(&told(format!("{FUNCTIONS}{BROUGHT}")));
    check(
        &told,
        &[
            ("other", "1", "and not 0000"),
            ("nothing", "0", ""),
            ("foreign", "1", "ext4"),
            ("made", "0", "data: applied"),
            ("again", "0", "nothing to do"),
            ("others", "0", ""),
        ],
    );
}
