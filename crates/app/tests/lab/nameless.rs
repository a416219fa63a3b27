//! A volume that has no name below /dev/disk/by-id, attached again and again: in a guest of User-Mode Linux that is storage host and client.

use ebbtide_lab::uml::{Guest, Kernel};
use std::time::Duration;

/// Servers that are not installed on this machine (`cargo xtask setup`).
const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/servers");

/// SSH to itself, LIO and open-iscsi.
const PREPARE: &str = r#"
set -u
for place in lib sbin bin; do [ ! -d $servers/$place ] || cp -a $servers/$place/. /usr/$place/; done
[ ! -d $servers/usr ] || { cp -a $servers/usr/. /usr/; cp -an $servers/etc/. /etc/; ldconfig; }
for module in target_core_mod target_core_iblock target_core_file iscsi_target_mod iscsi_tcp dm-crypt ext4; do modprobe $module; done
mount -t configfs configfs /sys/kernel/config 2>/dev/null
export HOME=/run/home; mkdir -p $HOME /root/.ssh /run/sshd /run/ssh; chmod 700 /root/.ssh; cd $HOME
grep -q ^sshd: /etc/passwd || echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
ssh-keygen -q -t ed25519 -N '' -f /run/ssh/host
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519; cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
printf 'HostKey /run/ssh/host\nUsePAM no\nPermitRootLogin yes\nStrictModes no\nSetEnv PATH=%s:/usr/sbin:/usr/bin:/sbin:/bin\n' "$programs" >/run/ssh/config
printf 'StrictHostKeyChecking accept-new\n' >/root/.ssh/config
/usr/sbin/sshd -f /run/ssh/config
mkdir -p /etc/iscsi; echo InitiatorName=iqn.2026-11.ebbtide.test:desk >/etc/iscsi/initiatorname.iscsi
iscsid
head -c 64 /dev/urandom >key; chmod 600 key
go() { case=$1; shift; status=0; "$@" >said 2>&1 || status=$?; echo "CASE $case status $status $(cat said | tr '\n' ' ')"; }
export PATH=$programs:$PATH
"#;

const SCRIPT: &str = r#"
backup() { case=$1; shift; go $case ebb attach root@127.0.0.1:/dev/ubda --transport iscsi --name backup --encrypt key --mount /srv/backup -q "$@"; }
backup first --header-backup header; echo precious >/srv/backup/file
go detach ebb detach backup -q
# By what was noted of it.
backup second; go second-data cat /srv/backup/file; ebb detach backup -q
# As another host, which knows nothing of it; then as somebody says, and by the copy of the header.
rm -r /var/lib/ebbtide/attached
backup unknown
uuid=$(blkid -p -s UUID -o value /dev/ubda)
backup told --carries $uuid; go told-data cat /srv/backup/file; ebb detach backup -q
rm -r /var/lib/ebbtide/attached
backup copy --header-backup header; go copy-data cat /srv/backup/file; ebb detach backup -q
# Another device has its name.
dd if=/dev/ubda of=kept bs=1M status=none; dd if=/dev/zero of=/dev/ubda bs=1M count=20 conv=fsync status=none
mkfs.ext4 -q -F /dev/ubda
backup other
go other-stays blkid -p -s TYPE -o value /dev/ubda
dd if=kept of=/dev/ubda bs=1M conv=fsync status=none
backup back; go back-data cat /srv/backup/file; ebb detach backup -q
# What is not encrypted, in the same way.
plain() { case=$1; shift; go $case ebb attach root@127.0.0.1:/dev/ubdb --transport iscsi --name plain --mount /srv/plain -q; }
plain plain; echo plain >/srv/plain/file; ebb detach plain -q
plain plain-again; go plain-data cat /srv/plain/file; ebb detach plain -q
# What a design names as the kernel does is warned of when it is applied.
ebb attach root@127.0.0.1:/dev/ubdb --transport iscsi --name plain -q
device=$(readlink -f /dev/disk/by-id/scsi-*)
printf 'name = "e"\n[volumes.v]\ndevice = "%s"\n[designs.d]\nlayout = "linear"\nmembers = ["v"]\nfilesystem = "ext4"\n[workloads.w]\nrw = "read"\nruntime = "1s"\n' $device >e.toml
go numbered ebb apply e.toml --mount /srv/new --dry-run
ebb detach plain -q
echo all
"#;

#[test]
fn a_volume_without_a_name_that_stays_is_attached_again_by_what_it_carries() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let disks: Vec<_> = ["a", "b"].map(|name| place.path().join(name)).into();
    for disk in &disks {
        std::fs::File::create(disk).unwrap().set_len(96 << 20).unwrap();
    }
    let lab = ebbtide_runner::places::lab().unwrap();
    let kernel = Kernel::ready(&lab, &mut |text| eprintln!("{text}")).unwrap();
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_ebb")).parent().unwrap().display();
    let script = format!("servers={SERVERS} programs={programs}\n{PREPARE}{SCRIPT}");
    let guest = Guest { script, disks, memory_mib: 800, udev: true, ..Guest::default() };
    let outcome = guest.run(&kernel, Duration::from_secs(1800)).unwrap();
    assert!(outcome.output.trim_end().ends_with("all"), "{}", outcome.output);
    let case = |name: &str| {
        let begin = format!("CASE {name} status ");
        outcome.output.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or("nothing was said")
    };
    let mut wrong = Vec::new();
    for (name, status, words) in [
        ("first", "0", "attached as /dev/mapper/backup on /srv/backup"),
        ("detach", "0", "detached"),
        ("second", "0", "attached as /dev/mapper/backup"),
        ("second-data", "0", "precious"),
        ("unknown", "1", "carries crypto_LUKS"),
        ("unknown", "1", "say `--carries "),
        ("unknown", "1", "blkid -p /dev/ubda"),
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
    ] {
        let said = case(name);
        if !(said.starts_with(&format!("{status} ")) && said.contains(words)) {
            wrong.push(format!("{name}: expected {status} and {words:?}: {said}"));
        }
        if ["blkdiscard", "wipefs", "erase"].iter().any(|word| said.contains(word)) {
            wrong.push(format!("{name} tells to erase: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), outcome.output);
}
