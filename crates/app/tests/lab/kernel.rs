//! `ebb run --on kernel` with real kernels: what every design becomes is read back from the guest, proved block by
//! block, used by a trial and taken apart, and then the guest is as it was.

use super::guests::{guest, script, tell, unchanged};
use ebbtide_lab::guest::Guest;
use serde_json::Value;
use std::fmt::Write;

const MIB: u64 = 1 << 20;

/// Bash functions of this test.
const FUNCTIONS: &str = r#"
# What a run has built.
facts() {
    for md in /sys/block/md*/md; do
        [ -e "$md" ] || continue
        for name in level raid_disks chunk_size layout metadata_version; do echo -n "$name=$(<$md/$name) "; done
        echo "slaves=$(echo $(ls $md/../slaves))"
        (cd $md; grep -s . consistency_policy stripe_cache_size group_thread_cnt || true)
    done
    dmsetup table
    cat /proc/swaps
    top=$(for name in $(ls -d /sys/block/md* /sys/block/dm-* 2>/dev/null); do
        [ -n "$(ls $name/holders)" ] || grep -q "/${name##*/} " /proc/swaps || echo "/dev/${name##*/}"; done | tail -1)
    read -r device directory kind options _ < <(grep /run/ebbtide /proc/mounts) && top=$device
    top=${top:-/dev/vda}
    echo "$kind $options readahead $(blockdev --getra $top)"
    grep -o '\[.*\]' /sys/block/vd?/queue/scheduler
    grep . /sys/block/vd?/queue/{nr_requests,max_sectors_kb}
    case $kind in
        xfs) xfs_info $directory ;;
        ext*) dumpe2fs -h $device 2>/dev/null ;;
    esac
    file=${directory:+$directory/proof}
    # What the run has written on a device is somebody's to any other command: the id is asked for.
    udevadm settle
    id=$(udevadm info -q symlink $top | tr ' ' '\n' | grep -m 1 disk/by-id)
    if losetup --list --noheadings | grep -q . && [ -z "$file" ]; then
        # The run itself has the files behind the loop devices open, so that no other ebb writes to them.
        head -c 4M /dev/urandom >/tmp/data
        dd if=/tmp/data of=$top bs=1M oflag=direct status=none
        dd if=$top bs=1M count=4 iflag=direct status=none | cmp - /tmp/data
    else
        ebb bench ${file:-/dev/$id} --destroy --size 4m --bs 64k --rw randwrite --iodepth 4 --verify --ledger /tmp/ledger -q
    fi
    rm -f /tmp/ledger /tmp/data $file
}
# Until the run stops itself because a design is built, or ends.
built() {
    while read -r _ _ state _ 2>/dev/null </proc/$(<pid)/stat && [ $state != Z ]; do
        [ $state = T ] && echo built && return
        sleep 0.1
    done
    echo ended
}
"#;

struct Case {
    name: &'static str,
    /// Lines of its design.
    design: String,
    /// What must be among the facts, white space made single blanks.
    wants: &'static [&'static str],
}

fn case(name: &'static str, design: impl Into<String>, wants: &'static [&'static str]) -> Case {
    Case { name, design: design.into(), wants }
}

fn array(layout: &str, members: &str) -> String {
    format!("layout = \"{layout}\"\nchunk = \"64KiB\"\nmembers = [{members}]\n")
}

/// The kernel's number of raid10's layout is near copies + 256 * far copies, + 65536 for offset (`raid10_layout`).
fn raid10(arrangement: &str, copies: u32, members: &str) -> String {
    format!("{}arrangement = \"{arrangement}\"\ncopies = {copies}\n", array("raid10", members))
}

fn cases() -> Vec<Case> {
    let tuned = "mount_options = \"noatime\"\nreadahead = \"1MiB\"\nscheduler = \"mq-deadline\"\n\
                 queue_depth = 64\nmax_sectors = \"64KiB\"\n";
    let stripe = |members: &str, chunk: &str| array("stripe", members).replace("64KiB", chunk);
    let (three, four) = ("\"d[0..2]\"", "\"d[0..3]\"");
    let lvm = |name: &str| format!("{{ layout = \"linear\", backing = \"lvm\", members = [\"{name}\"] }}");
    let nested = |members: &str| {
        format!("{{ layout = \"raid10\", arrangement = \"offset\", copies = 3, members = [{members}] }}")
    };
    let lvms = ["d0", "d1", "d2"].map(lvm).join(", ");
    let nested = format!("{}, {}", nested(&lvms), nested("\"d[3..5]\""));
    vec![
        // The first is the control, of which there are two trials.
        case("far-3", raid10("far", 2, three), &["level=raid10 raid_disks=3 chunk_size=65536 layout=513 "]),
        case("far-4", raid10("far", 2, four), &["level=raid10 raid_disks=4 chunk_size=65536 layout=513 "]),
        case("near-3", raid10("near", 2, three), &["level=raid10 raid_disks=3 chunk_size=65536 layout=258 "]),
        case("near-4", raid10("near", 2, four), &["level=raid10 raid_disks=4 chunk_size=65536 layout=258 "]),
        case("offset-3", raid10("offset", 2, three), &["raid_disks=3 chunk_size=65536 layout=66049 "]),
        case("offset-4", raid10("offset", 2, four), &["raid_disks=4 chunk_size=65536 layout=66049 "]),
        case(
            "raid0-2",
            format!("{}filesystem = \"ext4\"\n{tuned}", stripe("\"d[0..1]\"", "64KiB")),
            &[
                "level=raid0 raid_disks=2 chunk_size=65536 ",
                "slaves=vda vdb",
                "ext4 rw,noatime",
                "RAID stride: 16",
                "RAID stripe width: 32",
                "readahead 2048",
                "vda/queue/scheduler:[mq-deadline]",
                "vdb/queue/scheduler:[mq-deadline]",
                "vdc/queue/scheduler:[none]",
                "vdb/queue/nr_requests:64",
                "vdb/queue/max_sectors_kb:64",
            ],
        ),
        case(
            "raid0-4",
            format!("{}filesystem = \"xfs\"\n{tuned}", stripe(four, "256KiB")),
            &[
                "level=raid0 raid_disks=4 chunk_size=262144 ",
                "xfs rw,noatime",
                "sunit=64 swidth=256 blks",
                "readahead 2048",
                "vdd/queue/scheduler:[mq-deadline]",
            ],
        ),
        case(
            "raid0-8-luks",
            format!(
                "{}filesystem = \"xfs\"\nmetadata = \"1.0\"\n\
                 encryption = {{ format = \"luks2\", key_file = \"/root/key\", no_read_workqueue = true, no_write_workqueue = true, \
                 sector_size = 4096 }}\n",
                stripe("\"d[0..7]\"", "512KiB")
            ),
            &[
                "level=raid0 raid_disks=8 chunk_size=524288 ",
                "metadata_version=1.0",
                "crypt aes-xts-plain64",
                "sector_size:4096",
                "no_read_workqueue no_write_workqueue",
                "sunit=128 swidth=1024 blks",
            ],
        ),
        case(
            "raid5",
            format!(
                "{}filesystem = \"ext4\"\nconsistency_policy = \"ppl\"\nstripe_cache_size = 4096\ngroup_thread_cnt = 2\n",
                array("raid5", four)
            ),
            &[
                "level=raid5 raid_disks=4 chunk_size=65536 layout=2 ",
                "stride: 16",
                "stripe width: 48",
                "consistency_policy:ppl",
                "stripe_cache_size:4096",
                "group_thread_cnt:2",
            ],
        ),
        case(
            "raid6",
            format!("{}filesystem = \"xfs\"\n", array("raid6", four)),
            &["level=raid6 raid_disks=4 chunk_size=65536 layout=2 ", "sunit=16 swidth=32 blks"],
        ),
        // Less 1 MiB before the first extent of 4 MiB: 92, 284 and 156 MiB, in the file's order.
        case(
            "lvm-linear",
            "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"u[0..2]\"]\n",
            &["0 188416 linear", "188416 581632 linear", "770048 319488 linear"],
        ),
        case(
            "lvm-striped",
            format!("{}backing = \"lvm\"\nfilesystem = \"xfs\"\n", stripe("\"d[0..1]\"", "256KiB")),
            &["striped 2 512 ", "sunit=64 swidth=128 blks"],
        ),
        case(
            "lvm-cache",
            "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"d0\"]\ncache = { members = [\"d[1..2]\"], kind = \"cache\", mode = \"writeback\" }\n",
            &[" cache 253:", " writeback ", "data_corig: 0 "],
        ),
        case(
            "lvm-writecache",
            format!(
                "{}backing = \"lvm\"\nfilesystem = \"xfs\"\ncache = {{ members = [\"d2\"], kind = \"writecache\" }}\n",
                stripe("\"d[0..1]\"", "256KiB")
            ),
            &[" writecache ", "data_wcorig: 0 ", "striped 2 512 ", "xfs rw"],
        ),
        case(
            "raid0-raid10-lvm",
            format!("layout = \"stripe\"\nmembers = [{nested}]\n"),
            &[
                "level=raid10 raid_disks=3 chunk_size=524288 layout=66305 metadata_version=1.2 slaves=dm-",
                "level=raid10 raid_disks=3 chunk_size=524288 layout=66305 metadata_version=1.2 slaves=vdd vde vdf",
                "level=raid0 raid_disks=2 chunk_size=524288 ",
            ],
        ),
        case("btrfs", "layout = \"linear\"\nmembers = [\"d0\"]\nfilesystem = \"btrfs\"\n", &["btrfs rw"]),
        case("ext2", "layout = \"linear\"\nmembers = [\"d0\"]\nfilesystem = \"ext2\"\n", &["ext2 rw"]),
        case("ext3", "layout = \"linear\"\nmembers = [\"d0\"]\nfilesystem = \"ext3\"\n", &["ext3 rw"]),
        case(
            "loops",
            "layout = \"mirror\"\nmembers = [\"f[0..1]\"]\nbitmap = \"internal\"\n",
            &["level=raid1 raid_disks=2 ", "slaves=loop"],
        ),
        case(
            "swap",
            "layout = \"linear\"\nmembers = [\"d0\"]\nswap = [{ members = [\"d[1..2]\"], priority = 10 }]\n",
            &["/dev/vdb partition 409596 0 10", "/dev/vdc partition 409596 0 10"],
        ),
    ]
}

/// Disks of the guest, by name and bytes: the first is /dev/vda.
fn disks() -> Vec<(String, u64)> {
    let equal = (0..8).map(|number| (format!("d{number}"), 400 * MIB));
    let unequal = [96, 288, 160].iter().enumerate().map(|(number, mib)| (format!("u{number}"), mib * MIB));
    equal.chain(unequal).chain([("files".to_owned(), 1024 * MIB)]).collect()
}

fn experiment(cases: &[Case]) -> String {
    let mut text =
        "name = \"kernel\"\n[volumes.f]\ncount = 2\nsize = \"100MiB\"\ndirectory = \"/mnt\"\n".to_owned();
    for (name, _) in disks().iter().filter(|(name, _)| name != "files") {
        writeln!(
            text,
            "[volumes.{name}]\ndevice = \"/dev/disk/by-id/virtio-{name}\"\nid = \"virtio-{name}\""
        )
        .unwrap();
    }
    for case in cases {
        writeln!(text, "[designs.{}]\n{}", case.name, case.design).unwrap();
    }
    text + "[workloads.w]\nrw = \"randwrite\"\nbs = \"64k\"\nsize = \"2MiB\"\nspan = \"8MiB\"\n\
            [answer]\nlevel = 0.5\nbudget = \"1s\"\n"
}

/// Memory of which a program may have little is written until pages leave it: both swap spaces take as many, as their priorities are equal.
fn press(guest: &mut Guest) {
    let used = tell(
        guest,
        r"
        cd /tmp/full; mkdir groups; mount -t cgroup2 cgroup2 groups; echo +memory >groups/cgroup.subtree_control
        mkdir groups/few; echo 100M >groups/few/memory.max; mkfifo go
        (
            echo $BASHPID >groups/few/cgroup.procs
            { head -c 220M /dev/zero | tr '\0' x; touch written; cat go; } | timeout 100 tail -n 1 >/dev/null
        ) &
        until [ -e written ]; do sleep 0.1; done
        tail -n +2 /proc/swaps | while read -r _ _ _ used _; do echo $used; done
        echo >go; wait
        rmdir groups/few; umount groups; rm -r groups go written
        ",
    );
    let used: Vec<u64> = used.split_whitespace().map(|kib| kib.parse().unwrap()).collect();
    let [one, other] = used[..] else { panic!("two swap spaces, not {used:?}") };
    let (least, most) = (one.min(other), one.max(other));
    assert!(least > 20 << 10 && most <= least * 5 / 4, "KiB of swap in use: {used:?}");
}

#[test]
fn every_design_is_built_proved_used_and_undone() {
    let cases = cases();
    let mut guest = guest("kernel", &disks());
    let text = experiment(&cases);
    let before = tell(
        &mut guest,
        &format!(
            "cat >e.toml <<'E'\n{text}E\nhead -c 32 /dev/urandom >key\nmodprobe -a loop raid0\n\
             mkfs.ext4 -q /dev/disk/by-id/virtio-files\nmount /dev/disk/by-id/virtio-files /mnt\n\
             for disk in /sys/block/vd?; do echo none >$disk/queue/scheduler; done\n\
             mkdir -p /tmp/full .local/state/ebbtide/journals\nstate"
        ),
    );
    let run = "ebb run e.toml --on kernel --destroy --seed 1";
    let plan: Value = serde_json::from_str(&tell(&mut guest, &format!("{run} --dry-run --json"))).unwrap();
    let rounds = plan["plan"]["steps"].as_array().unwrap().iter().filter_map(|step| step["do"].get("round"));
    let trials: Vec<usize> = rounds
        .flat_map(|round| round["trials"].as_array().unwrap())
        .map(|trial| trial["design"].as_u64().unwrap() as usize)
        .collect();

    tell(
        &mut guest,
        &format!(
            "EBB_TEST_HALT=built setsid bash -c '{run} --json >out 2>err & echo $! >pid; wait $!; echo $? >status' \
             </dev/null >/dev/null 2>&1 &\nuntil [ -s pid ]; do sleep 0.1; done"
        ),
    );
    let mut wrong = Vec::new();
    for design in &trials[..=cases.len()] {
        let case = &cases[*design];
        let start = std::time::Instant::now();
        let state = tell(&mut guest, &format!("{FUNCTIONS}built"));
        assert_eq!(state, "built\n", "{}: {}", case.name, tell(&mut guest, "cat err out"));
        match script(&mut guest, &format!("{FUNCTIONS}facts")) {
            Ok(facts) => {
                let single: Vec<String> =
                    facts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
                let missing =
                    case.wants.iter().filter(|want| !single.iter().any(|line| line.contains(*want)));
                let missing: Vec<_> = missing.collect();
                if !missing.is_empty() {
                    wrong.push(format!("{}: {missing:?} is not in\n{}", case.name, single.join("\n")));
                }
            }
            Err(error) => wrong.push(format!("{}: {error}", case.name)),
        }
        if case.name == "swap" {
            assert!(wrong.is_empty(), "{wrong:#?}\n{}", tell(&mut guest, "cat err"));
            press(&mut guest);
        }
        tell(&mut guest, "kill -CONT $(<pid)");
        eprintln!("{:.1} s {}", start.elapsed().as_secs_f64(), case.name);
    }
    // The budget lets no second round begin, and one is no answer.
    assert_eq!(tell(&mut guest, &format!("{FUNCTIONS}built")), "ended\n");
    tell(&mut guest, "until [ -s status ]; do sleep 0.1; done");
    // What a run has encrypted is noise at the beginning of disks, which the kernel may take for a table of partitions: some are known by the sum of
    // a byte alone. A table that somebody made has a signature, which `state` shows.
    tell(
        &mut guest,
        "udevadm settle; for disk in /dev/vd[a-l]; do partx --delete $disk 2>/dev/null || true; done",
    );
    let after = tell(&mut guest, "state");
    assert!(wrong.is_empty(), "{} of {} designs:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(tell(&mut guest, "cat status"), "3\n", "{}", tell(&mut guest, "cat err"));
    let report: Value = serde_json::from_str(&tell(&mut guest, "cat out")).unwrap();
    let (session, wanted) = (&report["session"], (cases.len() + 1).into());
    assert_eq!((&session["trials"], &session["trials_failed"]), (&wanted, &0.into()), "{session:#}");
    assert!(!report["warnings"].to_string().contains("put back"), "{report:#}");
    unchanged(&before, &after, "after the run");
}
