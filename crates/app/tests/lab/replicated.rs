//! No acknowledged write is lost: a client writes to arrays of copies over three hosts, with a ledger, while hosts die; then everything is brought back by
//! `ebb apply`, and every acknowledged write is read back.

use super::common::until;
use super::storage_hosts::{HOSTS, Hosts, How};
use ebbtide_host::testing::number;
use serde_json::Value;
use std::fmt::Write;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Disks of each host: two for each array.
const DISKS: usize = 4;
/// How long is written in each round.
const SECONDS: u64 = 14;

/// Seeded numbers (xorshift64*, Vigna 2016).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A time between two, in seconds.
    fn time(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from * 1000 + self.below((to - from) * 1000))
    }
}

/// The experiment; the array called `files` has ext4 on it and is mounted, the other one is written to as it is.
fn experiment(hosts: &mut Hosts, files: &str) -> String {
    let mut text = "name = \"replicated\"\n".to_owned();
    for (host, name) in HOSTS.iter().enumerate() {
        let paths: Vec<String> = (0..DISKS).map(|disk| format!("\"{}\"", hosts.device(host, disk))).collect();
        let letter = name.trim_start_matches("storage-");
        writeln!(text, "[volumes.{letter}]\nhost = \"{name}\"\ndevice = [{}]", paths.join(", ")).unwrap();
    }
    for (array, copies, range) in [("two", 2, "0..1"), ("three", 3, "2..3")] {
        let members: Vec<String> = ["a", "b", "c"].map(|host| format!("\"{host}[{range}]\"")).to_vec();
        writeln!(
            text,
            "[designs.{array}]\nlayout = \"replicated\"\ncopies = {copies}\nmembers = [{}]",
            members.join(", ")
        )
        .unwrap();
        // Not XFS: mkfs.xfs makes 16 groups over a stripe, which these disks are too small for.
        text += "chunk = \"64KiB\"\n";
        text += if array == files { "filesystem = \"ext4\"\n" } else { "" };
    }
    text + "[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
}

fn apply(array: &str, files: &str) -> String {
    let mount = if array == files { " --mount /files" } else { "" };
    format!("ebb apply /var/lib/ebbtide/e.toml:{array}{mount}")
}

/// What an array is like, and the sentences on its hosts.
fn status(hosts: &mut Hosts) -> Value {
    let said = hosts.tell("ebb status --json || true");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn wait_healthy(hosts: &mut Hosts) -> Duration {
    let start = Instant::now();
    until("healthy arrays", || {
        let status = status(hosts);
        let mut states = status["arrays"].as_array().unwrap().iter();
        if states
            .all(|array| array["state"] == "healthy" && array["doing"].as_array().is_none_or(Vec::is_empty))
        {
            return Ok(start.elapsed());
        }
        std::thread::sleep(Duration::from_secs(1));
        Err(format!("{status:#}\n{}", hosts.tell("cat /proc/mdstat; dmesg | tail -n 40")))
    })
}

/// What one round does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Round {
    /// The hosts that are lost, in this order.
    victims: Vec<usize>,
    /// They are cut from the network instead of from power.
    partition: bool,
    /// Of all packets, 2% are lost.
    loss: bool,
    /// The client is cut from power too.
    client: bool,
}

impl Round {
    fn of(number: u64, dice: &mut Dice) -> Round {
        let first = dice.below(3) as usize;
        let second = (first + 1 + dice.below(2) as usize) % 3;
        let two = number % 4 == 3;
        Round {
            victims: if two { vec![first, second] } else { vec![first] },
            partition: number % 6 == 5,
            loss: number % 6 == 2,
            client: number % 3 == 1,
        }
    }

    fn told(&self) -> String {
        let victims: Vec<&str> = self.victims.iter().map(|host| HOSTS[*host]).collect();
        let how = if self.partition { "partition of" } else { "kill" };
        let loss = if self.loss { ", 2% loss" } else { "" };
        let client = if self.client { ", client's power" } else { "" };
        format!("{how} {}{loss}{client}", victims.join(" and "))
    }
}

/// What came of all rounds.
#[derive(Debug, Default)]
struct Figures {
    rounds: u64,
    acknowledged: u64,
    undecided: u64,
    bad: u64,
    /// Longest pause of each run of which the client lived to tell, in seconds.
    pauses: Vec<f64>,
}

/// Starts a writer with a ledger on the client, in the background.
fn start_writer(hosts: &mut Hosts, array: &str, files: &str, round: u64, seed: u64) {
    let (target, how) = match (array == files, round % 2) {
        (true, 0) => ("/files/volume".to_owned(), "--direct=1 --sync=1"),
        (true, _) => ("/files/volume".to_owned(), "--direct=0 --sync=1"),
        (false, 0) => (format!("/dev/md/{array}"), "--direct=1"),
        (false, _) => (format!("/dev/md/{array}"), "--direct=1 --sync=1"),
    };
    let state = format!("/var/lib/ebbtide/{array}");
    hosts.tell(&format!(
        "rm -f {state}.ledger {state}.json {state}.said {state}.done; sync\n\
         setsid bash -c 's=0; ebb bench {target} --verify --durable-ledger --ledger {state}.ledger --destroy --rw randwrite --bs 4k --iodepth 4 \
         --size 48m {how} --runtime {SECONDS}s --seed {seed} --json >{state}.json 2>{state}.said || s=$?; echo $s >{state}.done' >/dev/null 2>&1 </dev/null &"
    ));
}

fn run_round(hosts: &mut Hosts, number: u64, files: &str, dice: &mut Dice, figures: &mut Figures) {
    let begun = Instant::now();
    let round = Round::of(number, dice);
    // Two copies do not survive two hosts.
    let arrays: &[&str] = if round.victims.len() == 1 { &["two", "three"] } else { &["three"] };
    if arrays.len() == 1 {
        let unmount = if files == "two" { "umount /files; " } else { "" };
        hosts.tell(&format!("{unmount}mdadm --quiet --stop /dev/md/two; for part in /dev/md/two_?; do mdadm --quiet --stop $part; done"));
    }
    for array in arrays {
        start_writer(hosts, array, files, number, dice.next());
    }
    for array in arrays {
        let state = format!("/var/lib/ebbtide/{array}");
        hosts.tell(&format!(
            "for i in $(seq 600); do grep -q '^a ' {state}.ledger 2>/dev/null && exit 0; sleep 0.1; done; cat {state}.said; exit 1"
        ));
    }
    if round.loss {
        hosts.lose(2);
    }
    let mut events: Vec<(Duration, Option<usize>)> = vec![(dice.time(1, 7), Some(round.victims[0]))];
    events.extend(round.victims.get(1).map(|second| (dice.time(1, 12), Some(*second))));
    events.extend(round.client.then(|| (dice.time(1, SECONDS), None)));
    events.sort();
    let start = Instant::now();
    for (at, victim) in events {
        std::thread::sleep(at.saturating_sub(start.elapsed()));
        match victim {
            Some(host) if round.partition => hosts.cut_off(host, true),
            Some(host) => hosts.kill_host(host),
            None => hosts.kill_client(),
        }
    }
    let mut pauses = Vec::new();
    if !round.client {
        let names =
            arrays.iter().map(|array| format!("/var/lib/ebbtide/{array}.done")).collect::<Vec<_>>().join(" ");
        hosts.tell(&format!(
            "for i in $(seq 1200); do n=0; for f in {names}; do [ -e $f ] && n=$((n+1)); done; [ $n = {} ] && exit 0; sleep 0.1; done; cat /var/lib/ebbtide/*.said /proc/mdstat; exit 1",
            arrays.len()
        ));
        for array in arrays {
            let state = format!("/var/lib/ebbtide/{array}");
            let done = hosts.tell(&format!("cat {state}.done"));
            assert_eq!(
                done.trim(),
                "0",
                "{}: {}",
                round.told(),
                hosts.tell(&format!("cat {state}.said {state}.json; dmesg | tail -n 40"))
            );
            let json: Value = serde_json::from_str(&hosts.tell(&format!("cat {state}.json"))).unwrap();
            pauses.push(json["longest_pause_s"].as_f64().unwrap());
        }
        // While hosts are away.
        let said = hosts.tell("ebb status || true");
        for host in &round.victims {
            assert!(said.contains(&format!("host {} is gone", HOSTS[*host])), "{said}");
        }
    }
    // Everything comes back.
    if round.loss {
        hosts.lose(0);
    }
    for host in &round.victims {
        match round.partition {
            true => hosts.cut_off(*host, false),
            false => hosts.start_host(*host),
        }
    }
    if round.client {
        hosts.start_client(false);
    } else {
        hosts.attach();
    }
    for array in ["two", "three"] {
        let said = hosts.tell(&format!("{} 2>&1", apply(array, files)));
        assert!(!said.contains("all of it is copied"), "{}: {said}", round.told());
    }
    let synced = wait_healthy(hosts);
    let mut told = String::new();
    for array in arrays {
        let state = format!("/var/lib/ebbtide/{array}");
        let said =
            hosts.tell(&format!("ebb verify {state}.ledger --json 2>{state}.said || cat {state}.said >&2"));
        let found: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let number = |key: &str| found[key].as_u64().unwrap_or_else(|| panic!("{key}: {found}"));
        let bad = found["bad"].as_array().map_or(0, Vec::len) as u64;
        figures.acknowledged += number("writes_acknowledged");
        figures.undecided += number("blocks_undecided");
        figures.bad += bad;
        let kind = if *array == files { "ext4" } else { "raw" };
        write!(told, "; {array} ({kind}): {} acknowledged", number("writes_acknowledged")).unwrap();
        assert_eq!(bad, 0, "round {number}, {}: {found:#}", round.told(), number = figures.rounds);
        // The last acknowledgements before a power cut may be missing in the ledger; then they count as in flight.
        assert!(round.client || number("writes_acknowledged") > 0, "{found:#}");
    }
    figures.rounds += 1;
    let pause = pauses.iter().copied().fold(0.0, f64::max);
    figures.pauses.extend(pauses);
    eprintln!(
        "round {number}: {}{told}, 0 lost; pause {pause:.1} s; healthy {:.0} s after apply; {:.0} s in all",
        round.told(),
        synced.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
}

/// So many rounds, the file system on the array `files`.
fn rounds(test: &str, count: u64, files: &str, seed: u64) -> Figures {
    let mut hosts = Hosts::new(test, How::Script, DISKS, 176 * MIB);
    let text = experiment(&mut hosts, files);
    hosts.tell(&format!("cat >/var/lib/ebbtide/e.toml <<'E'\n{text}E\n"));
    for array in ["two", "three"] {
        eprintln!("{}", hosts.tell(&format!("{} 2>&1", apply(array, files))));
    }
    hosts.tell("dd if=/dev/zero of=/files/volume bs=1M count=48 oflag=direct status=none; cp /etc/fstab /var/lib/ebbtide/etc/fstab; sync");
    eprintln!("in sync after {:.0} s", wait_healthy(&mut hosts).as_secs_f64());
    let (mut dice, mut figures) = (Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), Figures::default());
    for number in 0..count {
        run_round(&mut hosts, number, files, &mut dice, &mut figures);
    }
    // No two copies differ anywhere, whatever was copied and what was not.
    let differ = hosts.tell(
        "for array in /dev/md/two_? /dev/md/three_?; do md=/sys/block/$(basename $(readlink -f $array))/md; echo check >$md/sync_action\n\
         while ! grep -q idle $md/sync_action; do sleep 0.2; done; echo $array $(<$md/mismatch_cnt); done",
    );
    assert!(differ.lines().all(|line| line.ends_with(" 0")), "{differ}");
    figures.pauses.sort_by(f64::total_cmp);
    let pause = |share: f64| {
        figures
            .pauses
            .get(((figures.pauses.len() as f64 - 1.0).max(0.0) * share) as usize)
            .copied()
            .unwrap_or(0.0)
    };
    eprintln!(
        "{} rounds with seed {seed}: {} writes acknowledged, {} bad, {} in flight; pauses of {} runs: median {:.1} s, longest {:.1} s; no copies differ",
        figures.rounds,
        figures.acknowledged,
        figures.bad,
        figures.undecided,
        figures.pauses.len(),
        pause(0.5),
        pause(1.0)
    );
    figures
}

#[test]
#[ignore = "four guests take minutes: `cargo test -p ebbtide --test lab replicated::hosts_die_and_nothing_acknowledged_is_lost -- --ignored`"]
fn hosts_die_and_nothing_acknowledged_is_lost() {
    let figures = rounds("few", 2, "three", number("EBB_TEST_SEED", 1));
    assert_eq!(figures.bad, 0);
}

#[test]
#[ignore = "takes an hour: `EBB_TEST_ROUNDS=50 cargo test -p ebbtide --test lab replicated::many -- --ignored --nocapture`"]
fn many_rounds_of_dying_hosts() {
    let (count, seed) = (number("EBB_TEST_ROUNDS", 50), number("EBB_TEST_SEED", 1));
    let figures = rounds("many", count, "three", seed);
    assert_eq!((figures.rounds, figures.bad), (count, 0));
}

/// A second machine is kept out: hosts let in one initiator by its name.
#[test]
fn a_second_machine_is_refused() {
    let mut hosts = Hosts::new("second", How::Script, 1, 64 * MIB);
    let said = hosts.tell(
        "iscsiadm -m node -u >/dev/null; echo InitiatorName=iqn.2026-11.org.ebbtide:another >/etc/iscsi/initiatorname.iscsi\n\
         kill $(pidof iscsid); sleep 1; iscsid; iscsiadm -m node --login 2>&1 || true; iscsiadm -m session 2>&1 || true",
    );
    assert!(said.contains("authorization failure") && said.contains("No active sessions"), "{said}");
}

/// What docs/reference/remote.md says: `ebb export` on the hosts, `ebb attach`, `ebb apply` and `ebb status` on the client; a host is lost, another is
/// taken out, the client loses its power, and all is healthy again.
#[test]
#[ignore = "four guests take minutes: `cargo test -p ebbtide --test lab replicated::three_hosts_by_commands_alone -- --ignored`"]
fn three_hosts_by_commands_alone() {
    let mut hosts = Hosts::new("commands", How::Ebb, 2, 64 * MIB);
    let mut text = "name = \"hosts\"\n".to_owned();
    for (host, name) in HOSTS.iter().enumerate() {
        let paths: Vec<String> = (0..2).map(|disk| format!("\"{}\"", hosts.device(host, disk))).collect();
        let letter = name.trim_start_matches("storage-");
        writeln!(text, "[volumes.{letter}]\nhost = \"{name}\"\ndevice = [{}]", paths.join(", ")).unwrap();
    }
    // The study's own design, on volumes that exist.
    let study = include_str!("../../../../experiments/three-hosts.toml");
    let (_, designs) = study.split_at(study.find("[designs.").unwrap());
    let (designs, _) = designs.split_at(designs.find("[answer]").unwrap());
    text += &designs.replace("[designs.replicated]\n", "[designs.replicated]\nfilesystem = \"ext4\"\n");
    hosts.tell(&format!("cat >/var/lib/ebbtide/e.toml <<'E'\n{text}E\n"));
    let apply = "ebb apply /var/lib/ebbtide/e.toml:replicated --name data --mount /data";
    eprintln!("{}", hosts.tell(&format!("{apply} 2>&1")));
    wait_healthy(&mut hosts);
    let said = hosts.tell("ebb status");
    assert!(said.contains("6 members on 3 hosts; you can lose one host"), "{said}");

    hosts.tell("echo before >/data/before; sync");
    hosts.kill_host(1);
    let start = Instant::now();
    hosts.tell("echo during >/data/during; sync");
    eprintln!("a write and a sync took {:.1} s with a lost host", start.elapsed().as_secs_f64());
    let said = hosts.tell("ebb status || true");
    assert!(said.contains("host storage-b is gone: 2 of 6 members; no more host may be lost"), "{said}");
    hosts.start_host(1);
    let back = |hosts: &mut Hosts, how: &str| {
        until("members that answer", || {
            // While its members do not answer yet it says so and ends with status 1.
            let said = hosts.tell(&format!("{apply} {how} 2>&1 || true"));
            let status = status(hosts);
            let mut members = status["arrays"][0]["members"].as_array().unwrap().iter();
            if members.all(|member| member["state"] != "unreachable") {
                return Ok(said);
            }
            std::thread::sleep(Duration::from_secs(1));
            Err(format!("{status:#}"))
        })
    };
    eprintln!("{}", back(&mut hosts, ""));
    wait_healthy(&mut hosts);

    let said = hosts.tell(&format!("{apply} --without storage-c 2>&1; ebb status || true"));
    assert!(said.contains("host storage-c is out, as asked: 2 of 6 members"), "{said}");
    hosts.kill_host(2);
    hosts.tell("echo without >/data/without; sync");
    hosts.start_host(2);
    hosts.kill_client();
    hosts.start_client(false);
    // Its record is on a disk of its own; its fstab is not.
    let said = hosts.tell(&format!("{apply} 2>&1; cat /data/before /data/during /data/without"));
    assert!(said.ends_with("before\nduring\nwithout\n"), "{said}");
    wait_healthy(&mut hosts);
    let said = hosts.tell("ebb status; cat /proc/mdstat");
    assert!(said.contains("6 members on 3 hosts; you can lose one host"), "{said}");
}
