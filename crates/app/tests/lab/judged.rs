//! What `ebb status` and `ebb undo` judge before anything is taken away. With real md and file systems (User-Mode Linux).

use super::cases::check;
use super::kept::told;

#[test]
fn a_stopped_array_of_each_format_of_md_is_started_with_what_it_carries() {
    let script = r#"
for design in mirror mirror_11; do
    fresh; apply $design >/dev/null; echo kept >/data/file; off
    go $design-status ebb status; go $design-apply apply $design; go $design-kept cat /data/file
done
"#;
    let told = told(script);
    for design in ["mirror", "mirror_11"] {
        let case = |end: &str| format!("{design}-{end}");
        check(
            &told,
            &[
                (&case("status"), "1", "drift: the array /dev/md/data is not running"),
                (&case("apply"), "0", "applied"),
                (&case("kept"), "0", "kept"),
            ],
        );
    }
    assert!(!told.iter().any(|(_, said)| said.contains("/dev/zero")), "{told:?}");
}

#[test]
fn what_stands_against_an_undo_is_told_before_its_first_step() {
    let script = r#"
synced() { until [ "$(cd /sys/block/md*/md && cat resync_start degraded sync_action | tr '\n' ' ')" = "none 0 idle " ]; do sleep 0.1; done; }
lines() { grep -c '^UUID=.* /data ' /etc/fstab; }
fresh; apply mirror >/dev/null; fsfreeze -f /data
go frozen ebb status; go frozen-dry undo --dry-run; go frozen-undo undo; go frozen-mounted mountpoint /data; go frozen-lines lines
fsfreeze -u /data; go thawed ebb status
# Under another name, where it is in use.
umount /data; mdadm -q --stop /dev/md/data; mdadm -q --assemble /dev/md/other /dev/ubda /dev/ubdb; mount /dev/md/other /mnt
go other ebb status; go other-undo undo --destroy; go other-lines lines; umount /mnt; go other-apply apply mirror
fresh; apply linear >/dev/null; umount /data; e2fsck -fp /dev/data/data >/dev/null; resize2fs /dev/data/data 16M >/dev/null; lvresize -qq -f -y -L 16M data/data
lvcreate -qq -y -s -l 2 -n snap data/data; mount /dev/data/data /data; lvconvert -qq -y --merge data/snap
go merge ebb status; go merge-undo undo --destroy; go merge-mounted mountpoint /data; umount /data; vgremove -qq -ff -y data
fresh; apply luks >/dev/null; dmsetup suspend data; go suspended ebb status; go suspended-undo undo; go suspended-apply apply luks; dmsetup resume data; go resumed ebb status
"#;
    let told = told(script);
    let frozen = "/data is frozen, as by `fsfreeze -f`";
    let suspended = "/dev/mapper/data is suspended: whoever uses it waits";
    check(
        &told,
        &[
            ("frozen", "1", frozen),
            ("frozen-dry", "1", frozen),
            ("frozen-undo", "1", frozen),
            ("frozen-mounted", "0", "is a mountpoint"),
            ("frozen-lines", "0", "1"),
            ("thawed", "0", "data: healthy"),
            ("other", "1", "and not /dev/md/data: `ebb apply` gives it its name when nothing uses it"),
            ("other-undo", "1", "is mounted on /mnt"),
            ("other-lines", "0", "1"),
            ("other-apply", "0", "applied"),
            ("merge", "0", "data: healthy"),
            ("merge-undo", "1", "data/[snap] is to be merged into it"),
            ("merge-mounted", "0", "is a mountpoint"),
            ("suspended", "1", suspended),
            ("suspended-undo", "1", suspended),
            ("suspended-apply", "1", suspended),
            ("resumed", "0", "data: healthy"),
        ],
    );
}

#[test]
fn halves_of_which_one_runs_are_neither_lost_nor_erased() {
    let script = r#"
advised() { sed -n "s/.*$1: \`\(mdadm [^\`]*\)\`.*/\1/p" /run/said; }
stop() { until mdadm -q --stop /dev/md/$1; do sleep 0.1; done; }
synced() { until [ "$(cd /sys/block/md*/md && cat resync_start degraded sync_action | tr '\n' ' ')" = "none 0 idle " ]; do sleep 0.1; done; }
half() { mdadm -q --assemble --run /dev/md/$1 $2 $3; mount $4 /dev/md/$1 $5; }
fresh; apply ten >/dev/null; synced; off
half other /dev/ubdb /dev/ubdd '' /mnt; echo b >/mnt/alone; umount /mnt; stop other
half data /dev/ubda /dev/ubdc '' /data; echo a >/data/alone
go half ebb status; go half-dry undo --destroy --dry-run; go half-undo undo --destroy; look=$(advised 'See what each has'); $look
mount -o ro,noload /dev/md/apart /mnt; go half-kept cat /mnt/alone; umount /mnt; stop apart; go half-again apply ten
"#;
    let told = told(script);
    let apart = "were both run without the other, and neither has all";
    check(
        &told,
        &[
            ("half", "1", "data: degraded (/dev/md/data on /data, persistent; no member may fail)"),
            ("half-dry", "0", apart),
            ("half-undo", "0", apart),
            ("half-kept", "0", "b"),
            ("half-again", "1", apart),
        ],
    );
}
