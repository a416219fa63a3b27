//! `ebb user-data`: its script among disks of every kind, and a machine that is given it by cloud-init.

use super::guests::{self, guest};
use super::system::{disk, system, tell};
use ebbtide_lab::system::SystemGuest;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn experiment(filesystem: &str) -> String {
    format!(
        "name = \"night\"\n[volumes]\na = {{ size = \"1GiB\" }}\nb = {{ size = \"1GiB\" }}\n[designs.scratch]\nlayout = \"stripe\"\n\
         chunk = \"256KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"{filesystem}\"\nmount_options = \"noatime\"\nreadahead = \"1MiB\"\n\
         [workloads.w]\nrw = \"randread\"\nruntime = \"1s\"\n"
    )
}

/// Functions of the scenarios. `writes` says what was written to disks since the guest's start, as the kernel counts it.
const FUNCTIONS: &str = r#"
disk=/dev/disk/by-id/virtio-d script=/usr/local/sbin/ebb-scratch
state=/var/lib/ebbtide/boot/scratch-$(sed -n 's/^uuid=\([^:]*\).*/\1/p' $script 2>/dev/null || true)
go() { status=0; said=$($script start 2>&1) || status=$?; }
off() { if mountpoint -q /data; then umount /data; fi; for md in /dev/md?*; do [ ! -b $md ] || mdadm -q --stop $md; done; udevadm settle; }
zero_array() { umount /data; blkdiscard -f -z /dev/md/scratch; }
zero() { for n in "$@"; do blkdiscard -f -z $disk$n; done; udevadm settle; }
writes() { for n in a b c; do read -r _ _ _ _ _ _ sectors _ </sys/block/vd$n/stat; echo $sectors; done | tr '\n' ' '; }
is() { [ $status = $1 ] && case $said in *"$2"*) ;; *) false ;; esac || { echo "$3: status $status: $said"; exit 1; }; }
"#;

/// Every state in which its disks may be found, in a guest without systemd: what is made, what is started, what is left alone.
#[test]
fn the_script_makes_what_is_blank_starts_what_is_its_own_and_leaves_the_rest_alone() {
    let disks = ["d0", "d1", "d2", "other"].map(|name| (name.to_owned(), 40 * MIB));
    let mut guest = guest("boot", &disks);
    let begin = Instant::now();
    let mut run = |what: &str, text: &str| {
        guests::script(&mut guest, &format!("{FUNCTIONS}{text}"))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        eprintln!("{:5.1} s {what}", begin.elapsed().as_secs_f64());
    };
    // What is missing is installed first, here by a program in the place of apt-get.
    let install = format!(
        "cat >e.toml <<'E'\n{}E\n\
         mkdir -p /usr/local/sbin /var/lib; mv /usr/sbin/mkfs.ext4 /root/hidden\n\
         printf '#!/bin/sh\\necho \"$*\" >>/root/asked\\ncase \"$*\" in *mdadm?e2fsprogs) mv /root/hidden /usr/sbin/mkfs.ext4 ;; esac\\n' >/usr/local/sbin/apt-get\n\
         chmod +x /usr/local/sbin/apt-get\n\
         ebb user-data e.toml --members '/dev/disk/by-id/virtio-d[0-9]' --class ephemeral --format script >install\n\
         sh install; grep -q 'install mdadm e2fsprogs' asked\n\
         grep -q '^/dev/md[0-9]* /data ext4 .*noatime' /proc/mounts\n\
         mdadm --detail /dev/md/scratch | grep -q 'Raid Devices : 3'\n\
         [ $(cat /sys/block/$(basename $(readlink /dev/md/scratch))/queue/read_ahead_kb) = 1024 ]\n\
         sed -i 's/^wait=.*/wait=0/' $script\n\
         echo kept >/data/file",
        experiment("ext4")
    );
    run("installed and made", &install);
    run("again", "go; is 0 'is mounted at /data' again; [ -e /data/file ]");
    run("after a reboot", "off; go; is 0 'mounted at' reboot; grep -q kept /data/file");
    run("after a stop", "off; zero 0 1 2; go; is 0 'made of' stop; [ ! -e /data/file ]");
    // Another array is no reason not to make its own, and its own member elsewhere is none to write.
    run(
        "beside another array",
        "off; zero 0 1 2; mdadm -q --create /dev/md/other --run --level=0 --force --raid-devices=1 ${disk/-d/-other}; go; is 0 'made of' beside",
    );
    run(
        "a member that came back blank",
        "off; zero 1; w=$(writes); go; is 1 '2 of its 3 members' blank; [ \"$w\" = \"$(writes)\" ]",
    );
    for (what, make, why) in [
        ("a file system", "mkfs.ext4 -q -F ${disk}1", "/dev/vdb carries ext4"),
        ("a partition table", "echo ',,L' | sfdisk -q --label gpt ${disk}1", "/dev/vdb has partitions"),
        ("a physical volume", "pvcreate -q ${disk}1", "LVM2_member"),
        (
            "another array's member",
            "mdadm -q --create /dev/md/o --run --level=1 --force --raid-devices=1 ${disk}1; mdadm -q --stop /dev/md/o",
            "linux_raid_member",
        ),
        (
            "a key slot",
            "echo pw | cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ${disk}1 -",
            "crypto_LUKS",
        ),
        ("swap", "mkswap -q ${disk}1", "carries swap"),
        (
            "a byte in its first MiB",
            "echo x | dd of=${disk}1 bs=1 seek=700000 conv=notrunc status=none",
            "no name",
        ),
        (
            "a byte in its last sector",
            "echo x | dd of=${disk}1 bs=512 seek=81919 conv=notrunc status=none",
            "no name",
        ),
        (
            "noise in its middle",
            "dd if=/dev/urandom of=${disk}1 bs=1M seek=9 count=20 conv=notrunc status=none",
            "no name",
        ),
    ] {
        run(
            what,
            &format!(
                "off; zero 0 1 2; {make}; udevadm settle; w=$(writes); go; is 1 '{why}' \"{what}\"; [ \"$w\" = \"$(writes)\" ]"
            ),
        );
    }
    run(
        "one in use",
        "off; zero 0 1 2; mkfs.ext4 -q -F ${disk}0; mount ${disk}0 /mnt; go; is 0 'left alone: /dev/vda is mounted' use; umount /mnt",
    );
    run(
        "members of two arrays of one uuid",
        "off; zero 0 1 2; go; off; dd if=${disk}0 of=/root/first bs=1M count=2 status=none; zero 0 1 2; sleep 1; go; off; dd if=/root/first of=${disk}0 conv=notrunc status=none; udevadm settle; w=$(writes); go; is 1 'members of several arrays' two; [ \"$w\" = \"$(writes)\" ]",
    );
    // What a loss of power leaves of a making is gone on with where nothing is there yet; what was finished is not made again.
    run(
        "begun on one disk",
        "off; zero 0 1 2; go; off; zero 1 2; rm $state/made; w=$(writes); go; is 1 '1 of its 3 members' begun; [ \"$w\" = \"$(writes)\" ]",
    );
    run(
        "without its file system",
        "off; zero 0 1 2; go; zero_array; off; rm $state/made; go; is 0 'new ext4' unfinished",
    );
    run(
        "finished",
        "echo kept >/data/file; off; rm $state/made; go; is 0 'mounted at' finished; grep -q kept /data/file; [ -e $state/made ]",
    );
    run(
        "somebody cleared it",
        "off; mdadm -q --assemble /dev/md/scratch ${disk}[0-2]; wipefs -q -a /dev/md/scratch; off; go; is 1 'none is made over' cleared",
    );
    run(
        "persistent",
        "off; zero 0 1 2; sed -i 's/^class=.*/class=persistent/' $script; go; is 1 'volumes that are not there any more' persistent",
    );
    run("persistent, asked for", "rm $state/made; go; is 0 'made of' asked");
    run(
        "a mirror without a member",
        "off; zero 0 1 2; rm -r $state; sed -i 's/--level=0 --chunk=256K/--level=1/; s/^redundant=.*/redundant=yes/' $script; go; is 0 'made of' mirror
         echo kept >/data/file; off; sed -i 's/^members=.*/members=\"\\/dev\\/disk\\/by-id\\/virtio-d[01]\"/' $script; go; is 0 'DEGRADED: 1' mirror; grep -q kept /data/file",
    );
    // Killed wherever, it is mounted after the next start, or refused and not written to.
    let kills = "sed -i 's/--level=1/--level=0 --chunk=256K/; s/^redundant=.*/redundant=no/; s/^class=.*/class=ephemeral/' $script
        for tenths in 02 06 10 14 18 22; do
            off; zero 0 1 2; rm -rf $state
            setsid $script start >/dev/null 2>&1 & leader=$!
            sleep ${tenths%?}.${tenths#?}; kill -9 -- -$leader 2>/dev/null || true; wait $leader 2>/dev/null || true
            off; go
            if [ $status = 1 ]; then w=$(writes); go; is 1 'not mounted' \"killed after $tenths\"; [ \"$w\" = \"$(writes)\" ]; off; zero 0 1 2; rm -rf $state; go; fi
            is 0 'is mounted at' \"killed after $tenths\"
        done";
    run("killed", kills);
}

/// Boots it; whether the array is mounted, and what the script said.
fn booted(system: &mut SystemGuest, what: &str) -> (bool, String, String) {
    let life = system.boot().unwrap();
    eprintln!("{:.1} s {what}: {}", life.boot.as_secs_f64(), life.state);
    let patience = Duration::from_secs(300);
    system.run(&["cloud-init", "status", "--wait"], patience).unwrap();
    let said = tell(system, "cat /run/ebbtide-scratch.log");
    let mounted = tell(system, "findmnt -n -o FSTYPE,OPTIONS --mountpoint /data || true");
    let failed = tell(system, "systemctl list-units --failed --no-legend --plain | cut -d' ' -f1");
    if !failed.is_empty() {
        let why =
            "cloud-init status --long; grep -iE -m9 'fail|traceback|error' /var/log/cloud-init.log || true";
        eprintln!("failed: {failed}{}", tell(system, why));
    }
    (mounted.starts_with("xfs") && mounted.contains("noatime"), said, failed)
}

/// Through cloud-init (NoCloud): the first boot, a reboot, a stop that gives fewer and blank disks, a disk less, somebody's data.
#[test]
#[ignore = "five boots with cloud-init take many minutes under emulation: `cargo test -p ebbtide --test lab user_data::a_machine -- --ignored`"]
fn a_machine_makes_its_array_at_its_first_boot_and_boots_whatever_its_disks_carry() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("night.toml");
    std::fs::write(&file, experiment("xfs")).unwrap();
    let arguments = ["--members", "/dev/disk/by-id/virtio-data*", "--class", "ephemeral"];
    let output =
        Command::new(env!("CARGO_BIN_EXE_ebb")).arg("user-data").arg(&file).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let data = |n: usize| disk(&format!("data{n}"), 256 * MIB);
    let mut system = system("user-data", (0..4).map(data).collect());
    let seed = "/var/lib/cloud/seed/nocloud";
    system.put_file(&format!("{seed}/user-data"), &output.stdout).unwrap();
    system.put_file(&format!("{seed}/meta-data"), b"instance-id: i-1\nlocal-hostname: guest\n").unwrap();

    // What Debian's configuration does beside: it wants apt and locales, which the guest does not have.
    let lean = b"cloud_config_modules: [runcmd]\ncloud_final_modules: [scripts-user, final-message]\n";
    system.put_file("/etc/cloud/cloud.cfg.d/99-lean.cfg", lean).unwrap();

    let (mounted, said, failed) = booted(&mut system, "first boot");
    assert!(mounted && said.contains("made of /dev/vda /dev/vdb /dev/vdc /dev/vdd"), "{said}{failed}");
    assert_eq!(failed, "");
    tell(&mut system, "echo kept >/data/file; ls -l /dev/md/scratch; systemctl is-active data.mount");
    system.shut_down().unwrap();

    let (mounted, said, failed) = booted(&mut system, "reboot");
    assert!(mounted && !said.contains("made of") && failed.is_empty(), "{said}{failed}");
    // Before what comes after local file systems.
    tell(
        &mut system,
        "grep -q kept /data/file; [ -e /dev/md/scratch ]
         systemctl show -p ActiveEnterTimestampMonotonic --value ebb-scratch.service >a
         systemctl show -p ActiveEnterTimestampMonotonic --value local-fs.target >b; [ $(cat a) -le $(cat b) ]",
    );
    system.shut_down().unwrap();

    // Stopped and started as a machine with three disks, all blank.
    system.take_disk("data3").unwrap();
    (0..3).for_each(|n| system.put_disk(data(n)).unwrap());
    let (mounted, said, failed) = booted(&mut system, "blank disks");
    assert!(
        mounted && said.contains("made of /dev/vda /dev/vdb /dev/vdc\n") && failed.is_empty(),
        "{said}{failed}"
    );
    tell(&mut system, "[ ! -e /data/file ]; echo new >/data/file; sync");
    system.cut_power().unwrap();

    // One of them does not come back. The machine boots, the others are as they were.
    system.take_disk("data1").unwrap();
    let (mounted, said, failed) = booted(&mut system, "a disk less");
    assert!(!mounted && said.contains("2 of its 3 members"), "{said}");
    assert_eq!(failed, "ebb-scratch.service\n");
    system.shut_down().unwrap();

    // Blank disks, and one with somebody's file system.
    (0..3).for_each(|n| system.put_disk(data(n)).unwrap());
    let foreign = system.disk_file("data2");
    assert!(Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(&foreign).status().unwrap().success());
    let before = std::fs::read(&foreign).unwrap();
    let (mounted, said, failed) = booted(&mut system, "somebody's data");
    assert!(!mounted && said.contains("carries ext4. Nothing was changed"), "{said}");
    assert_eq!(failed, "ebb-scratch.service\n");
    // Who needs what would be there is told at once.
    let start = Instant::now();
    tell(&mut system, "! systemctl start data.mount");
    assert!(start.elapsed() < Duration::from_secs(60));
    system.shut_down().unwrap();
    assert!(std::fs::read(&foreign).unwrap() == before, "what is somebody's was written");
}
