//! Where file systems are mounted, and what is still mounted, asked of a real kernel (User-Mode Linux).

use super::cases::{cases, check};
use ebbtide_lab::uml::{Guest, Kernel};
use std::path::Path;
use std::time::Duration;

/// One volume, named as udev would name it.
const EXPERIMENT: &str = "name = \"e\"\n[volumes.v]\ndevice = \"/dev/disk/by-id/t-a\"\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
    filesystem = \"ext4\"\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";

/// Functions of the guest's scripts. `/etc` is the guest's own.
const PREPARE: &str = r#"
set -u
modprobe ext4; modprobe loop
mkdir -p /run/etc /dev/disk/by-id /run/home; cp -a /etc/. /run/etc; mount --bind /run/etc /etc
export HOME=/run/home
printf '# fstab\n' >/etc/fstab
ln -s /dev/ubda /dev/disk/by-id/t-a
mkdir -p /srv/t; cd /srv/t
go() { case=$1; shift; status=0; "$@" >said 2>&1 || status=$?; echo "CASE $case status $status $(cat said | tr '\n' ' ')"; }
blank() { [ -z "$(blkid -p /dev/ubda)" ] && echo "CASE $1-blank status 0 yes"; }
"#;

/// Runs `script` in a guest with one disk; the answer of every case, by its name.
fn told(script: &str, share: &Path) -> Vec<(String, String)> {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = place.path().join("a");
    std::fs::File::create(&disk).unwrap().set_len(48 << 20).unwrap();
    let lab = ebbtide_runner::places::lab().unwrap();
    let kernel = Kernel::ready(&lab, &mut |text| eprintln!("{text}")).unwrap();
    let script = format!("{PREPARE}ebb={}\n{script}\necho all\n", env!("CARGO_BIN_EXE_ebb"));
    let share = Some(share.to_owned());
    let guest = Guest { script, disks: vec![disk], share, memory_mib: 600, ..Guest::default() };
    let outcome = guest.run(&kernel, Duration::from_secs(600)).unwrap();
    cases(&outcome.output)
}

#[test]
fn an_apply_is_mounted_where_it_leads_and_refused_where_it_cannot_be() {
    let share = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(share.path().join("e.toml"), EXPERIMENT).unwrap();
    let script = r#"
apply() { name=$1 at=$2; go "$name-dry" $ebb apply /share/e.toml --name data --mount "$at" --dry-run; go "$name" $ebb apply /share/e.toml --name data --mount "$at"; blank "$name"; }
mkdir real full ro outer low; touch full/precious; ln -s nowhere dangling; touch file
apply full /srv/t/full
apply file /srv/t/file
apply dangling /srv/t/dangling/x
# A file of the host's that cannot be changed is found out before anything is formatted.
as() { rm -rf /etc/fstab; "$@"; }
latin() { printf '# caf\351\n' >/etc/fstab; }
long() { head -c 5000000 /dev/zero | tr '\0' '#' >/etc/fstab; }
for made in latin long 'mkdir /etc/fstab' 'mkfifo /etc/fstab' 'ln -s nowhere /etc/fstab'; do as $made; apply "${made%% *}" /srv/t/real/sub; done
rm -rf /etc/fstab; printf '# fstab\n' >/etc/fstab; chattr +i /etc/fstab && apply immutable /srv/t/real/sub; chattr -i /etc/fstab
mount --bind /etc/fstab /etc/fstab; apply bound /srv/t/real/sub; umount /etc/fstab
mount -o remount,ro,bind /etc; apply etc /srv/t/real/sub; mount -o remount,rw,bind /etc
printf '%s\n' '/dev/sdz /srv/t/my\040data xfs defaults 0 0' >>/etc/fstab
apply given '/srv/t/my data'
mount -t tmpfs none ro; mount -o remount,ro none ro
apply ro /srv/t/ro/new
mount -t tmpfs none outer
apply taken /srv/t/outer
echo '/dev/sdy /srv/t/low ext4 nofail 0 0' >>/etc/fstab
apply below /srv/t/low/new
# Through a link, it is mounted where that leads.
ln -s real link
go link $ebb apply /share/e.toml --name data --mount /srv/t/link/sub
go link-table grep -c ' /srv/t/real/sub ' /proc/self/mountinfo
go link-fstab grep -c ' /srv/t/real/sub ext4 ' /etc/fstab
go link-again $ebb apply /share/e.toml --name data --mount /srv/t/link/sub
echo kept >real/sub/file
go healthy $ebb status
# Nothing is forgotten that is mounted elsewhere, here or in another namespace.
mkdir also; mount --bind real/sub also
go also-dry $ebb undo data --dry-run
go also $ebb undo data
go also-kept cat also/file
umount also
go undone $ebb undo data
go undone-table grep ubda /proc/self/mountinfo
go anew $ebb apply /share/e.toml --name data --mount /srv/t/real/sub
go anew-kept cat real/sub/file
mount --make-private /run 2>/dev/null || mount --make-rprivate /
unshare -m --propagation private sleep 1000 & other=$!
until [ "$(readlink /proc/$other/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; do sleep 0.1; done
go namespace $ebb undo data
kill $other; wait $other 2>/dev/null
go namespace-undone $ebb undo data
# A mount that something covers is no healthy one.
go over-made $ebb apply /share/e.toml --name data --mount /srv/t/outer2/sub
mount -t tmpfs none outer2
go over-status $ebb status
go over-undo $ebb undo data
umount outer2
go over-undone $ebb undo data --destroy
# A signal ends the wait for a mount that is not to be seen: here nothing mounts. (A shell's background ignores SIGINT.)
dd if=/dev/zero of=/dev/ubda bs=1M conv=fsync status=none 2>/dev/null
mkdir /run/stub; printf '#!/bin/sh\ntouch /run/called\n' >/run/stub/mount; chmod +x /run/stub/mount
PATH=/run/stub:$PATH $ebb apply /share/e.toml --name data --mount /srv/t/never >said 2>&1 & apply=$!
until [ -e /run/called ] || ! kill -0 $apply; do sleep 0.1; done; kill $apply; status=0; wait $apply || status=$?
echo "CASE stopped status $status $(cat said | tr '\n' ' ')"; blank stopped
"#;
    let told = told(script, share.path());
    for name in ["latin", "long", "mkdir", "mkfifo", "ln", "immutable", "bound", "etc"] {
        check(&told, &[(&format!("{name}-blank"), "0", "yes")]);
        for name in [name.to_owned(), format!("{name}-dry")] {
            check(&told, &[(&name, "1", "/etc/fstab")]);
        }
    }
    for name in ["full", "file", "dangling", "given", "ro", "taken", "below"] {
        check(&told, &[(&format!("{name}-blank"), "0", "yes")]);
        for name in [name.to_owned(), format!("{name}-dry")] {
            check(&told, &[(&name, "1", "/srv/t/")]);
        }
    }
    check(
        &told,
        &[
            ("full", "1", "precious"),
            ("file", "1", "no directory"),
            ("dangling", "1", "symbolic link"),
            ("given", "1", "/dev/sdz by line 2 of /etc/fstab"),
            ("ro", "1", "mounted read-only"),
            ("taken", "1", "unmount that first"),
            ("below", "1", "`mount /srv/t/low` first"),
            ("link", "0", "leads to /srv/t/real/sub"),
            ("link-table", "0", "1"),
            ("link-fstab", "0", "1"),
            ("link-again", "0", "nothing to do"),
            ("healthy", "0", "data: healthy"),
            ("also-dry", "1", "umount /srv/t/also"),
            ("also", "1", "umount /srv/t/also"),
            ("also-kept", "0", "kept"),
            ("undone", "0", "taken away"),
            ("undone-table", "1", ""),
            ("anew", "0", "applied"),
            ("anew-kept", "0", "kept"),
            ("namespace", "1", "in the mount namespace of process"),
            ("namespace-undone", "0", "taken away"),
            ("over-made", "0", "applied"),
            ("over-status", "1", "is mounted over it on /srv/t/outer2"),
            ("over-undo", "1", "is mounted over it on /srv/t/outer2"),
            ("over-undone", "0", "taken away"),
            ("stopped", "1", "ebb: stopped"),
            ("stopped-blank", "0", "yes"),
        ],
    );
}
