//! `ebb apply`, `ebb status` and `ebb undo` with real kernels and programs, in a guest without systemd: md, LVM, LUKS and swap are made,
//! looked at, broken, mended and taken away, and then the guest is as it was.

use super::guests::{guest, script, tell, unchanged};
use serde_json::Value;
use std::fmt::Write;

const MIB: u64 = 1 << 20;

/// What is applied: the name, where it is mounted, its design.
pub const DESIGNS: [(&str, &str, &str); 3] = [
    (
        "data",
        "/data",
        "layout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"d[0..3]\"]\nfilesystem = \"xfs\"\nmount_options = \"noatime\"\n\
         readahead = \"1MiB\"\nscheduler = \"mq-deadline\"\nqueue_depth = 64\n",
    ),
    (
        "safe",
        "/srv/very safe",
        "layout = \"raid10\"\narrangement = \"offset\"\ncopies = 2\nchunk = \"64KiB\"\nmembers = [\"d[4..6]\"]\nbitmap = \"internal\"\n\
         encryption = { format = \"luks2\", key_file = \"/root/key\" }\nfilesystem = \"ext4\"\n",
    ),
    (
        "wide",
        "/wide",
        "layout = \"stripe\"\nbacking = \"lvm\"\nchunk = \"64KiB\"\nmembers = [\"d[7..10]\"]\nfilesystem = \"ext4\"\n\
         swap = [{ members = [\"d[11..12]\"], priority = 10 }]\n",
    ),
];

pub fn experiment() -> String {
    let mut text = "name = \"apply\"\n".to_owned();
    for number in 0..13 {
        writeln!(
            text,
            "[volumes.d{number}]\ndevice = \"/dev/disk/by-id/virtio-d{number}\"\nid = \"virtio-d{number}\""
        )
        .unwrap();
    }
    for (name, _, design) in DESIGNS {
        writeln!(text, "[designs.{name}]\n{design}").unwrap();
    }
    text + "[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
}

pub fn apply(name: &str) -> String {
    let (_, mountpoint, _) = DESIGNS.iter().find(|(other, ..)| *other == name).unwrap();
    format!("ebb apply e.toml:{name} --mount '{mountpoint}'")
}

/// All that an apply may change and [`super::guests`] does not look at.
pub const ETC: &str = "find /etc -xdev -type f -exec md5sum {} + | grep -v ' /etc/mtab$' | sort\nfind /etc -xdev -printf '%p %m %U %G %l\\n' | sort\n";

fn status(guest: &mut ebbtide_lab::guest::Guest) -> (i64, Value) {
    let said = tell(guest, "s=0; ebb status --json >s.json || s=$?; echo $s; cat s.json");
    let (status, json) = said.split_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(json).unwrap())
}

pub fn states(status: &Value) -> Vec<(&str, &str)> {
    let arrays = status["arrays"].as_array().unwrap();
    arrays.iter().map(|array| (array["name"].as_str().unwrap(), array["state"].as_str().unwrap())).collect()
}

#[test]
fn what_is_applied_stands_is_mended_and_taken_away() {
    let disks: Vec<(String, u64)> = (0..13).map(|number| (format!("d{number}"), 400 * MIB)).collect();
    let mut guest = guest("apply", &disks);
    let before = tell(
        &mut guest,
        &format!(
            "cat >e.toml <<'E'\n{}E\nhead -c 32 /dev/urandom >key\nmodprobe -a raid0 raid10 dm-crypt\nmkdir -p /etc/mdadm /etc/udev/rules.d /etc/lvm/archive /etc/lvm/backup /var/lib /srv\n\
             printf '# mine\\nHOMEHOST <system>' >/etc/mdadm/mdadm.conf\nprintf 'proc /proc proc defaults 0 0\\n' >/etc/fstab\nstate\n{ETC}",
            experiment()
        ),
    );
    // A dry run touches nothing, and what it says is what is done.
    for (name, ..) in DESIGNS {
        let said = tell(&mut guest, &format!("{} --dry-run", apply(name)));
        assert!(said.contains("+++ /etc/fstab") && said.contains("nofail"), "{said}");
    }
    unchanged(&before, &tell(&mut guest, &format!("state\n{ETC}")), "after dry runs");
    for (name, ..) in DESIGNS {
        let start = std::time::Instant::now();
        eprintln!("{}", tell(&mut guest, &format!("{} 2>&1", apply(name))));
        eprintln!("{:.1} s {name}", start.elapsed().as_secs_f64());
    }
    let facts = tell(
        &mut guest,
        "cat /proc/mdstat /proc/mounts /proc/swaps /etc/fstab /etc/mdadm/mdadm.conf /etc/crypttab /etc/udev/rules.d/90-ebb-*\n\
         grep . /sys/block/vd[abcd]/queue/nr_requests; sed 's/.*\\[/scheduler of vda: /; s/\\].*//' /sys/block/vda/queue/scheduler; cat /sys/block/$(basename $(readlink -f /dev/md/data))/queue/read_ahead_kb\n\
         mdadm --detail --export /dev/md/safe; lvs",
    );
    for wanted in [
        "/dev/mapper/safe /srv/very\\040safe ext4",
        " /data xfs rw,noatime",
        "/dev/mapper/wide-data /wide ext4",
        "scheduler of vda: mq-deadline",
        "vdd/queue/nr_requests:64",
        "\n1024\n",
        "MD_NAME=any:safe",
    ] {
        assert!(facts.contains(wanted), "{wanted} is not in\n{facts}");
    }
    let (code, said) = status(&mut guest);
    assert_eq!(
        (code, states(&said)),
        (0, vec![("data", "healthy"), ("safe", "healthy"), ("wide", "healthy")]),
        "{said:#}"
    );
    let lose: Vec<&Value> =
        said["arrays"].as_array().unwrap().iter().map(|array| &array["can_lose"]).collect();
    assert_eq!(lose, [0, 1, 0], "{said:#}");

    // A second time nothing changes.
    // LVM copies a group's metadata below /etc whenever somebody asks for it.
    let then = tell(&mut guest, &format!("vgs >/dev/null; state\n{ETC}"));
    for (name, ..) in DESIGNS {
        let said = tell(&mut guest, &apply(name));
        assert_eq!(said, format!("{name}: nothing to do, all is as it should be\n"));
    }
    unchanged(&then, &tell(&mut guest, &format!("state\n{ETC}")), "after applying again");

    // What somebody changes is said and mended; data stay.
    tell(
        &mut guest,
        "echo kept >/data/file; cp /data/file '/srv/very safe'; cp /data/file /wide; echo none >/sys/block/vda/queue/scheduler\n\
         sed -i '/noatime/d' /etc/fstab; umount /wide; umount '/srv/very safe'; cryptsetup close safe; mdadm --stop /dev/md/safe\n\
         vgchange -an wide; swapoff /dev/vdl",
    );
    let (code, said) = status(&mut guest);
    assert_eq!(
        (code, states(&said)),
        (1, vec![("data", "drifted"), ("safe", "missing"), ("wide", "missing")]),
        "{said:#}"
    );
    for (name, ..) in DESIGNS {
        tell(&mut guest, &apply(name));
    }
    let (code, said) = status(&mut guest);
    assert_eq!(
        (code, states(&said)),
        (0, vec![("data", "healthy"), ("safe", "healthy"), ("wide", "healthy")]),
        "{said:#}"
    );
    assert_eq!(tell(&mut guest, "cat /data/file '/srv/very safe/file' /wide/file"), "kept\nkept\nkept\n");

    // A member that fails is told.
    tell(&mut guest, "mdadm --quiet /dev/md/safe --fail /dev/disk/by-id/virtio-d5");
    let (code, said) = status(&mut guest);
    assert_eq!(
        (code, states(&said)[1], &said["arrays"][1]["can_lose"]),
        (1, ("safe", "degraded"), &0.into()),
        "{said:#}"
    );
    let metrics = tell(&mut guest, "ebb status --openmetrics || true");
    assert!(
        metrics.contains("ebbtide_array_can_lose_members{array=\"safe\"} 0\n")
            && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    tell(
        &mut guest,
        "mdadm --quiet /dev/md/safe --remove /dev/disk/by-id/virtio-d5; mdadm --quiet /dev/md/safe --add /dev/disk/by-id/virtio-d5; mdadm --wait /dev/md/safe || true",
    );

    // What is in use is not taken away; without --destroy members keep their data, and the next apply finds them.
    let said = script(&mut guest, "cd /data; ebb undo data 2>&1").unwrap_err();
    assert!(said.contains("status 1") && said.contains("umount"), "{said}");
    let said = tell(&mut guest, "ebb undo data --dry-run");
    assert!(
        said.contains("umount /data")
            && said.contains("mdadm --stop /dev/md/data")
            && said.contains("--- /etc/fstab"),
        "{said}"
    );
    assert_eq!(tell(&mut guest, "cat /data/file"), "kept\n");
    for (name, ..) in DESIGNS {
        eprintln!("{}", tell(&mut guest, &format!("ebb undo {name} 2>&1")));
    }
    tell(&mut guest, "! grep -E '/data|safe|wide' /proc/mounts; ! grep -q ebb /etc/fstab");
    for (name, ..) in DESIGNS {
        tell(&mut guest, &apply(name));
    }
    assert_eq!(tell(&mut guest, "cat /data/file '/srv/very safe/file' /wide/file"), "kept\nkept\nkept\n");
    for (name, ..) in DESIGNS {
        tell(&mut guest, &format!("ebb undo {name} --destroy"));
    }
    tell(&mut guest, "rm -rf /var/lib/ebbtide");
    unchanged(&before, &tell(&mut guest, &format!("state\n{ETC}")), "after all is taken away");

    // What carries something is not overwritten by anybody's leave but its owner's.
    let said = script(&mut guest, &format!("mkfs.ext4 -q /dev/disk/by-id/virtio-d2; {} 2>&1", apply("data")))
        .unwrap_err();
    assert!(said.contains("status 1") && said.contains("ext4") && said.contains("--destroy"), "{said}");
}

/// Volumes that become larger while they are used, as EBS' do: loop devices over files.
#[test]
fn volumes_that_grow_are_taken_up_while_they_are_used() {
    let text = "name = \"grow\"\n[volumes]\na = { device = \"/dev/disk/by-id/ebb-a\" }\nb = { device = \"/dev/disk/by-id/ebb-b\" }\n\
                c = { device = \"/dev/disk/by-id/ebb-c\" }\nd = { device = \"/dev/disk/by-id/ebb-d\" }\n\
                [designs.pair]\nlayout = \"mirror\"\nmembers = [\"a\", \"b\"]\nbitmap = \"internal\"\nfilesystem = \"ext4\"\n\
                encryption = { format = \"luks2\", key_file = \"/root/key\" }\n\
                [designs.long]\nlayout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"c\", \"d\"]\nfilesystem = \"xfs\"\n\
                [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";
    let mut guest = guest("grow", &[("files".to_owned(), 3072 * MIB)]);
    tell(
        &mut guest,
        &format!(
            "cat >e.toml <<'E'\n{text}E\nhead -c 32 /dev/urandom >key\nmodprobe -a loop raid1 dm-crypt\nmkdir -p /etc/mdadm /etc/udev/rules.d /var/lib\n\
             mkfs.ext4 -q /dev/disk/by-id/virtio-files; mount /dev/disk/by-id/virtio-files /mnt\n\
             for name in a b c d; do truncate -s 256M /mnt/$name; ln -s $(losetup --find --show /mnt/$name) /dev/disk/by-id/ebb-$name; done"
        ),
    );
    for (name, place) in [("pair", "/pair"), ("long", "/long")] {
        eprintln!(
            "{}",
            tell(
                &mut guest,
                &format!("ebb apply e.toml:{name} --mount {place} 2>&1; echo kept >{place}/file")
            )
        );
    }
    let sizes = "df --block-size=1M --output=size /pair /long | tail -n 2 | xargs";
    let before = tell(&mut guest, sizes);
    tell(
        &mut guest,
        "for name in a b c d; do truncate -s 512M /mnt/$name; losetup --set-capacity /dev/disk/by-id/ebb-$name; done; udevadm settle",
    );
    let (code, said) = status(&mut guest);
    assert_eq!((code, states(&said)), (1, vec![("long", "drifted"), ("pair", "drifted")]), "{said:#}");
    assert!(said.to_string().contains("volume a has grown from 256MiB to 512MiB"), "{said:#}");
    for (name, place) in [("pair", "/pair"), ("long", "/long")] {
        eprintln!(
            "{}",
            tell(&mut guest, &format!("ebb apply e.toml:{name} --mount {place} 2>&1; cat {place}/file"))
        );
    }
    let after = tell(&mut guest, sizes);
    let mib =
        |sizes: &str| sizes.split_whitespace().map(|size| size.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let (before, after) = (mib(&before), mib(&after));
    // What file systems keep for themselves grows too.
    assert!(after[0] >= before[0] + 220 && after[1] >= before[1] + 480, "{before:?} {after:?}");
    let (code, said) = status(&mut guest);
    assert_eq!((code, states(&said)), (0, vec![("long", "healthy"), ("pair", "healthy")]), "{said:#}");
}

/// Every so many boundaries one is tried; `EBB_TEST_EVERY=1` asks for all.
fn every() -> usize {
    ebbtide_host::testing::every(5)
}

/// `ebb apply` and `ebb undo` are killed at their boundaries: status says so, and the same command ends what was begun.
#[test]
fn an_apply_and_an_undo_that_were_killed_are_told_and_ended() {
    let text = "name = \"kills\"\n[volumes]\na = { device = \"/dev/disk/by-id/virtio-a\" }\nb = { device = \"/dev/disk/by-id/virtio-b\" }\n\
                [designs.data]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"ext4\"\nscheduler = \"mq-deadline\"\n\
                [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";
    let mut guest = guest("apply-kills", &[("a".to_owned(), 64 * MIB), ("b".to_owned(), 64 * MIB)]);
    let before = tell(
        &mut guest,
        &format!(
            "cat >e.toml <<'E'\n{text}E\nmodprobe raid0\nmkdir -p /etc/mdadm /etc/udev/rules.d /var/lib\nstate\n{ETC}"
        ),
    );
    let apply = "ebb apply e.toml --mount /data -q";
    let mut kills = 0;
    for boundary in (0..).step_by(every()) {
        let start = std::time::Instant::now();
        let killed = |command: &str| {
            format!("s=0; EBB_TEST_HALT={boundary} {command} >/dev/null 2>err || s=$?; echo $s")
        };
        let first = tell(&mut guest, &killed(apply));
        assert!(
            ["0\n", "137\n"].contains(&first.as_str()),
            "{boundary}: {first}{}",
            tell(&mut guest, "cat err")
        );
        let said = tell(&mut guest, "s=0; ebb status || s=$?; echo $s");
        let told = said.contains("was ended before it was done") && said.ends_with("\n1\n");
        let nothing = said.starts_with("nothing was made") && boundary == 0;
        let whole = said.starts_with("data: healthy") && said.ends_with("\n0\n");
        assert!(told || nothing || whole, "{boundary}: {said}");
        tell(&mut guest, &format!("{apply}; ebb status; touch /data/file"));
        let second = tell(&mut guest, &killed("ebb undo data --destroy -q"));
        let said = tell(&mut guest, "s=0; ebb status || s=$?; echo $s");
        let told = said.contains("`ebb undo data` was ended before it was done") && said.ends_with("\n1\n");
        let gone = said.starts_with("nothing was made");
        let whole = said.starts_with("data: healthy");
        assert!(told || gone || whole, "{boundary}: {said}");
        if !gone {
            tell(&mut guest, "ebb undo data --destroy -q");
        }
        // What one round has left between the ends of the members would be asked about in the next.
        let blank = "for d in a b; do blkdiscard --force --zeroout /dev/vd$d; done";
        let after = tell(&mut guest, &format!("rm -f err; {blank}; state\n{ETC}"));
        unchanged(&before, &after, &format!("killed at boundary {boundary}"));
        kills += usize::from(first == "137\n") + usize::from(second == "137\n");
        eprintln!("{:.1} s boundary {boundary}", start.elapsed().as_secs_f64());
        if first == "0\n" && second == "0\n" {
            break;
        }
    }
    assert!(kills * every() >= 40, "{kills} kills");
}
