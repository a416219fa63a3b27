//! `ebb attach` between guests: through SSH and directly, encrypted, cut, killed, and restored on another guest.

use super::guests::{qemu_laboratory, script};
use super::ssh_hosts::{Net, VOLUME};
use ebbtide_lab::guest::Guest;
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Found nowhere but where it was written in plain.
const MARKER: &str = "EBB-PLAIN-MARKER-7f3a";

/// What an attachment may leave on a client, or on the storage host.
const TRACES: &str = r#"
traces() {
    udevadm settle
    ls /sys/class/nvme /sys/class/iscsi_session 2>/dev/null | grep -v -e : -e '^$' || true
    dmsetup ls | grep -v 'No devices' || true
    grep -e /srv -e /backup /proc/mounts || true
    find /etc/iscsi/nodes /run/ebbtide-attached /var/lib/ebbtide -name '*.json' -o -name 'ssh' 2>/dev/null || true
    find /root/.local/state/ebbtide/journals -type f 2>/dev/null || true
    pgrep -af '[a]ttach-supervisor|^[s]sh .*-N -M' || true
    find /sys/kernel/config/nvmet/subsystems /sys/kernel/config/target/iscsi -mindepth 1 -maxdepth 1 -name '*qn.*' 2>/dev/null || true
    ls /home/ada/.cache/ebbtide 2>/dev/null || true
}
"#;

impl Net {
    /// Nothing of an attachment is left on the storage host.
    fn nothing_there(&mut self, when: &str) {
        assert_eq!(traces(&mut self.store), "", "on the storage host, {when}");
    }
}

fn traces(guest: &mut Guest) -> String {
    script(guest, &format!("{TRACES}traces")).unwrap()
}

fn tell(guest: &mut Guest, text: &str) -> String {
    script(guest, text).unwrap()
}

fn status(guest: &mut Guest) -> Value {
    let said = tell(guest, "ebb status --json || true");
    let status: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    status["attached"][0].clone()
}

/// The whole of it as a user would: by somebody who has SSH and sudo there, encrypted, mounted; the other side and the wire see nothing
/// plain; the local machine is lost, and another one restores the tree with key and copy of the header alone, although the header on
/// the other side is destroyed.
#[test]
fn a_backup_outlives_the_machine_and_the_other_side_sees_nothing_plain() {
    let mut net = Net::new("drill", 64 * MIB);
    let mut desk = net.client(2, "desk");
    tell(
        &mut net.store,
        "setsid tcpdump -Z root -i eth0 -U -s 0 -w /run/wire.pcap tcp port 22 >/run/tcpdump.log 2>&1 & sleep 3; pgrep -x tcpdump || { cat /run/tcpdump.log; exit 1; }",
    );
    tell(&mut desk, "head -c 48 /dev/urandom | base64 -w0 >key; chmod 600 key");
    let attach = format!(
        "ebb attach ada@store:{VOLUME} --transport iscsi --name backup --encrypt key --header-backup header --mount /srv/backup"
    );
    let said = tell(&mut desk, &attach);
    for words in ["attached as /dev/mapper/backup on /srv/backup", "encrypted now", "luksHeaderRestore"] {
        assert!(said.contains(words), "{said}");
    }
    let sums = tell(
        &mut desk,
        &format!(
            "cd /srv/backup; mkdir -p tree/deep; for i in $(seq 40); do for j in $(seq 200); do echo '{MARKER}' $i $j; done >tree/deep/f$i; done
             head -c 8M /dev/urandom >tree/random; ln -s deep/f1 tree/link; find tree -type f -exec md5sum {{}} + | sort -k2 >/root/sums; sync; cat /root/sums"
        ),
    );
    let now = status(&mut desk);
    assert_eq!(
        (now["state"].as_str(), now["encryption"].as_str(), now["ssh"].as_bool(), now["host"].as_str()),
        (Some("connected"), Some("luks2"), Some(true), Some("ada@store")),
        "{now}"
    );
    let text = tell(&mut desk, "ebb status");
    assert!(
        text.contains("backup: attached, connected since 20") && text.contains("encrypted here (LUKS2)"),
        "{text}"
    );
    let [header, whole_key] = ["header", "key"].map(|file| desk.capture(&["cat", file], b"").unwrap().output);
    let key = tell(&mut desk, "base64 -w0 key");
    secrets_are_nowhere(&mut desk, &key);
    secrets_are_nowhere(&mut net.store, &key);
    // The machine is lost: its disk, its records, its session.
    drop(desk);
    tell(&mut net.store, "pkill -x tcpdump; sleep 1; sync");
    let plain = tell(
        &mut net.store,
        &format!(
            "echo $(grep -a -c '{MARKER}' {VOLUME}) $(grep -a -c '{MARKER}' /run/wire.pcap) $(stat -c %s /run/wire.pcap); echo '{MARKER}' | grep -c '{MARKER}'"
        ),
    );
    let figures: Vec<u64> = plain.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    assert_eq!((figures[0], figures[1], figures[3]), (0, 0, 1), "{plain}");
    assert!(figures[2] > 8 * MIB, "the wire was listened to: {plain}");
    // What the lost machine was connected to is taken away there, and the header is destroyed.
    tell(
        &mut net.store,
        &format!(
            "rm /run/wire.pcap; ebb undo backup --force; dd if=/dev/zero of={VOLUME} bs=1M count=16 conv=fsync status=none"
        ),
    );
    let mut other = net.client(3, "other");
    for (file, content) in [("header", &header), ("key", &whole_key)] {
        let write = format!("umask 077; cat >{file}");
        assert_eq!(other.capture(&["bash", "-c", &write], content).unwrap().status, 0);
    }
    let said = tell(&mut other, &attach);
    assert!(!said.contains("encrypted now"), "{said}");
    let restored = tell(&mut other, "cd /srv/backup; find tree -type f -exec md5sum {} + | sort -k2");
    assert_eq!(restored, sums);
    let said = tell(&mut other, "ebb undo backup");
    assert!(said.contains("backup: detached"), "{said}");
    assert_eq!(traces(&mut other), "");
    net.nothing_there("after the restore");
    // Without the copy of the header nothing is formatted anew.
    let refused = script(&mut other, &attach.replace("--header-backup header", "")).unwrap_err();
    assert!(refused.contains("not formatted a second time"), "{refused}");
    net.nothing_there("after the refusal");
}

/// No process shows the key in its arguments or its environment, and no file of `ebb`'s has it. `key` in base64.
fn secrets_are_nowhere(guest: &mut Guest, key: &str) {
    let said = tell(
        guest,
        &format!(
            r#"echo {key} | base64 -d >/run/needle
            for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ $(find /var/lib/ebbtide /run/ebbtide-attached /root/.local/state -type f 2>/dev/null); do
                LC_ALL=C grep -a -q -F -f /run/needle "$file" 2>/dev/null && echo "$file"
            done; rm /run/needle"#
        ),
    );
    assert_eq!(said, "");
}

/// Twenty times the connection is cut, in the ways in which it is: `ssh` killed here, its server killed there, the link down. What is
/// written meanwhile is read back, and is what was written.
#[test]
#[ignore = "twenty cuts take two minutes: `cargo test -p ebbtide --test lab attach::twenty_cuts_of_the_connection_corrupt_nothing -- --ignored`"]
fn twenty_cuts_of_the_connection_corrupt_nothing() {
    let mut net = Net::new("cuts", 256 * MIB);
    let mut desk = net.client(2, "desk");
    tell(&mut desk, "head -c 48 /dev/urandom | base64 -w0 >key; chmod 600 key");
    tell(
        &mut desk,
        &format!(
            "ebb attach root@store:{VOLUME} --transport iscsi --name data --encrypt key --mount /srv/data --hold 120s -q"
        ),
    );
    tell(
        &mut desk,
        r#"cat >write.sh <<'END'
n=0
while [ ! -e stop ]; do
    n=$((n + 1)); head -c 512K /dev/urandom >source
    dd if=source of=/srv/data/f$n bs=64k conv=fsync status=none 2>error || { echo "write $n failed: $(cat error)" >failed; exit 1; }
    md5sum <source >sum$n; echo $n >count
done
END
echo 0 >count; setsid bash write.sh >/dev/null 2>&1 & sleep 1"#,
    );
    for cut in 0..20 {
        match cut % 3 {
            0 => tell(&mut desk, "pkill -9 -f '^ssh .*-N -M'"),
            // Never the server that listens.
            1 => tell(&mut net.store, "pkill -9 -f '^sshd: root@?[ n]' || pkill -9 -f '^sshd: root'"),
            _ => tell(&mut desk, "ip link set eth0 down; sleep 2; ip link set eth0 up"),
        };
        // What lasts longer than the cut is its repair.
        tell(
            &mut desk,
            r#"before=$(cat count); for i in $(seq 120); do [ -e failed ] && break; [ $(cat count) -gt $((before + 1)) ] && exit 0; sleep 1; done
               cat failed /run/ebbtide-attached/data/state.json; dmesg | tail -20; exit 1"#,
        );
    }
    let lost = status(&mut desk)["lost"].as_u64().unwrap();
    assert!(lost >= 13, "{lost} connections were lost");
    let checked = tell(
        &mut desk,
        r#"touch stop; while pgrep -f '[w]rite.sh' >/dev/null; do sleep 0.2; done; [ ! -e failed ] || { cat failed; exit 1; }
           umount /srv/data; e2fsck -fn /dev/mapper/data >/dev/null; mount /dev/mapper/data /srv/data
           for n in $(seq $(cat count)); do [ "$(md5sum </srv/data/f$n)" = "$(cat sum$n)" ] || { echo "file $n differs"; exit 1; }; done; cat count"#,
    );
    assert!(checked.trim().parse::<u32>().unwrap() >= 20, "{checked}");
    tell(&mut desk, "ebb undo data -q");
    assert_eq!(traces(&mut desk), "");
    net.nothing_there("after 20 cuts");
}

/// A connection that stays lost is an error after the hold time, not a wait without end; and what is attached can be taken away then.
#[test]
fn a_lost_host_is_an_error_after_the_hold_time() {
    let mut net = Net::new("hold", 64 * MIB);
    let mut desk = net.client(2, "desk");
    lose(&mut net, &mut desk, "iscsi");
}

fn lose(net: &mut Net, desk: &mut Guest, transport: &str) {
    tell(desk, &format!("ebb attach root@store:{VOLUME} --name data --transport {transport} --hold 5s -q"));
    tell(desk, "ip link set eth0 down");
    let waited = tell(
        desk,
        r#"device=$(sed -n 's/.*"path": "\(.*\)",/\1/p' /var/lib/ebbtide/attached/data.json | head -1)
               begin=$(date +%s); timeout 100 dd if=$device of=/dev/null bs=4k count=1 skip=999 iflag=direct 2>error && exit 1
               echo $(($(date +%s) - begin))"#,
    );
    let waited: u64 = waited.trim().parse().unwrap();
    assert!(waited < 90, "{transport}: an error after {waited} s");
    let now = status(desk);
    assert!(now["state"] == "failing" || now["state"] == "reconnecting", "{now}");
    tell(desk, "ip link set eth0 up");
    let back = tell(
        desk,
        r#"for i in $(seq 90); do ebb status >/dev/null && break; sleep 1; done; ebb status
               device=$(sed -n 's/.*"path": "\(.*\)",/\1/p' /var/lib/ebbtide/attached/data.json | head -1)
               dd if=$device of=/dev/null bs=4k count=1 iflag=direct status=none"#,
    );
    assert!(back.contains("connected since"), "{back}");
    // Away as a whole: what can be taken away is, and the rest is said.
    tell(desk, "ip link set eth0 down");
    let said = tell(desk, "ebb undo data");
    assert!(said.contains("the export data on root@store may still be there"), "{transport}: {said}");
    assert_eq!(traces(desk), "", "{transport}");
    tell(desk, "ip link set eth0 up");
    tell(&mut net.store, "ebb undo data --force");
    net.nothing_there(transport);
}

/// With a secret that is nowhere to be seen.
#[test]
fn targets_on_a_network_of_one_s_own_are_attached_directly() {
    let mut net = Net::new("direct", 64 * MIB);
    let mut desk = net.client(2, "desk");
    let client = "iqn.2026-11.ebbtide.test:desk";
    attach_directly(&mut net, &mut desk, "iscsi", client, Some("a-secret-of-chap-0123"));
}

/// The other protocol: directly and encrypted, then through SSH, where the connection is lost.
#[test]
fn nvme_over_tcp_is_attached_directly_and_through_ssh() {
    let mut net = Net::with(qemu_laboratory(), "nvme", 64 * MIB);
    let mut desk = net.client(2, "desk");
    tell(&mut desk, "head -c 48 /dev/urandom | base64 -w0 >key; chmod 600 key");
    let client = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000002";
    attach_directly(&mut net, &mut desk, "nvme-tcp", client, None);
    lose(&mut net, &mut desk, "nvme-tcp");
}

fn attach_directly(net: &mut Net, desk: &mut Guest, transport: &str, client: &str, secret: Option<&str>) {
    let with = secret.map_or("", |_| "--secret secret");
    let encrypted = secret.map_or("--encrypt key --header-backup header", |_| "");
    for guest in [&mut *desk, &mut net.store] {
        tell(guest, &format!("umask 077; echo '{}' >secret", secret.unwrap_or_default()));
    }
    let said = tell(
        &mut net.store,
        &format!(
            "ebb export {VOLUME} --name data --client {client} --transport {transport} --listen 10.77.0.1 {with} --json"
        ),
    );
    let export: Value = serde_json::from_str(&said).unwrap();
    let target = export["target"].as_str().unwrap();
    let place = format!("{transport}://store/{target}");
    tell(
        desk,
        &format!(
            "ebb attach {place} --name data {with} {encrypted} --mount /srv/data -q; echo '{MARKER}' >/srv/data/f"
        ),
    );
    let now = status(desk);
    assert_eq!((now["state"].as_str(), now["ssh"].as_bool()), (Some("connected"), Some(false)), "{now}");
    if let Some(secret) = secret {
        let key = tell(desk, &format!("printf %s '{secret}' | base64 -w0"));
        secrets_are_nowhere(desk, &key);
        // open-iscsi keeps it in the node record, which root alone may read.
        let modes = tell(
            desk,
            &format!("find /etc/iscsi/nodes -type f -exec grep -l -F '{secret}' {{}} + | xargs stat -c %a"),
        );
        assert_eq!(modes.trim(), "600");
    }
    // What the device moved is counted, also by a kernel that counts it for its paths alone.
    let device = now["device"].as_str().unwrap();
    let said = tell(desk, &format!("ebb bench {device} --rw randread --bs 16k --runtime 2 --json -q"));
    let run: Value = serde_json::from_str(&said).unwrap();
    let verdicts = run["jobs"][0]["ebbtide"]["verdicts"].as_array().unwrap();
    assert!(verdicts.iter().all(|verdict| verdict["kind"] != "cache"), "{transport}: {verdicts:#?}");
    let wrong = script(desk, &format!("ebb attach {place} --name data --hold 7s")).unwrap_err();
    assert!(wrong.contains("hold is 60 s and not 7 s"), "{wrong}");
    tell(desk, "ebb undo data -q");
    assert_eq!(traces(desk), "", "{transport}");
    let again = tell(
        desk,
        &format!(
            "ebb attach {place} --name data {with} {encrypted} --mount /srv/data; cat /srv/data/f; ebb undo data -q"
        ),
    );
    assert!(again.contains(MARKER), "{again}");
    tell(
        &mut net.store,
        &format!("ebb undo data --force; dd if=/dev/zero of={VOLUME} bs=1M count=4 status=none"),
    );
    net.nothing_there(transport);
}

/// The key is typed, the program is copied to a host that has none, and each sector is authenticated: one that was changed over there is an
/// error, and all others are what was written.
#[test]
#[ignore = "copies the program through SSH and authenticates every sector, which takes two minutes: `cargo test -p ebbtide --test lab attach::a_sector -- --ignored`"]
fn a_sector_that_was_changed_on_the_other_side_is_an_error() {
    let mut net = Net::new("integrity", 64 * MIB);
    let mut desk = net.client(2, "desk");
    tell(&mut net.store, "rm /usr/local/bin/ebb");
    let attach =
        format!("ebb attach ada@store:{VOLUME} --transport iscsi --name data --encrypt ask --integrity");
    let none = script(&mut desk, &attach).unwrap_err();
    assert!(none.contains("has no ebb") && none.contains("--copy-ebb"), "{none}");
    let asked = |guest: &mut Guest, prompts: &[&str]| {
        let answers = prompts.iter().map(|prompt| {
            format!("until grep -q '{prompt}' said; do pgrep -x script >/dev/null || break; sleep 0.2; done; sleep 1; echo 'correct horse' >&3\n")
        });
        tell(
            guest,
            &format!(
                "rm -f in said; mkfifo in; script -q -e -f -c '{attach} --copy-ebb' said <in >/dev/null & exec 3<>in
                 {}wait $! || {{ cat said; exit 1; }}; cat said",
                answers.collect::<String>()
            ),
        )
    };
    let said = asked(&mut desk, &["key for data .not shown.", "once more"]);
    assert!(said.contains("attached as /dev/mapper/data") && said.contains("encrypted now"), "{said}");
    assert!(!said.contains("correct horse"), "{said}");
    let text = tell(&mut desk, "ebb status");
    assert!(text.contains("encrypted and authenticated here (LUKS2 with integrity)"), "{text}");
    tell(
        &mut desk,
        "head -c $(blockdev --getsize64 /dev/mapper/data) /dev/urandom >content
         dd if=content of=/dev/mapper/data bs=64k oflag=direct conv=fsync status=none; ebb undo data -q",
    );
    assert_eq!(traces(&mut desk), "");
    net.nothing_there("after the detach");
    tell(
        &mut net.store,
        &format!("dd if=/dev/urandom of={VOLUME} bs=4k count=1 seek=$((40 << 8)) conv=fsync status=none"),
    );
    let said = asked(&mut desk, &["key for data .not shown."]);
    assert!(!said.contains("once more") && !said.contains("encrypted now"), "{said}");
    let compared = tell(
        &mut desk,
        "size=$(stat -c %s content); differ=0; failed=0
         dd if=/dev/mapper/data of=/dev/null bs=64k status=none 2>/dev/null && echo 'all of it was read'
         for ((at = 0; at * 65536 < size; at++)); do
             if dd if=/dev/mapper/data bs=64k count=1 skip=$at iflag=direct status=none 2>/dev/null >one; then
                 dd if=content bs=64k count=1 skip=$at status=none | cmp -s - one || differ=$((differ + 1))
             else failed=$((failed + 1)); fi
         done; echo $differ differ, $failed failed",
    );
    assert!(compared == "0 differ, 1 failed\n" || compared == "0 differ, 2 failed\n", "{compared}");
    tell(&mut desk, "ebb undo data -q");
    assert_eq!(traces(&mut desk), "");
    net.nothing_there("at the end");
}

/// Every so many boundaries one is tried; `EBB_TEST_EVERY=1` asks for all.
fn every() -> usize {
    ebbtide_host::testing::every(7)
}

/// `ebb attach` is killed at boundaries, then `ebb undo`, and after `ebb cleanup` nothing is left on either side; the volume is as blank
/// as it was, or has what its user put there.
#[test]
#[ignore = "a kill takes ten seconds: `cargo test -p ebbtide --test lab attach::a_kill_at_a_boundary_is_cleaned_up_on_both_sides -- --ignored`"]
fn a_kill_at_a_boundary_is_cleaned_up_on_both_sides() {
    let mut net = Net::new("kills", 64 * MIB);
    let mut desk = net.client(2, "desk");
    tell(&mut desk, "head -c 48 /dev/urandom | base64 -w0 >key; chmod 600 key");
    let attach = format!(
        "ebb attach ada@store:{VOLUME} --transport iscsi --name data --encrypt key --header-backup header --mount /srv/data -q"
    );
    let killed = |desk: &mut Guest, boundary: usize, command: &str| {
        let said = tell(
            desk,
            &format!(
                "status=0; EBB_TEST_HALT={boundary} {command} >/dev/null 2>&1 || status=$?; echo $status"
            ),
        );
        said.trim() == "137"
    };
    let mut tried = 0;
    for boundary in (0..).step_by(every()) {
        if !killed(&mut desk, boundary, &attach) {
            break;
        }
        tried += 1;
        let cleaned = tell(&mut desk, "ebb cleanup");
        assert_eq!(traces(&mut desk), "", "attach killed at boundary {boundary}: {cleaned}");
        net.nothing_there(&format!("attach killed at boundary {boundary}: {cleaned}"));
        let left = tell(&mut desk, "ls header 2>/dev/null || true");
        assert_eq!(left, "", "attach killed at boundary {boundary}");
        let carries = tell(&mut net.store, &format!("blkid -p {VOLUME} || true"));
        assert_eq!(carries, "", "attach killed at boundary {boundary}");
    }
    assert!(tried > 3, "{tried}");
    tell(&mut desk, &format!("echo '{MARKER}' >/srv/data/f"));
    for boundary in (0..).step_by(every().min(3)) {
        if !killed(&mut desk, boundary, "ebb undo data") {
            break;
        }
        let cleaned = tell(&mut desk, "ebb cleanup; ebb status | grep -q '^data' && ebb undo data -q; true");
        assert_eq!(traces(&mut desk), "", "detach killed at boundary {boundary}: {cleaned}");
        net.nothing_there(&format!("detach killed at boundary {boundary}: {cleaned}"));
        let found = tell(&mut desk, &format!("{attach} >/dev/null; cat /srv/data/f"));
        assert_eq!(found.trim(), MARKER, "detach killed at boundary {boundary}");
    }
}
