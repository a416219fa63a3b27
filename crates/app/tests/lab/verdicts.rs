//! Causes made in a guest, of which the verdict must come first: limits of QEMU and of a cgroup, on disks, md and LVM; a slow member;
//! parity; the one thread of an array; latency that only more in flight would hide; durable writes; others at work. What the host's own devices cannot show
//! (`cargo xtask verdicts --real` has those).

use super::guests::{guest_with, script};
use ebbtide_lab::disks::{Bus, Disk, Throttle};
use ebbtide_lab::guest::Guest;
use ebbtide_model::volume::Limit;
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Operations per second of the disks a to i, below what an emulated processor does.
const IOPS: f64 = 300.0;
/// Those of the slow disk, j.
const SLOW: f64 = 60.0;
/// Bytes per second of disk k.
const BYTES: f64 = 6e6;

/// The last one, l, has no limit.
fn disks() -> Vec<Disk> {
    let throttle = |name: char| match name {
        'j' => Throttle { iops: Some(Limit::steady(SLOW)), ..Throttle::default() },
        'k' => Throttle { throughput: Some(Limit::steady(BYTES)), ..Throttle::default() },
        'l' => Throttle::default(),
        _ => Throttle { iops: Some(Limit::steady(IOPS)), ..Throttle::default() },
    };
    let disk = |name: char| Disk {
        name: name.to_string(),
        bus: Bus::Virtio,
        size: 96 * MIB,
        throttle: throttle(name),
        link: None,
    };
    ('a'..='l').map(disk).collect()
}

const SET_UP: &str = r#"
    mdadm --quiet --create /dev/md0 --run --assume-clean --level=0 --chunk=64 --raid-devices=2 /dev/vd[ab]
    mdadm --quiet --create /dev/md1 --run --assume-clean --level=1 --bitmap=none --raid-devices=2 /dev/vd[cd]
    mdadm --quiet --create /dev/md5 --run --assume-clean --level=5 --bitmap=none --chunk=64 --raid-devices=3 /dev/vd[efg]
    mdadm --quiet --create /dev/md6 --run --assume-clean --level=0 --chunk=64 --raid-devices=2 /dev/vd[ij]
    pvcreate -q -y /dev/vdh /dev/vdl >/dev/null
    vgcreate -q -s 1m limited /dev/vdh >/dev/null
    vgcreate -q -s 1m free /dev/vdl >/dev/null
    lvcreate -q -y -Wn -l 64 -n volume limited >/dev/null
    lvcreate -q -y -Wn -l 64 -n volume free >/dev/null
    modprobe dm-delay
    echo "0 $(blockdev --getsz /dev/free/volume) delay /dev/free/volume 0 10" | dmsetup create slow
    mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null || true
    echo +io >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p /sys/fs/cgroup/held /mnt/files
    udevadm settle
"#;

/// What says that a volume is at its limit: of one that an emulated machine enforces, it may not show that the rate is set.
const LIMIT: &[&str] = &["rate-limit", "volume-limit"];

/// A cause, how the load is started (`ebb bench` is `$BENCH`), and the verdicts that say so.
const CASES: &[(&str, &str, &[&str])] = &[
    ("operations that QEMU lets pass", "$BENCH /dev/vdh --rw randread --bs 4k --iodepth 16", LIMIT),
    ("bytes that QEMU lets pass", "$BENCH /dev/vdk --rw randread --bs 64k --iodepth 8", LIMIT),
    ("the same below LVM", "$BENCH /dev/limited/volume --rw randread --bs 4k --iodepth 16", LIMIT),
    ("the same below each half of a RAID0", "$BENCH /dev/md0 --rw randread --bs 4k --iodepth 32", LIMIT),
    (
        "the same below both copies of a RAID1",
        "$BENCH /dev/md1 --rw randwrite --bs 4k --iodepth 16 --destroy",
        LIMIT,
    ),
    ("a slow member of a RAID0", "$BENCH /dev/md6 --rw randread --bs 4k --iodepth 16", &["member"]),
    (
        "small writes to a RAID5",
        "$BENCH /dev/md5 --rw randwrite --bs 4k --iodepth 16 --destroy",
        &["partial-stripe"],
    ),
    (
        "operations that a cgroup lets pass",
        r#"number=$(cat /sys/block/vdl/dev); echo "$number riops=200" >/sys/fs/cgroup/held/io.max
        (echo $BASHPID >/sys/fs/cgroup/held/cgroup.procs; exec $BENCH /dev/vdl --rw randread --bs 4k --iodepth 16)
        echo "$number riops=max" >/sys/fs/cgroup/held/io.max"#,
        LIMIT,
    ),
    (
        "one at a time, 10 ms each",
        "$BENCH /dev/mapper/slow --rw randread --bs 4k --iodepth 1",
        &["concurrency"],
    ),
    (
        "durable writes one at a time, 10 ms each",
        "$BENCH /dev/mapper/slow --rw randwrite --bs 4k --iodepth 1 --sync=1 --destroy",
        &["sync-writes"],
    ),
    (
        "another reader of the same disk",
        // Until it reads: on a busy machine fio takes longer to start than the trials to end.
        r"reads() { awk '{ print $1 }' /sys/block/vda/stat; }; before=$(reads)
        fio --name=other --filename=/dev/vda --size=64m --rw=randread --bs=4k --direct=1 --iodepth=32 --ioengine=io_uring \
            --time_based --runtime=300 >/dev/null & other=$!
        while kill -0 $other && [ $(reads) -lt $((before + 500)) ]; do sleep 0.1; done
        $BENCH /dev/md0 --rw randread --bs 4k --iodepth 4; kill $other; wait $other || true",
        &["background"],
    ),
    ("large reads of a disk with a limit of bytes", "$BENCH /dev/vdk --rw read --bs 1m --iodepth 2", LIMIT),
    (
        "another reader of one of the three disks of a RAID5",
        r"reads() { awk '{ print $1 }' /sys/block/vdf/stat; }; before=$(reads)
        fio --name=other --filename=/dev/vdf --size=64m --rw=randread --bs=4k --direct=1 --iodepth=32 --ioengine=io_uring \
            --time_based --runtime=300 >/dev/null & other=$!
        while kill -0 $other && [ $(reads) -lt $((before + 500)) ]; do sleep 0.1; done
        $BENCH /dev/md5 --rw randread --bs 4k --iodepth 8; kill $other; wait $other || true",
        &["background"],
    ),
    (
        "the one thread of a RAID6 in memory",
        r"modprobe null_blk nr_devices=0; mount -t configfs none /sys/kernel/config 2>/dev/null || true
        for disk in 0 1 2 3 4 5; do
            mkdir /sys/kernel/config/nullb/nullb$disk; cd /sys/kernel/config/nullb/nullb$disk
            echo 32 >size; echo 1 >memory_backed; echo 1 >power
        done
        udevadm settle
        mdadm --quiet --create /dev/md9 --run --assume-clean --level=6 --bitmap=none --chunk=64 --raid-devices=6 /dev/nullb[0-5]
        $BENCH /dev/md9 --rw randwrite --bs 16k --iodepth 64 --destroy",
        &["cpu"],
    ),
];

fn first(guest: &mut Guest, start: &str) -> Result<Value, String> {
    let said = script(guest, &format!("BENCH='ebb bench --runtime 4 --json -q'\n{start}"))?;
    let value: Value = serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))?;
    Ok(value["jobs"][0]["ebbtide"].clone())
}

fn kind(run: &Value) -> &str {
    run["verdicts"][0]["kind"].as_str().unwrap()
}

/// Of what the first explains, what a cause explains that comes second and is as large, as in docs/explanation/verdict-accuracy.md.
const AS_LARGE: f64 = 0.90;

/// Whether a cause comes first that `truth` has, or one that is as large comes second: beside others more in flight may gain as much as their end.
fn is_named(run: &Value, truth: &[&str]) -> bool {
    let [first, second] = [0, 1].map(|place| &run["verdicts"][place]);
    let of_truth = |verdict: &Value| verdict["kind"].as_str().is_some_and(|kind| truth.contains(&kind));
    let explains = |verdict: &Value| verdict["explains"].as_f64().unwrap_or(0.0);
    of_truth(first)
        || (first["kind"] == "concurrency"
            && of_truth(second)
            && explains(second) >= AS_LARGE * explains(first))
}

/// How often a guest is asked that does not know: one that has hardly a processor now may have one then.
const TIMES: usize = 4;

/// An emulated guest on a busy machine has no even rates: there a limit may stay unknown, and what no rate has to show is named if
/// not at once. Nothing else may ever come first that explains more.
#[test]
#[ignore = "judges figures of an emulated guest, which a busy machine changes: `cargo test -p ebbtide --test lab verdicts:: -- --ignored`"]
fn what_is_made_in_a_guest_is_named_first() {
    let mut guest = guest_with("verdicts", disks());
    script(&mut guest, SET_UP).unwrap();
    let (mut named, mut wrong) = (0, Vec::new());
    for (what, start, truth) in CASES {
        let mut ask = || first(&mut guest, start).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut run = ask();
        let is_limit = truth.contains(&"rate-limit");
        for _ in 1..TIMES {
            if is_limit || kind(&run) != "unknown" {
                break;
            }
            run = ask();
        }
        let (is_named, excused) = (is_named(&run, truth), kind(&run) == "unknown" && is_limit);
        named += u32::from(is_named);
        if !is_named && !excused {
            wrong.push(format!("{what}: {truth:?}, but {}, {}", run["verdicts"], run["ruled_out"]));
        }
    }
    eprintln!("{named} of {} named", CASES.len());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
