//! Nothing that is anybody's is written, on real md, LVM, dm-crypt, multipath, btrfs and NVMe namespaces with partitions:
//! each state against ways to write to a device, the right id and `--destroy` included where something uses it.

use super::guests::{guest_with, script};
use ebbtide_lab::disks::Disk;
use ebbtide_lab::guest::Guest;

const MIB: u64 = 1 << 20;

/// Something that is somebody's: how it comes to be, what the program is pointed at, how it goes.
struct State {
    name: &'static str,
    set_up: &'static str,
    target: &'static str,
    /// Disks whose bytes must stay.
    kept: &'static str,
    /// Whether something uses it: then not even its id releases it.
    in_use: bool,
    tear_down: &'static str,
}

const STATES: &[State] = &[
    State {
        name: "member of a running mirror",
        set_up: "mdadm --create /dev/md0 --run -q --level=1 --raid-devices=2 --assume-clean /dev/vda /dev/vdb; mke2fs -q /dev/md0",
        target: "/dev/vda",
        kept: "vda vdb",
        in_use: true,
        tear_down: "mdadm -q --stop /dev/md0",
    },
    State {
        name: "spare of a mirror",
        set_up: "mdadm --create /dev/md0 --run -q --level=1 --raid-devices=2 --spare-devices=1 --assume-clean /dev/vda /dev/vdb /dev/vdc",
        target: "/dev/vdc",
        kept: "vda vdb vdc",
        in_use: true,
        tear_down: "mdadm -q --stop /dev/md0",
    },
    State {
        name: "member of an array that is assembled and does not run",
        set_up: "mdadm --create /dev/md0 --run -q --level=5 --raid-devices=3 --assume-clean /dev/vda /dev/vdb /dev/vdc; \
                 mdadm -q --stop /dev/md0; echo md9 > /sys/module/md_mod/parameters/new_array; cd /sys/block/md9/md; \
                 echo 1.2 > metadata_version; cat /sys/block/vda/dev > new_dev; cd /; grep -q 'md9 : inactive vda' /proc/mdstat",
        target: "/dev/vda",
        kept: "vda vdb vdc",
        in_use: true,
        tear_down: "mdadm -q --stop /dev/md9",
    },
    State {
        name: "member of an array that is stopped",
        set_up: "mdadm --create /dev/md0 --run -q --level=0 --raid-devices=2 /dev/vda /dev/vdb; mke2fs -q /dev/md0; mdadm -q --stop /dev/md0",
        target: "/dev/vda",
        kept: "vda vdb",
        in_use: false,
        tear_down: "true",
    },
    State {
        name: "mounted array",
        set_up: "mdadm --create /dev/md0 --run -q --level=0 --raid-devices=2 /dev/vda /dev/vdb; mke2fs -q /dev/md0; mount -o noatime /dev/md0 /mnt; sync",
        target: "/dev/md0",
        kept: "vda vdb",
        in_use: true,
        tear_down: "umount /mnt; mdadm -q --stop /dev/md0",
    },
    State {
        name: "array with a file system",
        set_up: "mdadm --create /dev/md0 --run -q --level=0 --raid-devices=2 /dev/vda /dev/vdb; mke2fs -q /dev/md0; sync",
        target: "/dev/md0",
        kept: "vda vdb",
        in_use: false,
        tear_down: "mdadm -q --stop /dev/md0",
    },
    State {
        name: "array over arrays: a member of the lower one",
        set_up: "mdadm --create /dev/md0 --run -q --level=1 --raid-devices=2 --assume-clean /dev/vda /dev/vdb; \
                 mdadm --create /dev/md1 --run -q --level=1 --raid-devices=2 --assume-clean /dev/vdc /dev/vdd; \
                 mdadm --create /dev/md2 --run -q --level=0 --raid-devices=2 /dev/md0 /dev/md1",
        target: "/dev/vdd",
        kept: "vda vdb vdc vdd",
        in_use: true,
        tear_down: "mdadm -q --stop /dev/md2; mdadm -q --stop /dev/md1; mdadm -q --stop /dev/md0",
    },
    State {
        name: "array over arrays: the lower one",
        set_up: "mdadm --create /dev/md0 --run -q --level=1 --raid-devices=2 --assume-clean /dev/vda /dev/vdb; \
                 mdadm --create /dev/md1 --run -q --level=1 --raid-devices=2 --assume-clean /dev/vdc /dev/vdd; \
                 mdadm --create /dev/md2 --run -q --level=0 --raid-devices=2 /dev/md0 /dev/md1",
        target: "/dev/md0",
        kept: "vda vdb vdc vdd",
        in_use: true,
        tear_down: "mdadm -q --stop /dev/md2; mdadm -q --stop /dev/md1; mdadm -q --stop /dev/md0",
    },
    State {
        name: "physical volume without a group",
        set_up: "pvcreate -q -y /dev/vda",
        target: "/dev/vda",
        kept: "vda",
        in_use: false,
        tear_down: "true",
    },
    State {
        name: "physical volume of a group that is not active",
        set_up: "pvcreate -q -y /dev/vda /dev/vdb; vgcreate -q vg /dev/vda /dev/vdb; lvcreate -q -y -Wn -l 5 -n lv vg; vgchange -q -an vg",
        target: "/dev/vda",
        kept: "vda vdb",
        in_use: false,
        tear_down: "true",
    },
    State {
        name: "physical volume of an active volume",
        set_up: "pvcreate -q -y /dev/vda; vgcreate -q vg /dev/vda; lvcreate -q -y -Wn -l 5 -n lv vg; mke2fs -q /dev/vg/lv",
        target: "/dev/vda",
        kept: "vda",
        in_use: true,
        tear_down: "vgchange -q -an vg",
    },
    State {
        name: "mounted logical volume",
        set_up: "pvcreate -q -y /dev/vda; vgcreate -q vg /dev/vda; lvcreate -q -y -Wn -l 5 -n lv vg; mke2fs -q /dev/vg/lv; mount -o noatime /dev/vg/lv /mnt; sync",
        target: "/dev/vg/lv",
        kept: "vda",
        in_use: true,
        tear_down: "umount /mnt; vgchange -q -an vg",
    },
    State {
        name: "origin of a snapshot",
        set_up: "pvcreate -q -y /dev/vda; vgcreate -q vg /dev/vda; lvcreate -q -y -Wn -Zn -l 4 -n lv vg; lvcreate -q -y -s -l 2 -n snap vg/lv",
        target: "/dev/vg/lv",
        kept: "vda",
        in_use: true,
        tear_down: "vgchange -q -an vg",
    },
    State {
        name: "open encrypted device: what is below",
        set_up: "echo key > /tmp/key; cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /tmp/key /dev/vda; \
                 cryptsetup open --key-file /tmp/key /dev/vda plain; mke2fs -q /dev/mapper/plain",
        target: "/dev/vda",
        kept: "vda",
        in_use: true,
        tear_down: "cryptsetup close plain",
    },
    State {
        name: "open encrypted device: the plain text, mounted",
        set_up: "echo key > /tmp/key; cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /tmp/key /dev/vda; \
                 cryptsetup open --key-file /tmp/key /dev/vda plain; mke2fs -q /dev/mapper/plain; mount -o noatime /dev/mapper/plain /mnt; sync",
        target: "/dev/mapper/plain",
        kept: "vda",
        in_use: true,
        tear_down: "umount /mnt; cryptsetup close plain",
    },
    State {
        name: "closed encrypted device",
        set_up: "echo key > /tmp/key; cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /tmp/key /dev/vda",
        target: "/dev/vda",
        kept: "vda",
        in_use: false,
        tear_down: "true",
    },
    State {
        name: "path of a multipath device",
        set_up: "n=$(blockdev --getsz /dev/vda); dmsetup create mp --uuid mpath-test --table \"0 $n multipath 0 0 1 1 round-robin 0 1 1 /dev/vda 1\"",
        target: "/dev/vda",
        kept: "vda",
        in_use: true,
        tear_down: "dmsetup remove mp",
    },
    State {
        name: "mounted multipath device",
        set_up: "n=$(blockdev --getsz /dev/vda); dmsetup create mp --uuid mpath-test --table \"0 $n multipath 0 0 1 1 round-robin 0 1 1 /dev/vda 1\"; \
                 mke2fs -q /dev/mapper/mp; mount -o noatime /dev/mapper/mp /mnt; sync",
        target: "/dev/mapper/mp",
        kept: "vda",
        in_use: true,
        tear_down: "umount /mnt; dmsetup remove mp",
    },
    State {
        name: "second device of a mounted btrfs",
        set_up: "mkfs.btrfs -q -f -m raid1 -d raid1 /dev/vde /dev/vdf; mount -o noatime,device=/dev/vde,device=/dev/vdf /dev/vde /mnt; sync",
        target: "/dev/vdf",
        kept: "vde vdf",
        in_use: true,
        tear_down: "umount /mnt",
    },
    State {
        name: "second device of a btrfs that is not mounted",
        set_up: "mkfs.btrfs -q -f -m raid1 -d raid1 /dev/vde /dev/vdf",
        target: "/dev/vdf",
        kept: "vde vdf",
        in_use: false,
        tear_down: "true",
    },
    State {
        name: "namespace with a mounted partition",
        set_up: "printf 'label: gpt\\nstart=2048,size=30000\\n' | sfdisk -q /dev/vdg; udevadm settle; mke2fs -q /dev/vdg1; mount -o noatime /dev/vdg1 /mnt; sync",
        target: "/dev/vdg",
        kept: "vdg",
        in_use: true,
        tear_down: "umount /mnt",
    },
    State {
        name: "mounted partition of a namespace",
        set_up: "printf 'label: gpt\\nstart=2048,size=30000\\n' | sfdisk -q /dev/vdg; udevadm settle; mke2fs -q /dev/vdg1; mount -o noatime /dev/vdg1 /mnt; sync",
        target: "/dev/vdg1",
        kept: "vdg",
        in_use: true,
        tear_down: "umount /mnt",
    },
    State {
        name: "namespace whose partition is a member of an array",
        set_up: "printf 'label: gpt\\nstart=2048,size=30000\\n' | sfdisk -q /dev/vdg; udevadm settle; \
                 mdadm --create /dev/md0 --run -q --level=1 --raid-devices=2 --assume-clean /dev/vdg1 /dev/vda",
        target: "/dev/vdg",
        kept: "vdg vda",
        in_use: true,
        tear_down: "mdadm -q --stop /dev/md0",
    },
    State {
        name: "swap on an array",
        set_up: "mdadm --create /dev/md0 --run -q --level=0 --raid-devices=2 /dev/vda /dev/vdb; mkswap -q /dev/md0 >/dev/null; swapon /dev/md0",
        target: "/dev/md0",
        kept: "vda vdb",
        in_use: true,
        tear_down: "swapoff /dev/md0; mdadm -q --stop /dev/md0",
    },
    State {
        name: "loop device over a mounted array",
        set_up: "mdadm --create /dev/md0 --run -q --level=0 --raid-devices=2 /dev/vda /dev/vdb; mke2fs -q /dev/md0; mount -o noatime /dev/md0 /mnt; sync; modprobe loop; losetup -o 1M /dev/loop0 /dev/md0",
        target: "/dev/loop0",
        kept: "vda vdb",
        in_use: true,
        tear_down: "losetup -d /dev/loop0; umount /mnt; mdadm -q --stop /dev/md0",
    },
];

/// Bash functions: every way to write, each of which must be refused and leave the disks as they are.
const FUNCTIONS: &str = r#"
# Nothing writes in its own time: no journal, no inode tables left to fill.
mke2fs() { command mkfs.ext4 -F -O ^has_journal -E lazy_itable_init=0 "$@"; }
# md writes to a member that its array is clean when nothing was written for a moment.
quiet() { for md in /sys/block/md*/md/array_state; do [ -e $md ] && while grep -qxE '(active|active-idle|write-pending)' $md; do sleep 0.1; done; done; true; }
sums() { for disk in $kept; do dd if=/dev/$disk bs=1M iflag=direct status=none | md5sum; done; }
experiment() {
    cat > /tmp/x.toml <<EOF
name = "x"
[volumes.v]
device = "$target"
$1
[designs.d]
layout = "linear"
members = ["v"]
filesystem = "ext4"
[designs.bare]
layout = "linear"
members = ["v"]
[workloads.w]
rw = "randwrite"
bs = "4k"
span = "8MiB"
runtime = "20ms"
[answer]
trials_min = 6
trials_max = 6
EOF
}
refused() {
    if "$@" >/tmp/out 2>&1; then echo "$name: done: $*"; fi
    # Refused for what is on the disk, and not for how it is asked.
    if grep -E 'x.toml:[0-9]|^Usage:' /tmp/out; then echo "$name: asked wrongly: $*"; fi
    # One look at the disks for all ways, unless there is something to find out.
    if [ -n "$careful" ] && [ "$(sums)" != "$before" ]; then
        echo "$name: CHANGED by: $*"; cat /tmp/out; before=$(sums)
    fi
}
bare() { experiment "$1"; sed -i '/designs.d\]/,/filesystem/d' /tmp/x.toml; }
way() {
    case $1 in
        bench) refused ebb bench $target --rw write --size 1m --destroy -q;;
        verify) refused ebb bench $target --verify --rw write --bs 4k --size 64k --destroy -q --ledger /tmp/l;;
        bare) bare ""; refused ebb run /tmp/x.toml --destroy -q;;
        kernel) experiment ""; refused ebb run /tmp/x.toml --on kernel --destroy -q;;
        bare-by-id) bare "id = \"$id\""; refused ebb run /tmp/x.toml --destroy -q;;
        kernel-by-id) experiment "id = \"$id\""; refused ebb run /tmp/x.toml --on kernel --destroy -q;;
        *) echo "$name: no way $1";;
    esac
}
ways() {
    before=$(sums)
    id=$(udevadm info -q symlink $target | tr ' ' '\n' | sed -n 's,^disk/by-id/,,p' | head -1)
    for way in "$@"; do way $way; done
    if [ "$(sums)" != "$before" ]; then echo "$name: CHANGED"; fi
}
"#;

fn disks() -> Vec<Disk> {
    let disk = Disk::plain;
    let mut disks: Vec<Disk> = ["d0", "d1", "d2", "d3"].map(|name| disk(name, 32 * MIB)).into();
    // btrfs wants more, and so does a file of a trial.
    disks.extend(["d4", "d5"].map(|name| disk(name, 256 * MIB)));
    disks.push(disk("d6", 32 * MIB));
    disks
}

/// Ways to write to what something uses, the one with the most said for it first; not even its id releases it.
const TO_USED: [&str; 4] = ["kernel-by-id", "bench", "kernel", "bare-by-id"];
/// Ways to write to what nothing uses: its id would release it.
const TO_UNUSED: [&str; 4] = ["bench", "kernel", "verify", "bare"];

/// The ways for a state: the first, and another that is the next one's next; all over some states, since all pass the same door.
fn two_ways(number: usize, in_use: bool) -> Vec<&'static str> {
    let ways = if in_use { TO_USED } else { TO_UNUSED };
    vec![ways[0], ways[1 + number % (ways.len() - 1)]]
}

fn all_ways(_: usize, in_use: bool) -> Vec<&'static str> {
    (if in_use { TO_USED } else { TO_UNUSED }).to_vec()
}

/// `text` with the disks' names as the guest's kernel has them.
fn named(guest: &Guest, text: &str) -> String {
    ('a'..='g').fold(text.to_owned(), |text, letter| {
        text.replace(&format!("vd{letter}"), &format!("{}{letter}", guest.disks))
    })
}

fn attempt(guest: &mut Guest, state: &State, ways: &[&str]) -> String {
    let State { name, set_up, target, kept, tear_down, .. } = state;
    let ways = ways.join(" ");
    let text = format!(
        "{FUNCTIONS}\nname='{name}'; target='{target}'; kept='{kept}'\n\
         modprobe dm-multipath dm-round-robin 2>/dev/null || true\n\
         {set_up}\nudevadm settle\nquiet\nways {ways}\n{tear_down}\nudevadm settle\n\
         for disk in $kept; do blkdiscard -f -z /dev/$disk; done; blockdev --rereadpt /dev/vdg || true; udevadm settle"
    );
    let text = named(guest, &text);
    // One line each; what the tools of set-up and tear-down say beside is of no interest.
    script(guest, &text).unwrap_or_else(|error| format!("{name}: {}", error.replace('\n', " | ")))
}

fn nothing_is_written(guest: &str, ways: impl Fn(usize, bool) -> Vec<&'static str>) {
    let mut guest = guest_with(guest, disks());
    let said: Vec<String> = STATES
        .iter()
        .enumerate()
        .map(|(number, state)| attempt(&mut guest, state, &ways(number, state.in_use)))
        .flat_map(|said| said.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| STATES.iter().any(|state| line.starts_with(&format!("{}: ", state.name))))
        .collect();
    assert!(said.is_empty(), "{}", said.join("\n"));
}

#[test]
fn no_way_to_write_touches_arrays_groups_mappings_and_what_they_are_made_of() {
    nothing_is_written("door", two_ways);
}

#[test]
#[ignore = "takes ten minutes under emulation: `cargo test -p ebbtide --test lab door:: -- --ignored`"]
fn not_one_of_all_ways_to_write_touches_what_is_somebody_s() {
    nothing_is_written("ways", all_ways);
}

/// The same program writes where it may: a blank disk, and one with a signature that is named by its id.
#[test]
fn what_is_free_or_released_by_its_id_is_written() {
    let mut guest = guest_with("free", disks());
    let text = format!(
        "{FUNCTIONS}\nkept=vda; target=/dev/vda; before=$(sums)\n\
         ebb bench /dev/vda --rw write --size 1m --destroy -q >/dev/null; [ \"$(sums)\" != \"$before\" ]\n\
         ebb bench /dev/vda --rw randwrite --bs 4k --size 1m --destroy -q >/dev/null\n\
         echo 'what it filled itself is no data of anybody'\n\
         pvcreate -q -y /dev/vdb >/dev/null; kept=vdb; target=/dev/vdb; before=$(sums)\n\
         bare 'id = \"virtio-d1\"'; ebb run /tmp/x.toml --destroy -q >/dev/null || [ $? = 3 ]; [ \"$(sums)\" != \"$before\" ]\n\
         target=/dev/vde; experiment ''; for i in 1 2; do ebb run /tmp/x.toml --on kernel --destroy -q >/dev/null || [ $? = 3 ]; done\n\
         echo 'a blank disk is blank again after each session'"
    );
    let text = named(&guest, &text);
    let said = script(&mut guest, &text).unwrap();
    assert_eq!(said.lines().count(), 2, "{said}");
}
