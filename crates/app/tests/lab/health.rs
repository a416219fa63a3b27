//! What `ebb status` says of arrays that run and do not work: file systems that take no writes, members that do not answer, arrays that lost more
//! members than they can. With real md and device-mapper (User-Mode Linux).

use super::cases::check;
use super::kept::told;

#[test]
fn what_runs_and_does_not_work_is_told() {
    let script = r#"
export TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1
sectors() { blockdev --getsz /dev/ubd${1#v}; }
dm() { for d in a b; do dmsetup create v$d --table "0 $(sectors $d) linear /dev/ubd$d 0"; done; udevadm settle; }
later() { name=$1; shift; { s=0; "$@" >/run/$name 2>&1 || s=$?; echo $s >/run/$name.status; } & }
ended() { cat /run/$1; return $(cat /run/$1.status); }
bad() { dmsetup suspend --nolockfs $1; dmsetup load $1 --table "0 $(sectors $1) error"; dmsetup resume $1; }
fresh; apply mirror >/dev/null; mount -o remount,ro /data; go ro ebb status; mount -o remount,rw /data; go rw ebb status
undo >/dev/null; sed 's/^filesystem = .*/&\nmount_options = "ro"/' /share/mirror.toml >/run/ro.toml; ebb apply /run/ro.toml --name data --mount /data >/dev/null; go ro-wanted ebb status
umount /data; wipefs -qa /dev/md/data; dd if=/dev/urandom of=/dev/md/data bs=1M seek=4 count=1 status=none; go raw ebb status
fresh; apply stripe_xfs >/dev/null; xfs_io -x -c shutdown /data; go shut ebb status; umount /data; mount /data; go opened ebb status
fresh; apply four_5 >/dev/null; mdadm --wait /dev/md/data >/dev/null; rows /dev/md/data
mdadm -q /dev/md/data --fail /dev/ubda; mdadm -q /dev/md/data --fail /dev/ubdb; go lost ebb status
force=$(sed -n 's/.*`\(mdadm --assemble --force [^`]*\)`.*/\1/p' /run/said); mdadm -q --stop /dev/md/data; go dry apply four_5 --dry-run; go refused apply four_5; go forced $force; go forced-kept count /dev/md/data
fresh; sed 's/^layout = "mirror"/&\nbitmap = "internal"/' /share/mirror.toml >/run/bitmap.toml; bitmap() { ebb apply /run/bitmap.toml --name data --mount /data; }
bitmap >/dev/null; mdadm --wait /dev/md/data >/dev/null; undo --destroy >/dev/null; go blank bitmap; undo --destroy >/dev/null
fresh; dm; sed 's/"\(.*\)t-\([ab]\)"/"\1dm-name-v\2"/' /share/mirror.toml >/run/dm.toml; ebb apply /run/dm.toml --name data --mount /data >/dev/null; mdadm --wait /dev/md/data >/dev/null; dmsetup suspend va
later silent ebb status; later silent-apply ebb apply /run/dm.toml --name data --mount /data; later silent-dry ebb undo data --dry-run; later silent-undo ebb undo data
wait; for name in silent silent-apply silent-dry silent-undo; do go $name ended $name; done; dmsetup resume va; go answers ebb status
bad va; echo x >/data/x; sync; bad vb; echo y >/data/y; sync; sleep 1; cat /proc/mdstat /sys/block/md*/md/array_state; go broken ebb status
"#;
    check(
        &told(script),
        &[
            ("ro", "1", "/data takes no writes (ext4, ro)"),
            ("rw", "0", "data: healthy"),
            ("ro-wanted", "0", "data: healthy"),
            ("raw", "1", "/dev/md/data no longer carries what `ebb apply` made on it"),
            ("shut", "1", "xfs has shut down"),
            ("opened", "0", "data: healthy"),
            ("lost", "1", "`mdadm --stop /dev/md/data` and `mdadm --assemble --force /dev/md/data --uuid="),
            ("dry", "1", "more than it can lose"),
            ("refused", "1", "more than it can lose"),
            ("forced", "0", ""),
            ("forced-kept", "0", "241979"),
            ("blank", "0", "applied"),
            ("silent", "1", "/dev/disk/by-id/dm-name-va does not answer"),
            (
                "silent-apply",
                "1",
                "/dev/disk/by-id/dm-name-va does not answer: a read of it takes longer than 30 s. Nothing was changed",
            ),
            ("silent-dry", "1", "/dev/disk/by-id/dm-name-va does not answer"),
            ("silent-undo", "1", "/dev/disk/by-id/dm-name-va does not answer"),
            ("answers", "0", "data: healthy"),
            ("broken", "1", "/dev/md/data is broken"),
        ],
    );
}
