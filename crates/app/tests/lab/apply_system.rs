//! `ebb apply` in a system that boots: everything is back after a reboot under its own name, and after an undo the system is what it was;
//! instance store is made anew where all of it came back blank, and only then.

use super::apply::{DESIGNS, ETC, apply, experiment, states};
use super::system::{disk, system, tell};
use ebbtide_lab::system::{Life, SystemGuest};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// What must be the same before and after: devices and what is on them, the host's files, what the initramfs has of mdadm's configuration
/// (but the hour at which Debian wrote it).
fn state() -> String {
    format!(
        "udevadm settle; lsblk -rno NAME,TYPE,SIZE,MOUNTPOINTS; wipefs $(lsblk -rnpo NAME); cat /proc/swaps; {ETC}\
         zstd -dcq /boot/initrd.img-* | cpio --quiet -i --to-stdout '*etc/mdadm/mdadm.conf' | grep -v auto-generated | tee /root/in-initramfs; [ -s /root/in-initramfs ]\n"
    )
}

fn running(life: &Life, guest: &mut SystemGuest, when: &str) {
    let failed = tell(guest, "systemctl --failed --no-legend; journalctl -b --no-pager -u 'ebb-*'");
    assert_eq!(life.state, "running", "{when}: {life:?}: {failed}");
}

fn status(guest: &mut SystemGuest) -> (i64, Value) {
    let said = tell(guest, "s=0; ebb status --json >s.json || s=$?; echo $s; cat s.json");
    let (status, json) = said.split_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(json).unwrap())
}

fn timed<T>(what: &str, does: impl FnOnce() -> T) -> T {
    let start = std::time::Instant::now();
    let done = does();
    eprintln!("{:.1} s {what}", start.elapsed().as_secs_f64());
    done
}

#[test]
#[ignore = "makes an initramfs six times, two minutes of a processor: `cargo test -p ebbtide --test lab apply_system -- --ignored`"]
fn what_is_applied_is_back_after_a_reboot_and_an_undo_leaves_what_was_before() {
    let disks = (0..13).map(|number| disk(&format!("d{number}"), 400 * MIB)).collect();
    let mut guest = system("apply", disks);
    let life = timed("first boot", || guest.boot().unwrap());
    running(&life, &mut guest, "at first");
    let prepare = format!(
        "cat >/root/e.toml <<'E'\n{}E\nhead -c 32 /dev/urandom >/root/key\n{}",
        experiment(),
        state()
    );
    let before = timed("before", || tell(&mut guest, &prepare));
    for (name, ..) in DESIGNS {
        let said = timed(name, || tell(&mut guest, &format!("cd /root; {} 2>&1", apply(name))));
        assert!(said.contains("applied"), "{said}");
    }
    let healthy = vec![("data", "healthy"), ("safe", "healthy"), ("wide", "healthy")];
    tell(&mut guest, "echo kept >/data/file; cp /data/file '/srv/very safe'; cp /data/file /wide; sync");
    let life = timed("reboot", || guest.reboot().unwrap());
    running(&life, &mut guest, "after the reboot");
    let (code, said) = status(&mut guest);
    assert_eq!(
        (code, states(&said)),
        (0, healthy.clone()),
        "{said:#}\n{}",
        tell(
            &mut guest,
            "lsblk; cat /proc/mdstat /etc/fstab; journalctl -b --no-pager -p warning | tail -50"
        )
    );
    let facts = tell(
        &mut guest,
        "cat /data/file '/srv/very safe/file' /wide/file; ls /dev/md; cat /proc/swaps; grep . /sys/block/vd?/queue/scheduler; cat /sys/block/$(basename $(readlink -f /dev/md/data))/queue/read_ahead_kb",
    );
    assert!(
        facts.starts_with("kept\nkept\nkept\ndata\nsafe\n")
            && facts.contains("[mq-deadline]")
            && facts.contains("\n1024\n"),
        "{facts}"
    );
    // A second time nothing changes.
    for (name, ..) in DESIGNS {
        let said = timed("again", || tell(&mut guest, &format!("cd /root; {}", apply(name))));
        assert_eq!(said, format!("{name}: nothing to do, all is as it should be\n"));
    }
    // Power is cut in the middle of an undo and of an apply; afterwards the system boots, status says so, and the same command ends it.
    let cut = "cd /root; EBB_TEST_HALT=9 ebb undo wide --destroy 2>&1 || true; sync";
    eprintln!("{}", tell(&mut guest, cut));
    guest.hardware.cut_power();
    let life = timed("boot after a cut", || guest.boot().unwrap());
    assert!(life.state == "running", "{life:?}");
    let (code, said) = status(&mut guest);
    assert!(code == 1 && said.to_string().contains("ebb undo wide"), "{said:#}");
    for (name, ..) in DESIGNS.iter().rev() {
        timed("undo", || tell(&mut guest, &format!("ebb undo {name} --destroy 2>&1")));
    }
    let after = tell(&mut guest, &format!("rm -rf /var/lib/ebbtide /root/s.json\n{}", state()));
    super::guests::unchanged(&before, &after, "after everything was undone");
}

#[test]
fn instance_store_is_made_anew_at_boot_if_all_of_it_is_blank() {
    let blank = |guest: &mut SystemGuest, name: &str| guest.hardware.put_disk(disk(name, 400 * MIB)).unwrap();
    let mut guest =
        system("ephemeral", ["d0", "d1", "d2", "d3"].iter().map(|name| disk(name, 400 * MIB)).collect());
    guest.boot().unwrap();
    // Where it is installed, as what runs at boot has it.
    let prepare = format!(
        "cp /ebb/ebb /usr/bin/ebb; cd /root; cat >e.toml <<'E'\n{}E\n/usr/bin/{} --class ephemeral 2>&1",
        experiment(),
        apply("data")
    );
    eprintln!("{}", tell(&mut guest, &prepare));
    tell(&mut guest, "echo kept >/data/file; sync");
    let life = timed("reboot", || guest.reboot().unwrap());
    running(&life, &mut guest, "after the reboot");
    assert_eq!(tell(&mut guest, "cat /data/file"), "kept\n");
    // A stop and a start: all disks are blank.
    guest.shut_down().unwrap();
    ["d0", "d1", "d2", "d3"].iter().for_each(|name| blank(&mut guest, name));
    let life = timed("boot with blank disks", || guest.boot().unwrap());
    running(&life, &mut guest, "with blank disks");
    let (code, said) = status(&mut guest);
    assert_eq!((code, states(&said)), (0, vec![("data", "healthy")]), "{said:#}");
    let said = tell(&mut guest, "ls /data; findmnt -no SOURCE /data; echo new >/data/file; ls /dev/md");
    assert!(said.starts_with("/dev/md") && said.ends_with("\ndata\n"), "empty, under its name: {said}");
    // One of them blank: nothing is made, and the system boots.
    guest.shut_down().unwrap();
    blank(&mut guest, "d1");
    let life = timed("boot with one blank disk", || guest.boot().unwrap());
    assert!(life.state == "degraded", "{life:?}");
    let said = tell(
        &mut guest,
        "findmnt /data || echo not mounted; wipefs -n /dev/disk/by-id/virtio-d1; systemctl --failed --no-legend --plain | cut -d' ' -f1",
    );
    assert!(said.starts_with("not mounted\n") && said.contains("ebb-data.service"), "{said}");
    let (code, said) = status(&mut guest);
    assert_eq!((code, states(&said)), (1, vec![("data", "missing")]), "{said:#}");
}

#[test]
#[ignore = "waits at boot for a disk that does not come, four minutes: `cargo test -p ebbtide --test lab apply_system::an_array -- --ignored`"]
fn an_array_that_lost_a_disk_is_started_by_the_command_that_is_printed() {
    let mut guest = system("lost", (4..7).map(|number| disk(&format!("d{number}"), 400 * MIB)).collect());
    guest.boot().unwrap();
    // `safe` is a RAID10 of three with LUKS.
    let (design, apply) = (experiment(), apply("safe"));
    let prepare = format!(
        "cd /root; head -c 32 /dev/urandom >key; cat >e.toml <<'E'\n{design}E\n{apply} 2>&1; echo kept >'/srv/very safe/file'; \
         mdadm --wait /dev/md/safe || true"
    );
    eprintln!("{}", tell(&mut guest, &prepare));
    guest.shut_down().unwrap();
    guest.hardware.machine().disks.retain(|disk| disk.name != "d5");
    let life = guest.boot().unwrap();
    assert_eq!(life.state, "running", "{life:?}");
    let (code, said) = status(&mut guest);
    assert_eq!((code, states(&said)), (1, vec![("safe", "missing")]), "{said:#}");
    let way_on = format!(
        "cd /root; ! {apply} >said 2>&1; cat said; command=$(sed -n 's/.*Or go on without: `\\([^`]*\\)`.*/\\1/p' said); \
         sh -exc \"$command\" 2>&1; {apply} 2>&1 || [ $? = 1 ]; cat '/srv/very safe/file'"
    );
    let said = tell(&mut guest, &way_on);
    assert!(said.contains("volume d5 is missing") && said.ends_with("kept\n"), "{said}");
    let (code, said) = status(&mut guest);
    assert_eq!((code, states(&said)), (1, vec![("safe", "degraded")]), "{said:#}");
}
