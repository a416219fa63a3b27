//! What is said while an `ebb apply` runs, when it is ended and resumed, and when a host of its members is gone, with real md (User-Mode Linux).

use ebbtide_lab::uml::{Guest, Kernel};
use std::time::Duration;

/// `update-initramfs` waits until it is let go; each command is told with its exit status. What is written to `/` is the guest's own.
const SCRIPT: &str = r#"
exec 2>&1
export DM_DISABLE_UDEV=1 PATH=EBB:$PATH
modprobe raid1
mkdir -p /dev/disk/by-id /etc/mdadm /etc/udev/rules.d /data
for d in a b; do ln -s /dev/ubd$d /dev/disk/by-id/t-$d; done
cat >/e.toml <<'E'
name = "copies"
[volumes.a]
device = "/dev/disk/by-id/t-a"
host = "storage-a"
[volumes.b]
device = "/dev/disk/by-id/t-b"
host = "storage-b"
[designs.two]
layout = "replicated"
members = ["a", "b"]
filesystem = "ext4"
[workloads.w]
rw = "read"
runtime = "1s"
E
printf '#!/bin/sh\ntouch /run/waits; while [ ! -e /run/go ]; do sleep 0.1; done\n' >/usr/sbin/update-initramfs
chmod +x /usr/sbin/update-initramfs
rm -rf /var/lib/ebbtide
: >/etc/fstab
apply='ebb apply /e.toml --mount /data'
told() { echo "== $1"; shift; "$@"; echo "status $?"; }
$apply -q &
pid=$!
while [ ! -e /run/waits ]; do kill -0 $pid || break; sleep 0.1; done
echo "pid $pid"
told 'at work' ebb status
told 'another' $apply
kill -9 $pid
wait $pid 2>/dev/null
told 'ended' ebb status
told 'left' ebb undo two
touch /run/go
while pgrep -f sbin/update-initramfs >/dev/null; do sleep 0.1; done
told 'resumed' $apply
mdadm --quiet /dev/md/two --fail /dev/disk/by-id/t-b
mv /dev/disk/by-id/t-b /run/t-b
told 'gone' ebb status
told 'apply' $apply
told 'dry run' $apply --dry-run
told 'without' $apply --without storage-b
mv /run/t-b /dev/disk/by-id/t-b
told 'back' $apply
told 'whole' $apply
echo ==
"#;

#[test]
fn what_runs_and_who_is_missing_is_told() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let disks: Vec<_> = ["a", "b"].map(|name| place.path().join(name)).into();
    for disk in &disks {
        std::fs::File::create(disk).unwrap().set_len(64 << 20).unwrap();
    }
    let ebb = std::path::Path::new(env!("CARGO_BIN_EXE_ebb")).parent().unwrap();
    let script = SCRIPT.replace("EBB", ebb.to_str().unwrap());
    let lab = ebbtide_runner::places::lab().unwrap();
    let kernel = Kernel::ready(&lab, &mut |text| eprintln!("{text}")).unwrap();
    let guest = Guest { script, disks, ..Guest::default() };
    let said = guest.run(&kernel, Duration::from_secs(600)).unwrap().output;
    eprintln!("{said}");
    let part = |name: &str| {
        let (_, rest) = said.split_once(&format!("== {name}\n")).unwrap();
        rest.split_once("\n==").unwrap().0.trim_end()
    };
    let pid = said.split_once("pid ").unwrap().1.lines().next().unwrap();
    let gone = "host storage-b is gone: 1 of 2 members";
    let remedy = "to do: host storage-b: attach its volumes again";
    let left = " of a killed `ebb";
    let at_work = format!("`ebb apply` of two is at work (process {pid}, since 2");
    for (name, status, has, lacks) in [
        ("at work", 1, vec![at_work.as_str(), "`update-initramfs -u`"], "was ended"),
        ("another", 1, vec![at_work.as_str(), "wait until it has ended"], "applied"),
        ("ended", 1, vec!["`ebb apply` was ended before it was done", left], "`ebb apply` of two is at work"),
        ("left", 1, vec![left, "wait until it has ended"], "taken away"),
        ("resumed", 0, vec!["two: applied (0 steps, 0 files, `update-initramfs -u`)"], "nothing to do"),
        ("gone", 1, vec![gone, remedy], "all is as it should be"),
        ("apply", 1, vec!["two: nothing that `ebb apply` can do", gone, remedy], "to do, all is"),
        ("dry run", 1, vec!["two: nothing that `ebb apply` can do", gone, remedy], "to do, all is"),
        ("without", 0, vec!["host storage-b is out, as asked"], "to do:"),
        ("back", 0, vec!["--re-add /dev/disk/by-id/t-b", "two: applied (1 step"], "gone"),
        ("whole", 0, vec!["two: nothing to do, all is as it should be"], "gone"),
    ] {
        let part = part(name);
        assert!(part.ends_with(&format!("status {status}")) && !part.contains(lacks), "{name}: {part}");
        assert!(has.iter().all(|words| part.contains(words)), "{name}, {has:?}: {part}");
    }
}
