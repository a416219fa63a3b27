//! A volume that has no name below /dev/disk/by-id, attached again and again: in a guest that is storage host and client.

use super::cases::{cases, check};
use super::guests::{guest, script};

/// SSH to itself, and disks in memory, which have no such names.
const PREPARE: &str = r#"
modprobe -a iscsi_tcp dm-crypt ext4
modprobe brd rd_nr=2 rd_size=40960
mkdir -p /root/.ssh /run/sshd /run/ssh; chmod 700 /root/.ssh
grep -q ^sshd: /etc/passwd || echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
ssh-keygen -q -t ed25519 -N '' -f /run/ssh/host
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519; cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
printf 'HostKey /run/ssh/host\nUsePAM no\nPermitRootLogin yes\nStrictModes no\n' >/run/ssh/config
printf 'StrictHostKeyChecking accept-new\n' >/root/.ssh/config
/usr/sbin/sshd -f /run/ssh/config
iscsid
head -c 64 /dev/urandom >key; chmod 600 key
go() { case=$1; shift; status=0; "$@" >said 2>&1 || status=$?; echo "CASE $case status $status $(cat said | tr '\n' ' ')"; }
"#;

const SCRIPT: &str = r#"
backup() { case=$1; shift; go $case ebb attach root@127.0.0.1:/dev/ram0 --transport iscsi --name backup --encrypt key --mount /srv/backup -q "$@"; }
backup first --header-backup header; echo precious >/srv/backup/file
go detach ebb undo backup --kind attached -q
# By what was noted of it.
backup second; go second-data cat /srv/backup/file; ebb undo backup --kind attached -q
# As another host, which knows nothing of it; then as somebody says, and by the copy of the header.
rm -r /var/lib/ebbtide/attached
backup unknown
uuid=$(blkid -p -s UUID -o value /dev/ram0)
backup told --carries $uuid; go told-data cat /srv/backup/file; ebb undo backup --kind attached -q
rm -r /var/lib/ebbtide/attached
backup copy --header-backup header; go copy-data cat /srv/backup/file; ebb undo backup --kind attached -q
# Another device has its name.
dd if=/dev/ram0 of=kept bs=1M status=none; dd if=/dev/zero of=/dev/ram0 bs=1M count=20 conv=fsync status=none
mkfs.ext4 -q -F /dev/ram0
backup other
go other-stays blkid -p -s TYPE -o value /dev/ram0
dd if=kept of=/dev/ram0 bs=1M conv=fsync status=none
backup back; go back-data cat /srv/backup/file; ebb undo backup --kind attached -q
# What is not encrypted, in the same way.
plain() { case=$1; shift; go $case ebb attach root@127.0.0.1:/dev/ram1 --transport iscsi --name plain --mount /srv/plain -q; }
plain plain; echo plain >/srv/plain/file; ebb undo plain --kind attached -q
plain plain-again; go plain-data cat /srv/plain/file; ebb undo plain --kind attached -q
# What a design names as the kernel does is warned of when it is applied.
ebb attach root@127.0.0.1:/dev/ram1 --transport iscsi --name plain -q
device=$(readlink -f /dev/disk/by-id/scsi-*)
printf 'name = "e"\n[volumes.v]\ndevice = "%s"\n[designs.d]\nlayout = "linear"\nmembers = ["v"]\nfilesystem = "ext4"\n[workloads.w]\nrw = "read"\nruntime = "1s"\n' $device >e.toml
go numbered ebb apply e.toml --mount /srv/new --dry-run
ebb undo plain --kind attached -q
echo all
"#;

#[test]
fn a_volume_without_a_name_that_stays_is_attached_again_by_what_it_carries() {
    let mut guest = guest("nameless", &[]);
    let output = script(&mut guest, &format!("{PREPARE}{SCRIPT}")).unwrap();
    let told = cases(&output);
    check(
        &told,
        &[
            ("first", "0", "attached as /dev/mapper/backup on /srv/backup"),
            ("detach", "0", "detached"),
            ("second", "0", "attached as /dev/mapper/backup"),
            ("second-data", "0", "precious"),
            ("unknown", "1", "carries crypto_LUKS"),
            ("unknown", "1", "say `--carries "),
            ("unknown", "1", "blkid -p /dev/ram0"),
            ("told", "0", "attached as"),
            ("told-data", "0", "precious"),
            ("copy", "0", "attached as"),
            ("copy-data", "0", "precious"),
            ("other", "1", "it carries ext4 with the UUID"),
            ("other-stays", "0", "ext4"),
            ("back", "0", "attached as"),
            ("back-data", "0", "precious"),
            ("plain", "0", "attached as"),
            ("plain-again", "0", "attached as"),
            ("plain-data", "0", "plain"),
            ("numbered", "1", "is what the kernel called it at this boot"),
            ("numbered", "1", "write `device = \"/dev/disk/by-id/"),
        ],
    );
    for (name, said) in &told {
        let erases = ["blkdiscard", "wipefs", "erase"].iter().any(|word| said.contains(word));
        assert!(!erases, "{name} tells to erase: {said}");
    }
}
