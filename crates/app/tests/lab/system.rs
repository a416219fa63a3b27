//! Guests with systemd and a disk of their own.

use super::guests::{laboratory, qemu_laboratory, script};
use ebbtide_lab::Laboratory;
use ebbtide_lab::disks::Disk;
use ebbtide_lab::machine::Machine;
use ebbtide_lab::system::{Life, SystemGuest};

const MIB: u64 = 1 << 20;

/// A disk as large as the tests need them.
pub fn disk(name: &str, size: u64) -> Disk {
    Disk::plain(name, size)
}

/// A machine with a system of its own and blank disks, which is off.
pub fn system(name: &str, disks: Vec<Disk>) -> SystemGuest {
    system_on(laboratory(), name, disks)
}

/// [`system`] with hardware that only QEMU has.
pub fn qemu_system(name: &str, disks: Vec<Disk>) -> SystemGuest {
    system_on(qemu_laboratory(), name, disks)
}

fn system_on(laboratory: Laboratory, name: &str, disks: Vec<Disk>) -> SystemGuest {
    let machine = Machine {
        name: format!("test-{name}-{}", std::process::id()),
        memory_mib: 768,
        cpus: 2,
        disks,
        ..Machine::default()
    };
    SystemGuest::new(laboratory, machine).unwrap()
}

/// Runs a script of bash in a system that runs; it must succeed.
pub fn tell(system: &mut SystemGuest, text: &str) -> String {
    script(system.guest().unwrap(), text).unwrap()
}

fn running(life: &Life, system: &mut SystemGuest) {
    let failed = tell(system, "systemctl --failed --no-legend; systemctl list-jobs --no-legend");
    assert_eq!((life.state.as_str(), failed.as_str()), ("running", ""), "{life:?}");
}

/// What a system keeps over a reboot and over a cut of its power, and that it boots what it has itself made.
#[test]
#[ignore = "of the laboratory itself, in four boots: `cargo test -p ebbtide --test lab system:: -- --ignored`"]
fn a_system_keeps_its_disks_over_reboots_and_cuts_of_power() {
    let mut system = system("system", vec![disk("a", 256 * MIB), disk("b", 256 * MIB)]);
    system.put_file("/etc/ebb-test/put", b"by the host\n").unwrap();
    let life = system.boot().unwrap();
    running(&life, &mut system);
    assert_eq!(tell(&mut system, "cat /etc/ebb-test/put"), "by the host\n");
    // An array that is known to the initramfs, and a file in it, so that what was booted is told from what is on the disk.
    let made = "
        mdadm --quiet --create /dev/md/kept --run --homehost=any --name=kept --level=0 --raid-devices=2 /dev/disk/by-id/virtio-[ab]
        mkfs.xfs -q /dev/md/kept
        mkdir /data; echo UUID=$(blkid -o value -s UUID /dev/md/kept) /data xfs nofail,x-systemd.device-timeout=5s 0 0 >>/etc/fstab
        mount /data; echo kept >/data/file
        mdadm --detail --scan >>/etc/mdadm/mdadm.conf
        printf '#!/bin/sh\\n[ \"$1\" != prereqs ] || exit 0\\necho second >/run/initramfs/ebb-test\\n' >/etc/initramfs-tools/scripts/init-bottom/ebb-test
        chmod +x /etc/initramfs-tools/scripts/init-bottom/ebb-test
        [ ! -e /run/initramfs/ebb-test ]
        update-initramfs -u 2>&1";
    let start = std::time::Instant::now();
    tell(&mut system, made);
    eprintln!("{:.1} s for an array and an initramfs", start.elapsed().as_secs_f64());
    let life = system.reboot().unwrap();
    running(&life, &mut system);
    let there = "cat /data/file /run/initramfs/ebb-test; ls /dev/md; cat /proc/sys/kernel/random/boot_id";
    let first = tell(&mut system, there);
    assert!(first.starts_with("kept\nsecond\nkept\n"), "{first}");
    // Written and not synced: what the journal has not committed is lost, what was synced is not.
    tell(&mut system, "echo synced >/root/synced; sync; echo more >>/data/file");
    system.hardware.cut_power();
    let life = system.boot().unwrap();
    running(&life, &mut system);
    let second = tell(&mut system, &format!("cat /root/synced; {there}"));
    assert!(second.starts_with("synced\nkept\n") && second.contains("\nsecond\nkept\n"), "{second}");
    assert_ne!(first.lines().last(), second.lines().last(), "another boot");
    // As after a stop and start of a machine with instance store: a blank disk in place of a member.
    system.shut_down().unwrap();
    system.hardware.put_disk(disk("b", 256 * MIB)).unwrap();
    let life = system.boot().unwrap();
    let state =
        tell(&mut system, "cat /root/synced; findmnt /data || echo absent; wipefs /dev/disk/by-id/virtio-b");
    assert_eq!(state, "synced\nabsent\n", "{life:?}");
}
