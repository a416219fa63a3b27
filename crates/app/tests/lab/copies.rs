//! Copies on different hosts with a real kernel and real programs: what is run alone, what is brought back by what it missed, and what is not. The hosts
//! are disks of one guest that come and go.

use super::guests::{guest, script, tell};
use ebbtide_lab::guest::Guest;
use serde_json::Value;

const MIB: u64 = 1 << 20;

const EXPERIMENT: &str = r#"name = "copies"
[volumes.a]
device = "/dev/disk/by-id/virtio-a"
host = "storage-a"
[volumes.b]
device = "/dev/disk/by-id/virtio-b"
host = "storage-b"
[volumes.c]
device = "/dev/disk/by-id/virtio-c"
host = "storage-c"
[designs.two]
layout = "replicated"
members = ["a", "b"]
[designs.three]
layout = "replicated"
copies = 3
members = ["a", "b", "c"]
[workloads.w]
rw = "read"
runtime = "1s"
"#;

/// Functions of bash: a disk that is not there (its link is away, the kernel has it still), a write of one letter, what is where.
const TOOLS: &str = r#"
away() { mv /dev/disk/by-id/virtio-$1 /root/link-$1; }
back() { mv /root/link-$1 /dev/disk/by-id/virtio-$1; }
put() { yes $1 | tr -d '\n' | dd of=$2 bs=1M count=1 seek=$3 oflag=direct iflag=fullblock status=none; }
letter() { dd if=$1 bs=1M count=1 skip=$2 iflag=direct status=none | head -c 1; }
synced() { for i in $(seq 1800); do grep -q -E 'resync|recovery' /proc/mdstat || return 0; sleep 0.1; done; false; }
alone() { mdadm --quiet --assemble /dev/md/$1 --run /dev/disk/by-id/virtio-$2; }
mismatches() { echo check >/sys/block/$(basename $(readlink -f /dev/md/$1))/md/sync_action; while ! grep -q idle /sys/block/$(basename $(readlink -f /dev/md/$1))/md/sync_action; do sleep 0.1; done; cat /sys/block/$(basename $(readlink -f /dev/md/$1))/md/mismatch_cnt; }
"#;

fn with_tools(guest: &mut Guest, text: &str) -> String {
    tell(guest, &format!("{TOOLS}{text}"))
}

fn refused(guest: &mut Guest, text: &str) -> String {
    script(guest, &format!("{TOOLS}{text}")).expect_err("is refused")
}

fn status(guest: &mut Guest) -> Value {
    let said = tell(guest, "ebb status --json || true");
    let value: Value = serde_json::from_str(&said).unwrap();
    value["arrays"][0].clone()
}

fn site(name: &str) -> Guest {
    let disks: Vec<(String, u64)> = ["a", "b", "c"].map(|name| (name.to_owned(), 160 * MIB)).to_vec();
    let mut guest = guest(name, &disks);
    tell(
        &mut guest,
        &format!(
            "cat >e.toml <<'E'\n{EXPERIMENT}E\nmodprobe -a raid1 raid10 raid0\nmkdir -p /etc/mdadm /etc/udev/rules.d /var/lib; touch /etc/mdadm/mdadm.conf /etc/fstab"
        ),
    );
    guest
}

/// The case of docs/decisions/re-adding-a-half.md: two halves that ran apart.
#[test]
fn halves_that_ran_apart_are_neither_run_nor_merged() {
    let mut guest = site("copies-two");
    let apply = "ebb apply e.toml:two";
    eprintln!(
        "{}",
        with_tools(&mut guest, &format!("{apply} 2>&1; synced; mdadm --examine /dev/disk/by-id/virtio-a"))
    );
    assert_eq!(status(&mut guest)["state"], "healthy");
    let conf = tell(&mut guest, "cat /etc/mdadm/mdadm.conf; mdadm --detail /dev/md/two");
    assert!(
        conf.contains("ARRAY <ignore> UUID=")
            && conf.contains("failfast")
            && conf.contains("Bitmap : Internal"),
        "{conf}"
    );

    // A half that stood still: what it missed is copied to it, and nothing else.
    with_tools(
        &mut guest,
        "put A /dev/md/two 8; mdadm --quiet /dev/md/two --fail /dev/disk/by-id/virtio-b; put B /dev/md/two 16",
    );
    let said = tell(&mut guest, "ebb status || true; ebb status --openmetrics || true");
    assert!(
        said.contains("host storage-b is there and not in use: 1 of 2 members, which `ebb apply` brings back; no more host may be lost")
            && said.contains("ebbtide_array_can_lose_hosts{array=\"two\"} 0\n"),
        "{said}"
    );
    // What is known to be older is not run, whatever is to be left out.
    let said =
        refused(&mut guest, &format!("mdadm --quiet --stop /dev/md/two; {apply} --without storage-a 2>&1"));
    assert!(
        said.contains("two is not started without a on host storage-a")
            && said.contains("b on host storage-b was away"),
        "{said}"
    );
    with_tools(&mut guest, "alone two a");
    let said = with_tools(&mut guest, &format!("{apply} --dry-run; {apply} 2>&1; synced; mismatches two"));
    assert!(said.contains("--re-add") && !said.contains("--add") && said.ends_with("\n0\n"), "{said}");
    assert_eq!(status(&mut guest)["can_lose_hosts"], 1);

    // Where the other one may be newer, nothing is run.
    let said = with_tools(
        &mut guest,
        "mdadm --quiet --stop /dev/md/two; away b; mdadm --examine /dev/disk/by-id/virtio-a | grep State",
    );
    assert!(said.contains("Array State : AA"), "{said}");
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(
        said.contains("b on host storage-b was in use") && said.contains("--without storage-b"),
        "{said}"
    );
    // Somebody runs each half alone, by hand. The first write of each is enough for the other to be told, and no fewer are there.
    let said = with_tools(
        &mut guest,
        "alone two a; mdadm --examine /dev/disk/by-id/virtio-a | grep 'Array State'; put C /dev/md/two 32\n\
         mdadm --examine /dev/disk/by-id/virtio-a | grep 'Array State'; mdadm --quiet --stop /dev/md/two",
    );
    eprintln!("run alone, before and after the first write:\n{said}");
    assert!(said.ends_with("A. ('A' == active, '.' == missing, 'R' == replacing)\n"), "{said}");
    with_tools(
        &mut guest,
        "back b; away a; alone two b; put D /dev/md/two 128; mdadm --quiet --stop /dev/md/two; back a",
    );
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(said.contains("were both run without the other"), "{said}");

    // One is given up; what it has is overwritten only when that is said.
    let said = with_tools(
        &mut guest,
        &format!("{apply} --without storage-b 2>&1; ebb status || true; letter /dev/md/two 32"),
    );
    assert!(said.contains("host storage-b is out, as asked") && said.ends_with('C'), "{said}");
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(
        said.contains("volume b on host storage-b is not brought back") && said.contains("--destroy"),
        "{said}"
    );
    let said = with_tools(
        &mut guest,
        &format!(
            "{apply} --destroy 2>&1; synced; mismatches two; letter /dev/md/two 32; letter /dev/md/two 8"
        ),
    );
    assert!(said.contains("--zero-superblock") || said.contains("all of it is copied"), "{said}");
    assert!(said.ends_with("0\nCA"), "{said}");
    assert_eq!(status(&mut guest)["state"], "healthy");
    let flags = tell(&mut guest, "mdadm --detail /dev/md/two");
    assert_eq!(flags.matches("failfast").count(), 2, "{flags}");
}

/// A host is taken out for its maintenance, and another is lost meanwhile.
#[test]
fn a_host_is_taken_out_and_brought_back() {
    let mut guest = site("copies-three");
    let apply = "ebb apply e.toml:three";
    with_tools(&mut guest, &format!("{apply} 2>&1; synced"));
    assert_eq!(status(&mut guest)["can_lose_hosts"], 2);
    let said = with_tools(
        &mut guest,
        &format!(
            "{apply} --without storage-b 2>&1; put A /dev/md/three 8; ebb status || true; {apply} --without storage-b"
        ),
    );
    assert!(
        said.contains("host storage-b is out, as asked: 1 of 3 members, which `ebb apply` brings back; you can lose one more host")
            && said.contains("three: nothing that `ebb apply` can do"),
        "{said}"
    );
    with_tools(
        &mut guest,
        "mdadm --quiet /dev/md/three --fail /dev/disk/by-id/virtio-c; put B /dev/md/three 16",
    );
    // The last copy is not taken out.
    let said = refused(&mut guest, &format!("{apply} --without storage-b --without storage-a 2>&1"));
    assert!(said.contains("have no copy in use"), "{said}");
    // A machine that comes back with the two that were away: neither has all.
    with_tools(&mut guest, "mdadm --quiet --stop /dev/md/three; away a");
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(said.contains("storage-a"), "{said}");
    with_tools(&mut guest, "back a");
    let said = with_tools(
        &mut guest,
        &format!(
            "{apply} 2>&1; synced; letter /dev/md/three 8; letter /dev/md/three 16; echo; mismatches three"
        ),
    );
    assert!(said.matches("it stood still").count() == 2 && said.ends_with("AB\n0\n"), "{said}");
    assert_eq!(
        (&status(&mut guest)["state"], &status(&mut guest)["can_lose_hosts"]),
        (&"healthy".into(), &2.into())
    );

    // What was left in peace is known again; what was touched meanwhile is told.
    with_tools(&mut guest, &format!("{apply} --without storage-c 2>&1; put C /dev/md/three 24"));
    with_tools(
        &mut guest,
        "mdadm --quiet --stop /dev/md/three; alone three c; put D /dev/md/three 64; mdadm --quiet --stop /dev/md/three; away c",
    );
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(said.contains("host storage-c is gone") && said.contains("to do: host storage-c"), "{said}");
    with_tools(&mut guest, "back c");
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(said.contains("volume c on host storage-c is not brought back"), "{said}");
    // A disk that was exchanged for a blank one is filled.
    let said = with_tools(
        &mut guest,
        &format!(
            "dd if=/dev/zero of=/dev/disk/by-id/virtio-c bs=1M oflag=direct status=none || true; {apply} 2>&1; synced; mismatches three"
        ),
    );
    assert!(said.contains("all of it is copied") && said.ends_with("0\n"), "{said}");
    assert_eq!(status(&mut guest)["state"], "healthy");
}

/// The case that the model of md found (docs/decisions/what-a-half-says-of-the-other.md): halves that were given up and run by force, twice.
#[test]
fn what_comes_back_to_a_half_that_was_given_up_is_copied_as_a_whole_and_counts_again() {
    let mut guest = site("copies-given-up");
    let apply = "ebb apply e.toml:three";
    with_tools(&mut guest, &format!("{apply} 2>&1; synced"));
    // A and b go on without c, and somebody runs c by force; a is overwritten with what c has.
    with_tools(
        &mut guest,
        "mdadm --quiet /dev/md/three --fail /dev/disk/by-id/virtio-c; put A /dev/md/three 8; mdadm --quiet --stop /dev/md/three\n\
         away a; away b; alone three c; back a",
    );
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(said.contains("volume a on host storage-a is not brought back"), "{said}");
    // Host b is still missing, which its status says.
    with_tools(
        &mut guest,
        &format!("{apply} --destroy 2>&1 || [ $? = 1 ]; synced; mdadm --quiet --stop /dev/md/three"),
    );
    // The array goes on from b, which alone has what was acknowledged; before anything is written somebody runs a by force.
    let said = with_tools(
        &mut guest,
        &format!(
            "back b; away a; away c; {apply} --without storage-a --without storage-c 2>&1; letter /dev/md/three 8; mdadm --quiet --stop /dev/md/three"
        ),
    );
    assert!(said.ends_with('A'), "{said}");
    with_tools(&mut guest, "back a; away b; alone three a; back b");
    let said = refused(&mut guest, &format!("{apply} 2>&1"));
    assert!(
        said.contains("volume b on host storage-b is not brought back: the array was started without it"),
        "{said}"
    );
    assert_eq!(with_tools(&mut guest, "letter /dev/disk/by-id/virtio-b 9"), "A");
    // Both others are overwritten at once, and are copies as before: one that is lost and comes back is given what it missed.
    let said = with_tools(&mut guest, &format!("back c; {apply} --destroy 2>&1; synced; mismatches three"));
    assert!(said.matches("all of it is copied").count() == 2 && said.ends_with("\n0\n"), "{said}");
    for lost in ["a", "b", "c"] {
        let said = with_tools(
            &mut guest,
            &format!(
                "mdadm --quiet /dev/md/three --fail /dev/disk/by-id/virtio-{lost}; put B /dev/md/three 16; {apply} 2>&1; synced; mismatches three"
            ),
        );
        assert!(said.contains("it stood still") && said.ends_with("\n0\n"), "{lost}: {said}");
    }
    assert_eq!(status(&mut guest)["state"], "healthy");
}
