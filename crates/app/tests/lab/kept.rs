//! `ebb apply` and `ebb undo` on arrays that they made before: of another design, stopped, killed in between, or with somebody's data on them. With
//! real md, LVM and dm-crypt (User-Mode Linux).

use super::cases::{cases, check};
use super::guests::QUICK_KEYS;
use ebbtide_lab::uml::{Guest, Kernel};
use std::fmt::Write;
use std::time::Duration;

/// Designs, each of which is a file of its own. `raw_X` is `X` without what is made on the array.
const DESIGNS: [(&str, &str); 24] = [
    ("raw_stripe", "layout = \"stripe\"\nmembers = [\"a\", \"b\"]"),
    ("stripe", "layout = \"stripe\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\""),
    ("stripe_xfs", "layout = \"stripe\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"xfs\""),
    ("chunks", "layout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\""),
    ("mirror", "layout = \"mirror\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\""),
    ("mirror_11", "layout = \"mirror\"\nmetadata = \"1.1\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\""),
    (
        "raw_luks",
        "layout = \"mirror\"\nmembers = [\"a\", \"b\"]\nencryption = { format = \"luks2\", key_file = \"/run/key\" }",
    ),
    (
        "luks",
        "layout = \"mirror\"\nmembers = [\"a\", \"b\"]\nencryption = { format = \"luks2\", key_file = \"/run/key\" }\nfilesystem = \"ext4\"",
    ),
    ("raw_striped", "layout = \"stripe\"\nbacking = \"lvm\"\nmembers = [\"a\", \"b\"]"),
    ("striped", "layout = \"stripe\"\nbacking = \"lvm\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\""),
    ("linear", "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\""),
    (
        "cache_through",
        "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"a\"]\nfilesystem = \"ext4\"\ncache = { members = [\"b\", \"c\"], kind = \"cache\" }",
    ),
    (
        "cache_back",
        "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"a\"]\nfilesystem = \"ext4\"\n\
         cache = { members = [\"b\", \"c\"], kind = \"cache\", mode = \"writeback\" }",
    ),
    (
        "cache_writes",
        "layout = \"stripe\"\nbacking = \"lvm\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\"\ncache = { members = [\"c\"], kind = \"writecache\" }",
    ),
    ("ten", "layout = \"raid10\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]\nfilesystem = \"ext4\""),
    ("four_near", "layout = \"raid10\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]"),
    ("four_far", "layout = \"raid10\"\narrangement = \"far\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]"),
    ("four_offset", "layout = \"raid10\"\narrangement = \"offset\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]"),
    ("four_5", "layout = \"raid5\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]"),
    ("four_lvm_10", "layout = \"raid10\"\nbacking = \"lvm\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]"),
    ("four_lvm_5", "layout = \"raid5\"\nbacking = \"lvm\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]"),
    ("four_lvm_mirror", "layout = \"mirror\"\nbacking = \"lvm\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]"),
    (
        "nested",
        "layout = \"stripe\"\nmembers = [{ layout = \"mirror\", members = [\"a\", \"b\"] }, { layout = \"mirror\", members = [\"c\", \"d\"] }]\n\
         filesystem = \"ext4\"",
    ),
    (
        "nested_chunks",
        "layout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [{ layout = \"mirror\", members = [\"a\", \"b\"] }, { layout = \"mirror\", members = [\"c\", \"d\"] }]\n\
         filesystem = \"ext4\"",
    ),
];

/// Functions of the guests' scripts. What is written to `/` is the guest's own.
const PREPARE: &str = r#"
exec 2>&1 3>&1
export PATH=/usr/local/bin:EBB:$PATH HOME=/run/home
modprobe -a raid0 raid1 raid10 raid456 dm-mod dm-raid dm-crypt ext4 xfs
mkdir -p /dev/disk/by-id /etc/mdadm /etc/udev/rules.d /run/home /data
for d in a b c d; do ln -s /dev/ubd$d /dev/disk/by-id/t-$d; done
printf 'AUTO -all\n' >/etc/mdadm/mdadm.conf
rm -rf /var/lib/ebbtide
: >/etc/fstab
head -c 32 /dev/urandom >/run/key
go() { case=$1; shift; status=0; "$@" >/run/said 2>&1 || status=$?; echo "CASE $case status $status $(tr '\n' ' ' </run/said)"; }
apply() { design=$1; shift; at=/data; case $design in raw*|four*) at= ;; esac; ebb apply /share/$design.toml --name data ${at:+--mount $at} "$@"; }
undo() { ebb undo data "$@"; }
# Stops everything, whatever it is, and gives members back as new.
off() { umount /data; cryptsetup close data; vgchange -qan; for md in data data_1 data_2; do
    patiently stopped $md # udev may look at it still
done; udevadm settle; } >/dev/null 2>&1 # or it takes away the name of the next array
stopped() { [ ! -e /dev/md/$1 ] || mdadm -q --stop /dev/md/$1; }
fresh() { off; for d in a b c d; do blkdiscard -f /dev/ubd$d || dd if=/dev/zero of=/dev/ubd$d bs=1M; done 2>/dev/null; rm -rf /var/lib/ebbtide /etc/crypttab; : >/etc/fstab; }
# Waits until a command succeeds, for three minutes at most.
patiently() {
    tries=0
    until "$@"; do
        [ $((tries += 1)) -lt 1800 ] || { { echo "waited in vain for: $*"; cat /proc/mdstat; } >&3; exit 1; }
        sleep 0.1
    done
}
is_synced() { [ "$(cd /sys/block/md*/md && cat resync_start degraded sync_action | tr '\n' ' ')" = "none 0 idle " ]; }
lvm_synced() { [ "$(lvs --noheadings -o sync_percent data/data | tr -d ' ')" = 100.00 ]; }
synced() { patiently is_synced; }
gone() { patiently mdadm -q --stop /dev/md/$1; }
rows() { yes 'PRECIOUS ROW' | dd of=$1 bs=1M count=3 iflag=fullblock conv=fsync status=none; }
count() { grep -a -c 'PRECIOUS ROW' $1; }
md() { mdadm -q --assemble /dev/md/data /dev/ubda /dev/ubdb; udevadm settle; }
"#;

/// What `script` says of each case in a guest with four disks.
pub fn told(script: &str) -> Vec<(String, String)> {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let share = place.path().join("share");
    std::fs::create_dir(&share).unwrap();
    for (name, design) in DESIGNS {
        let mut text = "name = \"e\"\n".to_owned();
        for volume in ["a", "b", "c", "d"] {
            writeln!(
                text,
                "[volumes.{volume}]\ndevice = \"/dev/disk/by-id/t-{volume}\"\nid = \"t-{volume}\""
            )
            .unwrap();
        }
        write!(text, "[designs.d]\n{design}\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n").unwrap();
        std::fs::write(share.join(format!("{name}.toml")), text).unwrap();
    }
    let disks: Vec<_> = ["a", "b", "c", "d"].map(|name| place.path().join(name)).into();
    for disk in &disks {
        std::fs::File::create(disk).unwrap().set_len(40 << 20).unwrap();
    }
    let ebb = std::path::Path::new(env!("CARGO_BIN_EXE_ebb")).parent().unwrap();
    let prepare = PREPARE.replace("EBB", ebb.to_str().unwrap());
    let script = format!("{prepare}{QUICK_KEYS}{script}\necho all\n");
    let lab = ebbtide_runner::places::lab().unwrap();
    let kernel = Kernel::ready(&lab, &mut |text| eprintln!("{text}")).unwrap();
    let guest = Guest { script, disks, share: Some(share), memory_mib: 800, udev: true };
    let said = guest.run(&kernel, Duration::from_secs(1800)).unwrap().output;
    eprintln!("{said}");
    cases(&said)
}

const UNKNOWN: &str = "data of an unknown kind";
/// As many lines as [`PREPARE`] writes.
const ROWS: &str = "241979";

#[test]
fn data_without_a_signature_are_asked_for_before_they_are_written_over() {
    let script = r#"
raw() { # name, design, device, how to start it
    fresh; apply raw_$2 >/dev/null; rows $3; undo >/dev/null
    go $1-refused apply $2; go $1-undone undo --destroy; $4 >/dev/null; go $1-kept count $3
    go $1-destroyed apply $2 --destroy; go $1-gone undo --destroy; go $1-blank wipefs /dev/ubda /dev/ubdb
}
open() { md; cryptsetup open --key-file /run/key /dev/md/data data; }
raw md stripe /dev/md/data md
raw lvm striped /dev/data/data 'vgchange -qay'
raw luks luks /dev/mapper/data open
# What members have between their ends does not count in what is made of them now.
fill() { for d in a b; do for at in 17 33 49; do dd if=/dev/urandom of=/dev/ubd$d bs=64K seek=$at count=14 conv=notrunc status=none; done; done; }
fresh; fill; go leftovers apply mirror; go leftovers-undone undo --destroy
# Killed when the array is there, and nothing is on it.
cut() { # design, its device; begins with what was found before
    fresh; eval "n=\${n_$1:-0}"; "${3:-true}"
    while EBB_TEST_HALT=$n apply $1 >/dev/null; [ $? = 137 ]; do
        if [ "$(blockdev --getsize64 $2 2>/dev/null)" -gt 0 ] 2>/dev/null && ! blkid -p $2 >/dev/null; then eval "n_$1=$n"; return; fi
        n=$((n + 1))
    done
    echo "CASE $1-uncut status 1 $n"
}
for case in 'stripe /dev/md/data' 'luks /dev/mapper/data' 'linear /dev/data/data'; do
    set -- $case
    cut $1 $2; go cut-$1-blank apply $1
    cut $1 $2; rows $2;  go cut-$1-rows apply $1; go cut-$1-kept count $2; go cut-$1-undone undo --destroy
done
cut mirror /dev/md/data fill; go cut-fill apply mirror; go cut-fill-destroyed apply mirror --destroy
"#;
    let told = told(script);
    for name in ["md", "lvm", "luks"] {
        let case = |end: &str| format!("{name}-{end}");
        check(
            &told,
            &[
                (&case("refused"), "1", UNKNOWN),
                (&case("undone"), "0", "left alone: "),
                (&case("kept"), "0", ROWS),
                (&case("destroyed"), "0", "applied"),
                (&case("gone"), "0", "taken away"),
                (&case("blank"), "0", ""),
            ],
        );
    }
    check(&told, &[("leftovers", "0", "applied"), ("leftovers-undone", "0", "taken away")]);
    check(&told, &[("cut-fill", "1", UNKNOWN), ("cut-fill-destroyed", "0", "applied")]);
    for name in ["stripe", "luks", "linear"] {
        let case = |end: &str| format!("cut-{name}-{end}");
        check(
            &told,
            &[
                (&case("blank"), "0", "applied"),
                (&case("rows"), "1", UNKNOWN),
                (&case("kept"), "0", ROWS),
                (&case("undone"), "0", UNKNOWN),
            ],
        );
    }
    assert!(!told.iter().any(|(case, _)| case.ends_with("uncut")), "{told:?}");
}

#[test]
fn an_undo_looks_at_what_is_on_what_does_not_run() {
    let script = r#"
theirs() { # design, device, how to start it
    fresh; apply $1 >/dev/null; umount /data; mkfs.ext4 -q -F -L theirs $2; off
    go $1-plan undo --destroy --dry-run; go $1-undone undo --destroy; $3 >/dev/null; go $1-kept blkid -p $2
    fresh; apply $1 >/dev/null; off; go $1-own undo --destroy; go $1-blank wipefs /dev/ubda /dev/ubdb; go $1-again apply $1
}
open() { md; cryptsetup open --key-file /run/key /dev/md/data data; }
fresh; apply ten >/dev/null; head -c 20M /dev/urandom >/data/file; sync; undo --destroy >/dev/null; go again apply ten
theirs stripe /dev/md/data md
theirs striped /dev/data/data 'vgchange -qay'
theirs luks /dev/mapper/data open
# Half of it is away.
fresh; apply stripe >/dev/null; undo >/dev/null; mv /dev/disk/by-id/t-b /run; ln -s /dev/ubdc /dev/disk/by-id/t-b
go half-apply apply stripe; go half-apply-again apply stripe; undo >/dev/null; mv /run/t-b /dev/disk/by-id
fresh; apply stripe >/dev/null; off; rm /dev/disk/by-id/t-b
go half-undone undo --destroy; go half-kept mdadm --examine --export /dev/ubda; ln -s /dev/ubdb /dev/disk/by-id/t-b
fresh; apply nested >/dev/null; echo kept >/data/file; off; mv /dev/disk/by-id/t-a /dev/disk/by-id/t-b /run
go nested-undone undo --destroy; mv /run/t-a /run/t-b /dev/disk/by-id; off; apply nested >/dev/null; go nested-kept cat /data/file
# An undo that is killed anywhere ends.
for n in $(seq 0 2 30); do
    fresh; apply stripe >/dev/null; EBB_TEST_HALT=$n undo --destroy >/dev/null; [ $? = 137 ] || break
    [ -e /var/lib/ebbtide/apply/data.json ] || continue
    off; undo --destroy >/run/again; if grep -q left /run/again || [ -n "$(wipefs /dev/ubda /dev/ubdb)" ]; then go killed-$n cat /run/again; fi
done
go killed echo $n
"#;
    let told = told(script);
    for name in ["stripe", "striped", "luks"] {
        let case = |end: &str| format!("{name}-{end}");
        check(
            &told,
            &[
                (&case("plan"), "0", "is started first"),
                (&case("undone"), "0", "left alone: "),
                (&case("kept"), "0", "theirs"),
                (&case("own"), "0", "taken away"),
                (&case("blank"), "0", ""),
                (&case("again"), "0", "applied"),
            ],
        );
        assert!(!told.iter().any(|(is, said)| *is == case("own") && said.contains("left")), "{told:?}");
    }
    check(&told, &[("again", "0", "applied")]);
    let apart = "is not started: volume b is missing";
    check(&told, &[("half-apply", "1", apart), ("half-apply-again", "1", apart)]);
    check(&told, &[("half-undone", "0", "does not start"), ("half-kept", "0", "MD_LEVEL=raid0")]);
    check(&told, &[("nested-undone", "0", "left alone: "), ("nested-kept", "0", "kept")]);
    assert!(!told.iter().any(|(case, _)| case.starts_with("killed-")), "{told:?}");
}

#[test]
fn an_array_of_another_design_is_not_taken_for_the_one_that_is_wanted() {
    let script = r#"
other() { fresh; apply $2 >/dev/null; echo kept >/data/file; undo >/dev/null; go $1-other apply $3; go $1-dry apply $3 --dry-run; undo >/dev/null; go $1-own apply $2; go $1-kept cat /data/file; }
other level stripe mirror
other chunk stripe chunks
other type stripe stripe_xfs
other segment linear striped
other nested nested nested_chunks
go nested-undone undo --destroy; go nested-blank wipefs /dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd
for design in $(cd /share; ls four_* | sed 's/.toml//'); do
    fresh; go $design-new apply $design; undo >/dev/null; go $design-again apply $design; go $design-undone undo --destroy
done
"#;
    let told = told(script);
    for (name, words) in [
        ("level", "its raid level is raid0, and the design wants raid1"),
        ("chunk", "its chunk size is 512K, and the design wants 64K"),
        ("type", "carries ext4 with the label"),
        ("segment", "its segment type is linear, and the design wants striped"),
        ("nested", "its chunk size is 512K, and the design wants 64K"),
    ] {
        let case = |end: &str| format!("{name}-{end}");
        check(
            &told,
            &[(&case("other"), "1", words), (&case("own"), "0", "applied"), (&case("kept"), "0", "kept")],
        );
    }
    check(&told, &[("nested-undone", "0", "taken away"), ("nested-blank", "0", "")]);
    for (name, _) in DESIGNS.iter().filter(|(name, _)| name.starts_with("four")) {
        let case = |end: &str| format!("{name}-{end}");
        check(
            &told,
            &[
                (&case("new"), "0", "applied"),
                (&case("again"), "0", "applied"),
                (&case("undone"), "0", "taken away"),
            ],
        );
    }
}
