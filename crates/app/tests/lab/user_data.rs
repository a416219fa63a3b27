//! `ebb user-data` through cloud-init (NoCloud), in a system that boots.

use super::system::{disk, system, tell};
use ebbtide_lab::disks::Disk;
use ebbtide_lab::system::SystemGuest;
use std::process::Command;

const EXPERIMENT: &str = "name = \"night\"\n[volumes]\na = { size = \"1GiB\" }\nb = { size = \"1GiB\" }\n[designs.scratch]\nlayout = \"stripe\"\n\
    chunk = \"256KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"xfs\"\nmount_options = \"noatime\"\nreadahead = \"1MiB\"\n\
    [workloads.w]\nrw = \"randread\"\nruntime = \"1s\"\n";

fn data(n: usize) -> Disk {
    disk(&format!("data{n}"), 400 << 20)
}

/// A machine with two blank disks that is given what `ebb user-data` prints with `arguments`.
fn machine(name: &str, arguments: &[&str]) -> SystemGuest {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("night.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(["user-data", "--members", "/dev/disk/by-id/virtio-data*"])
        .arg(&file)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let system = system(name, (0..2).map(data).collect());
    let seed = "/var/lib/cloud/seed/nocloud";
    system.put_file(&format!("{seed}/user-data"), &output.stdout).unwrap();
    system.put_file(&format!("{seed}/meta-data"), b"instance-id: i-1\nlocal-hostname: guest\n").unwrap();
    // What Debian's configuration does beside: it wants apt and locales, which the guest does not have.
    let mut lean =
        "cloud_config_modules: [runcmd]\ncloud_final_modules: [scripts-user, final-message]\n".to_owned();
    if arguments.contains(&"--ebb") {
        // What is started at boot is the program itself, not what the guest else starts it with.
        lean += "bootcmd: [[install, -m, '755', /ebb/ebb, /usr/local/bin/ebb]]\n";
    }
    system.put_file("/etc/cloud/cloud.cfg.d/99-lean.cfg", lean.as_bytes()).unwrap();
    system
}

/// Boots it; what is mounted there, and what was said.
fn booted(system: &mut SystemGuest) -> String {
    let life = system.boot().unwrap();
    eprintln!("{:.1} s: {}", life.boot.as_secs_f64(), life.state);
    system.guest().unwrap().capture(&["cloud-init", "status", "--wait"], b"").unwrap();
    tell(
        system,
        "findmnt -n -o FSTYPE,OPTIONS --mountpoint /data || true; ls /data /dev/md || true
         cat /sys/block/md*/queue/read_ahead_kb || true; systemctl --failed --no-legend; cat /var/log/cloud-init-output.log",
    )
}

#[test]
fn a_machine_makes_its_array_at_its_first_boot_and_later_boots_bring_it_back() {
    let mut system = machine("user-data", &[]);
    let said = booted(&mut system);
    assert!(said.contains("made of ") && said.starts_with("xfs") && said.contains("noatime"), "{said}");
    tell(&mut system, "echo kept >/data/kept");
    system.shut_down().unwrap();
    let said = booted(&mut system);
    assert!(said.starts_with("xfs") && said.contains("kept") && said.contains("scratch"), "{said}");
    assert!(said.contains("\n1024\n") && !said.contains("loaded failed"), "{said}");
    assert_eq!(said.matches("made of ").count(), 1, "{said}");
    let again = tell(&mut system, "/usr/local/sbin/ebb-scratch");
    assert!(again.contains("nothing to do"), "{again}");
    system.shut_down().unwrap();
}

#[test]
#[ignore = "what instance store is without cloud-init, in three more boots: `cargo test -p ebbtide --test lab user_data:: -- --ignored`"]
fn with_ebb_disks_that_come_back_blank_are_made_an_array_anew() {
    let mut system = machine("user-data-ebb", &["--ebb", "installed", "--class", "ephemeral"]);
    let said = booted(&mut system);
    assert!(said.contains("scratch: applied") && said.starts_with("xfs"), "{said}");
    tell(&mut system, "echo kept >/data/kept");
    system.shut_down().unwrap();
    let said = booted(&mut system);
    assert!(said.starts_with("xfs") && said.contains("kept"), "{said}");
    system.shut_down().unwrap();
    (0..2).for_each(|n| system.hardware.put_disk(data(n)).unwrap());
    let said = booted(&mut system);
    assert!(said.starts_with("xfs") && !said.contains("kept"), "{said}");
    system.shut_down().unwrap();
}
