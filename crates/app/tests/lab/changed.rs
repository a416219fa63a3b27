//! `ebb apply`, `ebb status` and `ebb undo` where something is not as it was: members that are missing or somebody's, mappings of somebody's.
//! Files of the host's that are links, records that another user may have written. With real md and dm-crypt (User-Mode Linux).

use super::cases::check;
use super::kept::told;

#[test]
fn an_array_that_lacks_a_member_is_started_where_somebody_says_so() {
    let script = r#"
away() { rm /dev/disk/by-id/t-$1; }
back() { ln -s /dev/ubd$1 /dev/disk/by-id/t-$1; }
advised() { sed -n "s/.*$1: \`\(mdadm [^\`]*\)\`.*/\1/p" /run/said; }
say() { echo "CASE $1 status 0 $2"; }
arrays() { grep -c '^md' /proc/mdstat; true; }
fresh; apply mirror >/dev/null; mdadm --wait /dev/md/data >/dev/null; echo kept >/data/file; off; away b
go dry apply mirror --dry-run; go missing apply mirror; run=$(advised 'Or go on without'); say arrays "$(arrays)"
$run; go run apply mirror; go run-kept cat /data/file
# It knows by now that it goes on without.
off; go known apply mirror; go known-kept cat /data/file
back b; go own ebb status; $(advised 'to do: volume b'); mdadm --wait /dev/md/data >/dev/null; go own-back ebb status
mdadm -q /dev/md/data --fail /dev/ubdb --remove /dev/ubdb; mdadm -q --zero-superblock /dev/ubdb; mkfs.ext4 -q -F -L theirs /dev/ubdb; go foreign ebb status
wipefs -qaf /dev/ubdb; dd if=/dev/zero of=/dev/ubdb bs=1M status=none; go blank ebb status
$(advised 'to do: volume b'); mdadm --wait /dev/md/data >/dev/null; go whole ebb status
off; wipefs -qaf /dev/ubda; dd if=/dev/zero of=/dev/ubda bs=1M status=none; go erased apply mirror
off; mdadm -q --zero-superblock /dev/ubdb; mdadm -q --create /dev/md/theirs --run --level=1 --raid-devices=2 /dev/ubda /dev/ubdb
go theirs ebb status; mdadm -q --stop /dev/md/theirs
fresh; apply mirror >/dev/null; mdadm --wait /dev/md/data >/dev/null; undo >/dev/null; away a; go undone apply mirror; back a; go undone-back apply mirror
fresh; apply four_5 >/dev/null; mdadm --wait /dev/md/data >/dev/null; off; away c; go parity apply four_5; $(advised 'Or go on without'); go parity-run apply four_5
off; away d; go parity-two apply four_5; back c; back d
fresh; apply stripe >/dev/null; off; away b; go stripe apply stripe; back b; go stripe-back apply stripe
fresh; apply nested >/dev/null; mdadm --wait /dev/md/data_1 >/dev/null; off; away b; go nested apply nested; back b; go nested-back apply nested
"#;
    let told = told(script);
    let missing = "/dev/md/data is not started: volume b is missing (there is no /dev/disk/by-id/t-b). Bring it back and run this again. \
                   Or go on without: `mdadm --assemble --run /dev/md/data --uuid=";
    check(
        &told,
        &[
            ("dry", "1", missing),
            ("missing", "1", missing),
            ("arrays", "0", "0"),
            ("run", "1", "to do: volume b: there is no /dev/disk/by-id/t-b; connect it again"),
            ("run-kept", "0", "kept"),
            ("known", "1", "mdadm --assemble /dev/md/data"),
            ("known-kept", "0", "kept"),
            ("own", "1", "to do: volume b: `mdadm /dev/md/data --add /dev/disk/by-id/t-b`"),
            ("own-back", "0", "data: healthy"),
            (
                "foreign",
                "1",
                "to do: volume b: /dev/disk/by-id/t-b carries ext4 with the label theirs, and nothing of /dev/md/data",
            ),
            ("blank", "1", "to do: volume b: `mdadm /dev/md/data --add /dev/disk/by-id/t-b`"),
            ("whole", "0", "data: healthy"),
            ("erased", "1", "volume a is missing (/dev/disk/by-id/t-a is blank)"),
            ("theirs", "1", "unused"),
            ("undone", "1", "volume a is missing (there is no /dev/disk/by-id/t-a)"),
            ("undone-back", "0", "applied"),
            ("parity", "1", "volume c is missing"),
            ("parity-run", "1", "to do: volume c"),
            ("parity-two", "1", "volume d is missing"),
            (
                "stripe",
                "1",
                "volume b is missing (there is no /dev/disk/by-id/t-b). Bring it back and run this again. Or take data out",
            ),
            ("stripe-back", "0", "applied"),
            ("nested", "1", "/dev/md/data_1 is not started: volume b is missing"),
            ("nested-back", "0", "applied"),
        ],
    );
}

#[test]
fn what_is_not_as_it_was_is_told_before_anything_is_taken_away() {
    let script = r#"
echo other >/run/other
fresh; apply luks >/dev/null; umount /data; cryptsetup close data
cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /run/other /dev/ubdc
cryptsetup open --key-file /run/other /dev/ubdc data; mkfs.ext4 -q -L theirs /dev/mapper/data
go mapping ebb status; go mapping-apply apply luks; go mapping-dry undo --dry-run; go mapping-destroy undo --destroy; go mapping-undo undo
go mapping-kept blkid -p /dev/mapper/data; cryptsetup close data; go mapping-again apply luks
for file in /etc/fstab /etc/mdadm/mdadm.conf /etc/crypttab; do
    n=${file##*/}; fresh; apply luks >/dev/null; mv $file /run/real; ln -s /run/real $file
    go $n ebb status; go $n-apply apply luks; go $n-dry undo --dry-run; go $n-undo undo; go $n-mounted mountpoint /data
    rm $file; mv /run/real $file; go $n-away undo --destroy
done
fresh; apply mirror >/dev/null; place=/var/lib/ebbtide/apply
chmod 777 $place; go open ebb status; go open-undo undo; chmod 700 $place
chown 4711 $place/data.json; go given ebb status; go given-undo undo; go given-apply apply mirror; chown 0 $place/data.json
go unknown ebb status nosuch; go unknown-undo ebb undo nosuch; go unknown-dry ebb undo nosuch --dry-run; go unknown-attached ebb undo nosuch --kind attached; go unknown-export ebb undo nosuch --kind export
sed -i 's|ebbtide.apply/1|ebbtide.apply/2|' $place/data.json; go newer undo; sed -i 's|ebbtide.apply/2|ebbtide.apply/1|' $place/data.json
go records-mounted mountpoint /data; go records-away undo --destroy
"#;
    let told = told(script);
    let other = "/dev/mapper/data is a mapping of somebody's: ";
    let mut wanted = vec![
        ("mapping", "1", other),
        ("mapping-apply", "1", other),
        ("mapping-dry", "0", other),
        ("mapping-destroy", "1", other),
        ("mapping-undo", "0", "left alone: /dev/mapper/data"),
        ("mapping-kept", "0", "theirs"),
        ("mapping-again", "0", "applied"),
        ("open", "1", "`chmod go-w /var/lib/ebbtide/apply`"),
        ("open-undo", "1", "`chmod go-w /var/lib/ebbtide/apply`"),
        ("given", "1", "`chown root: /var/lib/ebbtide/apply/data.json`"),
        ("given-undo", "1", "belongs to the user 4711"),
        ("given-apply", "1", "belongs to the user 4711"),
        ("unknown", "1", "there is no nosuch"),
        ("unknown-undo", "1", "there is no nosuch"),
        ("unknown-dry", "1", "there is no nosuch"),
        ("unknown-attached", "1", "there is no nosuch"),
        ("unknown-export", "1", "there is no nosuch"),
        ("newer", "1", "it was written by a newer ebb"),
        ("records-mounted", "0", "is a mountpoint"),
        ("records-away", "0", "taken away"),
    ];
    let cases: Vec<[String; 6]> = ["fstab", "mdadm.conf", "crypttab"]
        .map(|name| ["", "-apply", "-dry", "-undo", "-mounted", "-away"].map(|end| format!("{name}{end}")))
        .into();
    for [status, apply, dry, undo, mounted, away] in &cases {
        let link = "it is a symbolic link to /run/real";
        wanted.extend([status, apply, dry, undo].map(|case| (case.as_str(), "1", link)));
        wanted.push((mounted, "0", "is a mountpoint"));
        wanted.push((away, "0", "taken away"));
    }
    check(&told, &wanted);
}

#[test]
fn what_has_our_identity_or_name_on_other_devices_is_left_to_whom_it_belongs() {
    let script = r#"
advised() { sed -n "s/.*$1: \`\([^\`]*\)\`.*/\1/p" /run/said; }
# mdadm's own wait ends at once where what it is to wait for has not begun.
whole() { apply mirror >/dev/null; synced; }
closed() { ! cryptsetup status data; }
fresh; whole; echo kept >/data/file; off; cat /dev/ubda >/dev/ubdc; cat /dev/ubdb >/dev/ubdd
mdadm -q --assemble --run /dev/md/data /dev/ubdc /dev/ubdd; udevadm settle; mount /dev/md/data /data
go copy ebb status; go copy-apply apply mirror --destroy; go copy-undo undo --destroy; go copy-kept cat /data/file; go copy-again apply mirror --destroy
off; for d in a b c d; do go copy-$d mdadm --examine /dev/ubd$d; done
fresh; whole; mdadm -q /dev/md/data --add /dev/ubdc; mdadm -q --grow /dev/md/data --raid-devices=3; synced
go grown ebb status; go grown-apply apply mirror
mdadm -q /dev/md/data --fail /dev/ubdc; patiently mdadm -q /dev/md/data --remove /dev/ubdc; mdadm -q --grow /dev/md/data --raid-devices=2; go grown-back ebb status
mdadm -q --zero-superblock /dev/ubdc; mdadm -q /dev/md/data --add /dev/ubdc; mdadm -q /dev/md/data --replace /dev/ubdb; sleep 0.2; mdadm --wait /dev/md/data >/dev/null
patiently mdadm -q /dev/md/data --remove /dev/ubdb
go moved ebb status; go moved-undo undo --destroy; go moved-mounted mountpoint /data; go moved-stands mdadm --detail /dev/md/data
fresh; apply striped >/dev/null; echo kept >/data/file; umount /data; vgrename -q data old
pvcreate -qq -y /dev/ubdc; vgcreate -qq data /dev/ubdc; lvcreate -qq -y -l 5 -n data data; mkfs.ext4 -q -L theirs /dev/data/data; mount /dev/data/data /data
go group ebb status; go group-apply apply striped --destroy; go group-undo undo --destroy; go group-mounted mountpoint /data; umount /data
go group-new apply striped; go group-destroy apply striped --destroy; go group-kept blkid -p /dev/data/data
vgremove -qq -ff -y data; go group-called apply striped; vgrename -q old data; go group-back apply striped; go group-file cat /data/file
lvreduce -qq -f -y -l -4 data/data; lvcreate -qq -y -s -l 4 -n snap data/data; go snapshot undo --destroy; go snapshot-mounted mountpoint /data; go snapshot-apply apply striped
fresh; whole; off
alone() { mdadm -q --assemble --run /dev/md/alone /dev/ubd$1; udevadm settle; mount /dev/md/alone /mnt; echo $1 >/mnt/alone; umount /mnt; gone alone; }
alone a; alone b; go split apply mirror; run=$(advised 'To go on with one of them'); go split-none cat /proc/mdstat; $run; go split-run apply mirror
look=$(sed -n "s/.*, \`\(mdadm --assemble --readonly [^\`]*\)\`.*/\1/p" /run/said); go split-kept cat /data/alone; undo >/dev/null
$look; mount -o ro,noload /dev/md/apart /mnt; go split-look cat /mnt/alone; umount /mnt; gone apart; go split-again apply mirror
fresh; apply luks >/dev/null; label=$(blkid -s LABEL -o value /dev/md/data); umount /data; cryptsetup close data
cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --label $label --key-file /run/key /dev/md/data
cryptsetup open --key-file /run/key /dev/md/data mine; mkfs.ext4 -q -L theirs /dev/mapper/mine
go header ebb status; go header-busy undo --destroy; go header-apply apply luks; cryptsetup close mine; go header-undo undo --destroy; go header-closed closed
go header-again apply luks; go header-closed-again closed; cryptsetup open --key-file /run/key /dev/md/data mine; go header-kept blkid -p /dev/mapper/mine; cryptsetup close mine
fresh; whole; mount --bind /data /mnt; go bound undo; go bound-mounted mountpoint /data; umount /mnt; go bound-apply apply mirror
umount /data; e2fsck -fp /dev/md/data >/dev/null; tune2fs -U random /dev/md/data >/dev/null; mount /dev/md/data /data; go uuid ebb status; umount /data
sed -n "s/.*\`\(e2fsck -fp [^\`]*\)\`.*/\1/p" /run/said >/run/advice; sh /run/advice >/dev/null; go uuid-back apply mirror; go uuid-healthy ebb status
"#;
    let told = told(script);
    let copy = "stands on /dev/ubdc, /dev/ubdd: copies of its members, which the design does not name";
    let group = "the volume group data stands on /dev/ubdc, which the design does not name; the volume group on /dev/ubda, /dev/ubdb is called old now (`vgrename old data`)";
    let apart = "were both run without the other, and neither has all";
    let header = "/dev/md/data carries crypto_LUKS with the label ";
    let wanted = [
        ("copy", "1", copy),
        ("copy-apply", "1", copy),
        ("copy-undo", "0", copy),
        ("copy-kept", "0", "kept"),
        ("copy-again", "1", copy),
        ("copy-a", "0", "Array UUID"),
        ("copy-b", "0", "Array UUID"),
        ("copy-c", "0", "Array UUID"),
        ("copy-d", "0", "Array UUID"),
        ("grown", "1", "data: drifted (/dev/md/data on /data, persistent; 1 more member may fail)"),
        ("grown-apply", "1", "`mdadm --grow /dev/md/data --raid-devices=2` make it what it was"),
        ("grown-back", "0", "data: healthy"),
        ("moved", "1", "data: drifted (/dev/md/data on /data, persistent; its data are on other devices)"),
        ("moved-undo", "0", "stands on /dev/ubdc, which the design does not name"),
        ("moved-mounted", "0", "is a mountpoint"),
        ("moved-stands", "0", "/dev/ubdc"),
        ("group", "1", group),
        ("group-apply", "1", group),
        ("group-undo", "0", group),
        ("group-mounted", "0", "is a mountpoint"),
        ("group-new", "1", group),
        ("group-destroy", "1", group),
        ("group-kept", "0", "theirs"),
        ("group-called", "1", "the volume group on /dev/ubda, /dev/ubdb is called old now"),
        ("group-back", "0", "applied"),
        ("group-file", "0", "kept"),
        ("snapshot", "1", "data/snap is a snapshot of it"),
        ("snapshot-mounted", "0", "is a mountpoint"),
        ("snapshot-apply", "0", "nothing to do"),
        ("split", "1", apart),
        ("split-none", "0", "unused devices"),
        ("split-run", "1", "it was run without the members in use"),
        ("split-kept", "0", "b"),
        ("split-look", "0", "a"),
        ("split-again", "1", apart),
        ("header", "1", header),
        ("header-busy", "1", "/dev/mapper/mine stands on it"),
        ("header-apply", "1", header),
        ("header-undo", "0", header),
        ("header-closed", "0", ""),
        ("header-again", "1", header),
        ("header-closed-again", "0", ""),
        ("header-kept", "0", "theirs"),
        ("bound", "1", "it is mounted on /mnt"),
        ("bound-mounted", "0", "is a mountpoint"),
        ("bound-apply", "0", "nothing to do"),
        ("uuid", "1", "data: drifted"),
        ("uuid-back", "0", "applied"),
        ("uuid-healthy", "0", "data: healthy"),
    ];
    check(&told, &wanted);
    assert!(
        !told.iter().any(|(case, said)| case.starts_with("split") && said.contains("--re-add")),
        "{told:?}"
    );
}

#[test]
fn members_that_are_in_use_elsewhere_by_now_or_gone_are_told_and_kept() {
    let script = r#"
# What is written beside a superblock outlives it: a table of partitions, and a loader before the first of them.
fresh; apply mirror >/dev/null; synced; off; echo 2048,,83 | sfdisk -q /dev/ubda; printf 'PRECIOUS ROW' | dd of=/dev/ubda bs=512 seek=64 conv=notrunc,fsync status=none
go gap ebb status; go gap-apply apply mirror --destroy; cp /run/said /run/gap-apply; go gap-undo undo --destroy; go gap-kept grep -a -c 'PRECIOUS ROW' /dev/ubda; go gap-table wipefs /dev/ubda; go gap-b wipefs /dev/ubdb
advice=$(sed -n "s/.*If nobody does, \`\(dd [^\`]*\)\`.*/\1/p" /run/gap-apply); $advice status=none; go gap-back apply mirror; synced; go gap-gone undo --destroy; go gap-blank wipefs /dev/ubda /dev/ubdb
fresh; apply striped >/dev/null; umount /data; vgchange -qan data; wipefs -qaf /dev/ubdb; go erased ebb status; go erased-apply apply striped; go erased-undo undo --destroy;
fresh; apply four_lvm_mirror >/dev/null; patiently lvm_synced; lvconvert -qq -y -m 2 data/data /dev/ubdd; vgreduce -qq data /dev/ubdd; vgcreate -qq mine /dev/ubdd
go taken ebb status; go taken-undo undo --destroy; go taken-kept echo $(vgs --noheadings -o vg_name); vgremove -qq mine
"#;
    let told = told(script);
    let front = "/dev/disk/by-id/t-a has something in front of the superblock of /dev/md/data, as a partition table is";
    let taken = "/dev/disk/by-id/t-d belongs to the volume group mine now, which is another";
    check(
        &told,
        &[
            ("gap", "1", front),
            ("gap-apply", "1", front),
            ("gap-undo", "0", front),
            ("gap-kept", "0", "1"),
            ("gap-table", "0", "dos"),
            ("gap-b", "0", "linux_raid_member"),
            ("gap-back", "0", "applied"),
            ("gap-blank", "0", ""),
            ("erased", "1", "/dev/disk/by-id/t-b is not the physical volume of LVM that was made"),
            ("erased-apply", "1", "is gone; a persistent array is never made or formatted twice"),
            ("erased-undo", "0", "/dev/data/data does not start, so that what is on it cannot be looked at"),
            ("taken", "1", taken),
            ("taken-undo", "0", taken),
            ("taken-kept", "0", "data mine"),
        ],
    );
    assert!(told.iter().any(|(case, said)| case == "gap-blank" && said.trim() == "0"), "{told:#?}");
}
