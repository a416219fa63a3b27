//! Guests for the tests.

use ebbtide_lab::Laboratory;
use ebbtide_lab::disks::Disk;
use ebbtide_lab::guest::{Finished, Guest};
use ebbtide_lab::image::{self, Image};
use ebbtide_lab::machine::Machine;
use ebbtide_lab::network::{Network, Place};
use ebbtide_lab::places::Places;
use ebbtide_lab::uml::Kernel;
use ebbtide_model::backend::Control;
use ebbtide_runner::places;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The user's lab with its image, which is built where it is missing.
pub fn lab() -> (Places, Image) {
    let places = places::lab().unwrap();
    let image = image::build(&places, false, &mut |text| eprintln!("{text}")).unwrap();
    (places, image)
}

/// A guest with these disks (name, bytes).
pub fn guest(name: &str, disks: &[(String, u64)]) -> Guest {
    guest_with(name, plain(disks))
}

/// A guest of QEMU with these disks (name, bytes): for NVMe, and for what User-Mode Linux's kernel does not have.
pub fn qemu_guest(name: &str, disks: &[(String, u64)]) -> Guest {
    qemu_laboratory().boot(&machine(name, plain(disks))).unwrap()
}

fn plain(disks: &[(String, u64)]) -> Vec<Disk> {
    disks.iter().map(|(name, size)| Disk::plain(name, *size)).collect()
}

/// A guest with these disks.
pub fn guest_with(name: &str, disks: Vec<Disk>) -> Guest {
    let mut guest = laboratory().boot(&machine(name, disks)).unwrap();
    script(&mut guest, QUICK_KEYS).unwrap();
    guest
}

fn machine(name: &str, disks: Vec<Disk>) -> Machine {
    Machine {
        name: format!("test-{name}-{}", std::process::id()),
        memory_mib: 512,
        cpus: 2,
        disks,
        ..Machine::default()
    }
}

/// A guest with these disks at place `number` of `network`.
pub fn guest_on(
    laboratory: &Laboratory,
    network: &Network,
    number: u8,
    name: &str,
    disks: Vec<Disk>,
) -> Guest {
    let machine = Machine {
        name: format!("test-{name}-{number}-{}", std::process::id()),
        memory_mib: 384,
        cpus: 2,
        disks,
        place: Some(Place { network: network.clone(), number }),
        ..Machine::default()
    };
    laboratory.boot(&machine).unwrap()
}

/// The user's lab, whose guests have the `ebb` under test. What User-Mode Linux can be, which takes seconds, is on it where it starts here.
pub fn laboratory() -> Laboratory {
    on_uml(qemu_laboratory())
}

/// [`laboratory`], all of whose guests are QEMU's.
pub fn qemu_laboratory() -> Laboratory {
    let (places, _) = lab();
    let program = Path::new(env!("CARGO_BIN_EXE_ebb"));
    Laboratory::with_program(places, program, Arc::new(Control::default()), told).unwrap()
}

pub fn on_uml(laboratory: Laboratory) -> Laboratory {
    if std::env::var_os("EBB_TEST_QEMU").is_some() {
        return laboratory;
    }
    match Kernel::ready(&places::lab().unwrap(), &mut told) {
        Ok(kernel) => laboratory.with_uml(kernel),
        Err(error) => {
            told(&format!("not on User-Mode Linux: {error}"));
            laboratory
        }
    }
}

/// What the lab tells, in the log of a test that passes too: how long a guest took, and whether it was started twice.
pub fn told(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs a script of bash, which must succeed; what it printed. Disks are vda and so on in both, whatever the guest's kernel calls them.
pub fn script(guest: &mut Guest, text: &str) -> Result<String, String> {
    let names = guest.disks;
    let text =
        text.replace("/dev/vd", &format!("/dev/{names}")).replace("block/vd", &format!("block/{names}"));
    let Finished { status, output, errors } = guest.capture(&["bash", "-ec", &text], b"").unwrap();
    let [output, errors] = [output, errors].map(|bytes| String::from_utf8_lossy(&bytes).replace(names, "vd"));
    if status == 0 { Ok(output) } else { Err(format!("status {status}: {output}{errors}\n{text}")) }
}

/// A guest's own cryptsetup derives a key for two seconds of a processor, with much memory, at each format and each opening: this one in an instant.
pub const QUICK_KEYS: &str = r#"
mkdir -p /usr/local/bin
cat >/usr/local/bin/cryptsetup <<'END'
#!/bin/sh
case " $* " in *" luksFormat "*) set -- "$@" --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ;; esac
exec /usr/sbin/cryptsetup "$@"
END
chmod 755 /usr/local/bin/cryptsetup
"#;

/// All that a run may change, as a function of bash: devices and what is on them, mounts, swap, arrays, mappings,
/// tunables, configuration. What is on disks `wipefs` reads: udev, which `lsblk` would ask, may not have looked yet.
const STATE: &str = r#"
state() {
    udevadm settle
    lsblk -rno KNAME,TYPE,SIZE,MOUNTPOINTS
    cat /proc/mounts /proc/swaps
    grep md /proc/mdstat || true
    dmsetup ls; losetup --list --noheadings; wipefs /dev/vd?
    grep . /sys/block/vd?/queue/{scheduler,nr_requests,max_sectors_kb,read_ahead_kb}
    find /etc/mdadm /etc/lvm /run/ebbtide /dev/mapper /dev/disk/by-{id,path,label,uuid} /dev/md* /root/.local/state /mnt 2>/dev/null | sort || true
    find /etc/mdadm /etc/lvm -type f -exec md5sum {} + | sort
    pvs --noheadings; vgs --noheadings
}
"#;

/// [`script`] that knows `state`, and must succeed.
pub fn tell(guest: &mut Guest, text: &str) -> String {
    script(guest, &format!("{STATE}{text}")).unwrap()
}

/// What `state` said before and after must be the same.
pub fn unchanged(before: &str, after: &str, when: &str) {
    let gone: Vec<&str> = before.lines().filter(|line| !after.lines().any(|other| other == *line)).collect();
    let new: Vec<&str> = after.lines().filter(|line| !before.lines().any(|other| other == *line)).collect();
    assert!(
        gone.is_empty() && new.is_empty() && before == after,
        "{when}: gone: {gone:#?}, new: {new:#?}\n{after}"
    );
}
