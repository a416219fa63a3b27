//! `ebb export --persistent` in a system that boots: exports are back after a reboot and a cut of the power, for the same client, under the
//! same names, and nothing is left of them when they are taken away.

use super::system::{disk, qemu_system, tell};

const MIB: u64 = 1 << 20;

const WORDS: &str = r#"
NQN=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555
IQN=iqn.2026-11.other:host
ID=/dev/disk/by-id/virtio
fails() { if "$@"; then echo "it did not fail: $*"; exit 1; fi; }
units() { find /etc/systemd/system | sort; find /etc/systemd/system -type f -exec md5sum {} + | sort; }
"#;

/// That everything is exported, and that the client finds its data through it.
const THERE: &str = r#"
    for name in a b f; do systemctl is-active ebb-export-$name || { journalctl -b --no-pager -u ebb-export-$name; exit 1; }; done
    ebb status --json >/tmp/list
    [ $(grep -c '"running": true' /tmp/list) = 3 ] || { cat /tmp/list; exit 1; }
    grep -o '"target": .*' /tmp/list
    ss -Hltn | awk '{ print $4 }' | sort
    modprobe nvme-tcp
    nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $(grep -o 'nqn.2026[^"]*:a' /tmp/list) --hostnqn=$NQN
    U=$(cat /sys/kernel/config/nvmet/subsystems/*:a/namespaces/1/device_uuid)
    for i in $(seq 1800); do [ ! -e /dev/disk/by-id/nvme-uuid.$U ] || break; sleep 0.1; done
    dd if=/dev/disk/by-id/nvme-uuid.$U bs=4096 count=1 iflag=direct status=none | head -c 6
    nvme disconnect-all >/dev/null
"#;

#[test]
#[ignore = "boots a system three times under emulation: `cargo test -p ebbtide --test lab export_system::what_is_persistent_is_back_after_a_reboot_and_gone_when_it_is_removed -- --ignored`"]
fn what_is_persistent_is_back_after_a_reboot_and_gone_when_it_is_removed() {
    let mut guest =
        qemu_system("export", vec![disk("a", 64 * MIB), disk("b", 64 * MIB), disk("fs", 64 * MIB)]);
    let tell = |guest: &mut _, text: &str| tell(guest, &format!("{WORDS}{text}"));
    let life = guest.boot().unwrap();
    assert_eq!(life.state, "running", "{life:?}");
    tell(&mut guest, "install -m 755 /ebb/ebb /usr/local/bin/ebb");
    let before = tell(&mut guest, "units");
    let said = tell(
        &mut guest,
        r#"
        mkdir /data; mkfs.ext4 -q ${ID}-fs; echo "${ID}-fs /data ext4 nofail 0 0" >>/etc/fstab; systemctl daemon-reload; mount /data
        truncate -s 32M /data/f
        (umask 077; echo a-secret-of-24-signs-123 >/root/secret)
        cp /ebb/ebb /tmp/ebb; fails /tmp/ebb export ${ID}-a --client $NQN --name a --persistent 2>&1
        PATH=/usr/local/bin:$PATH
        ebb export ${ID}-a --client $NQN --name a --persistent 2>&1
        ebb export ${ID}-b --client $IQN --name b --transport iscsi --secret /root/secret --persistent 2>&1
        ebb export /data/f --client $NQN --persistent 2>&1
        systemctl is-enabled ebb-export-a ebb-export-b ebb-export-f
        fails grep -r a-secret-of-24 /etc /var/lib/ebbtide /var/log 2>/dev/null
        if journalctl --no-pager | grep a-secret-of-24; then exit 1; fi
        # What the client puts on it, without naming the disk.
        T=$(ebb status --json | grep -o 'nqn.2026[^"]*:a'); modprobe nvme-tcp
        nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $T --hostnqn=$NQN
        for i in $(seq 1800); do [ ! -b /dev/nvme0n1 ] || break; sleep 0.1; done
        echo hello! | dd of=/dev/nvme0n1 bs=4096 conv=sync,fsync status=none
        nvme disconnect-all >/dev/null; sync
        "#,
    );
    // Debian's mdadm.conf lets this host assemble what a client makes of the disks.
    assert!(said.contains("echo 'AUTO -all' >>/etc/mdadm/mdadm.conf"), "{said}");
    let life = guest.reboot().unwrap();
    assert_eq!(
        life.state,
        "running",
        "{life:?}: {}",
        tell(&mut guest, "systemctl --failed; journalctl -b -u 'ebb-*' --no-pager")
    );
    let first = tell(&mut guest, THERE);
    assert!(first.contains("hello!"), "{first}");
    for listener in ["127.0.0.1:3260", "127.0.0.1:4420"] {
        assert!(first.contains(&format!("\n{listener}\n")), "{first}");
    }
    guest.hardware.cut_power();
    let life = guest.boot().unwrap();
    assert_eq!(life.state, "running", "{life:?}");
    assert_eq!(tell(&mut guest, THERE), first, "the same targets for the same data");
    let gone = tell(
        &mut guest,
        r#"
        for name in a b f; do ebb undo $name -q >/dev/null; done
        find /sys/kernel/config/nvmet/*/* /sys/kernel/config/target/iscsi /sys/kernel/config/target/core/*_* 2>/dev/null || true
        ls /var/lib/ebbtide/exports | grep json || true
        systemctl list-units --all --no-legend 'ebb-export-*'
        "#,
    );
    assert_eq!(gone, "");
    assert_eq!(tell(&mut guest, "units"), before);
}
