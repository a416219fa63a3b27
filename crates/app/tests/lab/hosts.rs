//! `ebb run --hosts` over ssh: two clients of a file server, the server running the session.
//!
//! The server stands for the one of the study of small files (experiments/efs-small-io.toml), a tenth as fast: what a client can
//! send and what the server can send is limited, and each way takes 37 ms.

use super::common::tool;
use super::guests::{lab, on_uml, script, told};
use ebbtide_lab::Laboratory;
use ebbtide_lab::disks::Disk;
use ebbtide_lab::guest::Guest;
use ebbtide_lab::machine::Machine;
use ebbtide_lab::network::{self, Network, Place};
use ebbtide_model::backend::Control;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const STUDY: &str = include_str!("../../../../experiments/efs-small-io.toml");

/// Name, address and sshd of a guest; NAME and NUMBER are filled in.
const HOST: &str = r#"
    hostname NAME
    printf '10.77.0.1 server\n10.77.0.2 a\n10.77.0.3 b\n' >>/etc/hosts
    ip address add 10.77.0.NUMBER/24 dev eth0; ip link set eth0 up
    mkdir -p /root/.ssh /etc/ssh /run/sshd; chmod 700 /root/.ssh
    ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/host_key
    printf 'HostKey /etc/ssh/host_key\nPermitRootLogin yes\nUsePAM no\nStrictModes no\n' >/etc/ssh/sshd_config
    /usr/sbin/sshd -f /etc/ssh/sshd_config
"#;

/// A server that starts waits for the clients that had files open before, as short as it can.
const SERVER: &str = r#"
    modprobe nfsd; modprobe nfsv4
    mkfs.ext4 -q /dev/vda
    mkdir -p /srv/files /var/lib/nfs/v4recovery
    mount /dev/vda /srv/files
    mount -t nfsd nfsd /proc/fs/nfsd
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    echo '/srv/files 10.77.0.0/24(rw,async,no_root_squash,no_subtree_check,fsid=0)' >/etc/exports
    rpcbind; exportfs -ra; rpc.mountd -N 3; rpc.nfsd -N 3 -G 10 -L 10 8
    ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
    printf 'StrictHostKeyChecking accept-new\n' >/root/.ssh/config
    cat /root/.ssh/id_ed25519.pub
"#;

const CLIENT: &str = r#"
    modprobe nfsv4
    mkdir -p /mnt/efs
    mount -t nfs4 -o vers=4.2,rsize=65536,wsize=65536 server:/ /mnt/efs
"#;

/// 150 writes of 10 KiB in a second from each client, 350 reads in all, 37 ms each way.
const LIMITS: [(&str, &str); 3] = [("server", "31mbit"), ("a", "13.3mbit"), ("b", "13.3mbit")];

/// A lab whose guests have the `ebb` under test without its symbols, which is a quarter of what is to be copied between them.
fn small_laboratory() -> Laboratory {
    // Tests run beside one another.
    static SMALL: OnceLock<PathBuf> = OnceLock::new();
    let small = SMALL.get_or_init(|| {
        let small = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ebb-without-symbols");
        let made = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified());
        let program = Path::new(env!("CARGO_BIN_EXE_ebb"));
        if made(&small).ok() < made(program).ok() {
            let new = small.with_extension("new");
            tool("strip", &["-o", new.to_str().unwrap(), program.to_str().unwrap()]);
            std::fs::rename(&new, &small).unwrap();
        }
        small
    });
    let (places, _) = lab();
    on_uml(Laboratory::with_program(places, small, Arc::new(Control::default()), told).unwrap())
}

/// The server and its clients.
struct Net {
    server: Guest,
    clients: Vec<Guest>,
}

impl Net {
    fn start(test: &str) -> Net {
        let network = Network::default();
        let boot = |number: u8, disks: Vec<Disk>| {
            let machine = Machine {
                name: format!("test-hosts-{test}-{number}-{}", std::process::id()),
                memory_mib: 320,
                cpus: 2,
                disks,
                place: Some(Place { network: network.clone(), number }),
                ..Machine::default()
            };
            small_laboratory().boot(&machine).unwrap()
        };
        let disk = Disk::plain("files", 256 << 20);
        assert_eq!(network::address(1), "10.77.0.1");
        let named = |guest: &mut Guest, name: &str, number: u8| {
            let text = HOST.replace("NAME", name).replace("NUMBER", &number.to_string());
            script(guest, &text).unwrap();
        };
        let mut server = boot(1, vec![disk]);
        named(&mut server, "server", 1);
        let key = script(&mut server, SERVER).unwrap();
        let mut clients = Vec::new();
        for (number, name) in [(2, "a"), (3, "b")] {
            let mut client = boot(number, Vec::new());
            named(&mut client, name, number);
            script(&mut client, &format!("echo '{}' >/root/.ssh/authorized_keys\n{CLIENT}", key.trim()))
                .unwrap();
            clients.push(client);
        }
        Net { server, clients }
    }

    /// Makes the links as slow as they are to be.
    fn limit(&mut self) {
        let guests = std::iter::once(&mut self.server).chain(&mut self.clients);
        for (guest, (_, rate)) in guests.zip(LIMITS) {
            let text = format!("tc qdisc replace dev eth0 root netem delay 37ms rate {rate} limit 10000");
            script(guest, &text).unwrap();
        }
    }

    /// Puts `text` into a file of the server's.
    fn write(&mut self, path: &str, text: &str) {
        script(&mut self.server, &format!("cat >{path} <<'END'\n{text}END\n")).unwrap();
    }

    /// Nothing of `ebb` is left on `client`.
    fn nothing_left(client: &mut Guest) {
        let text = r#"
            for i in $(seq 900); do pgrep -f '[e]bb worker' >/dev/null || break; sleep 0.2; done
            pgrep -af '[e]bb worker' || true
            find /mnt/efs /var/tmp /root/.cache/ebbtide /root/.local/state/ebbtide -mindepth 1 -name '*-*' 2>/dev/null || true
        "#;
        assert_eq!(script(client, text).unwrap(), "");
    }
}

/// The study with so many rounds of shorter trials and small volumes.
fn study(rounds: u32) -> String {
    let text = STUDY
        .replace("size = \"8GiB\"", "size = \"8MiB\"")
        .replace("runtime = \"5s\"", "runtime = \"2s\"")
        .replace("ramp_time = \"1s\"", "ramp_time = \"500ms\"")
        .replace("trials_max = 8", &format!("level = 0.5\ntrials_min = {rounds}\ntrials_max = {rounds}"));
    assert!(text.contains("8MiB") && text.contains("trials_min"), "{text}");
    text
}

const SHORT: &str = r#"name = "short"
[volumes.client]
count = 2
size = "4MiB"
[designs.one]
layout = "linear"
members = ["client1"]
[designs.both]
layout = "stripe"
members = ["client[0..1]"]
[workloads.write]
rw = "randwrite"
bs = "10KiB"
numjobs = 4
sync = true
runtime = "1s"
ramp_time = "200ms"
[answer]
level = 0.5
trials_min = ROUNDS
trials_max = ROUNDS
"#;

fn short(rounds: u32) -> String {
    SHORT.replace("ROUNDS", &rounds.to_string())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Median operations per second of a design under a workload.
fn iops(session: &Value, design: &str, workload: &str) -> f64 {
    let results = session["results"].as_array().unwrap();
    let is = |result: &&Value| {
        result["design"] == design && result["workload"] == workload && result["metric"] == "iops"
    };
    results.iter().find(is).and_then(|result| result["median"].as_f64()).unwrap()
}

#[test]
#[ignore = "takes five minutes: `cargo test -p ebbtide --test lab hosts::the_study_of_small_files_from_one_and_from_two_clients -- --ignored`"]
fn the_study_of_small_files_from_one_and_from_two_clients() {
    let mut net = Net::start("study");
    net.limit();
    net.write("/tmp/study.toml", &study(2));
    let run = "ebb run /tmp/study.toml --hosts a,b --directory /mnt/efs --seed 1 -q >/tmp/said || [ $? = 3 ]; ebb show --json --full";
    let said = script(&mut net.server, run).unwrap();
    let session = json(&said);
    let figures: Vec<String> = [
        ("one-client", "write-1"),
        ("one-client", "write-20"),
        ("one-client", "write-40"),
        ("two-clients", "write-80"),
        ("one-client", "read-40"),
        ("two-clients", "read-80"),
    ]
    .map(|(design, workload)| format!("{design} {workload} {:.1}", iops(&session, design, workload)))
    .into();
    eprintln!("{}", figures.join("\n"));
    eprintln!("{}", script(&mut net.server, "ebb show").unwrap());
    // What is limited limits, whatever the machine: two clients write more than one could, and read no more.
    let ratio = |more: (&str, &str), less: (&str, &str)| {
        iops(&session, more.0, more.1) / iops(&session, less.0, less.1)
    };
    assert!(ratio(("one-client", "write-20"), ("one-client", "write-1")) > 4.0, "{figures:?}");
    assert!(ratio(("two-clients", "write-80"), ("one-client", "write-40")) > 1.3, "{figures:?}");
    assert!(ratio(("two-clients", "read-80"), ("one-client", "read-40")) < 1.3, "{figures:?}");
    net.clients.iter_mut().for_each(Net::nothing_left);
}

#[test]
fn a_clock_that_is_wrong_changes_no_figure_and_is_said() {
    let mut net = Net::start("clock");
    script(&mut net.clients[1], "date -s @$(( $(date +%s) + 3 ))").unwrap();
    net.write("/tmp/short.toml", &short(2));
    let run = "ebb run /tmp/short.toml --hosts a,b --directory /mnt/efs -q >/tmp/said || [ $? = 3 ]; ebb show --json --full";
    let said = script(&mut net.server, run).unwrap();
    eprintln!("{}", script(&mut net.server, "cat /tmp/said").unwrap());
    let session = json(&said);
    let trials = session["trials"].as_array().unwrap();
    let both = trials.iter().find(|trial| trial["design"] == "both").unwrap();
    let host =
        |name: &str| both["hosts"].as_array().unwrap().iter().find(|host| host["name"] == name).unwrap();
    let ahead = |name: &str| host(name)["wall_ahead_s"].as_f64().unwrap();
    assert!((1.5..4.5).contains(&(ahead("b") - ahead("a"))), "{both}");
    let notes = session["session"]["inventory"]["notes"].to_string();
    assert!(notes.contains("the wall clock of b is"), "{notes}");
    // Both were at work in all of the time that counts, which is no shorter than most of what was asked.
    assert!(both["elapsed_s"].as_f64().unwrap() > 0.8, "{both}");
    net.clients.iter_mut().for_each(Net::nothing_left);
}

#[test]
fn another_ebb_is_told_and_replaced_only_when_that_is_asked_for() {
    let mut net = Net::start("version");
    net.write("/tmp/short.toml", &short(2));
    let old = "printf '#!/bin/sh\\n[ \"$1\" = --version ] && echo ebb 0.0.9\\n' >/usr/local/bin/ebb";
    script(&mut net.clients[1], old).unwrap();
    // The user's own configuration: b is behind a, and has another name.
    script(&mut net.server, "printf 'Host behind\\n  HostName b\\n  ProxyJump a\\n' >>/root/.ssh/config")
        .unwrap();
    let refused = "ebb run /tmp/short.toml --hosts a,behind --directory /mnt/efs -q 2>&1 && exit 1; true";
    let said = script(&mut net.server, refused).unwrap();
    assert!(said.contains("behind has ebb 0.0.9, here is 0.1.0") && said.contains("--copy-ebb"), "{said}");
    net.clients.iter_mut().for_each(Net::nothing_left);
    let run = "ebb run /tmp/short.toml --hosts a,b --directory /mnt/efs --copy-ebb 2>&1 || [ $? = 3 ]";
    let said = script(&mut net.server, run).unwrap();
    assert!(said.contains("6 trials"), "{said}");
    net.clients.iter_mut().for_each(Net::nothing_left);
    let there = script(&mut net.clients[1], "ebb --version; find /root/.cache -name ebb 2>/dev/null || true")
        .unwrap();
    assert_eq!(there, "ebb 0.0.9\n", "what was there stays, and the copy is gone");
}

#[test]
fn a_client_that_dies_fails_its_trials_is_named_and_leaves_nothing_running() {
    let mut net = Net::start("killed");
    net.write("/tmp/short.toml", &short(12));
    let run = "ebb run /tmp/short.toml --hosts a,b --directory /mnt/efs >/tmp/said 2>&1 </dev/null & echo $! >/tmp/pid";
    script(&mut net.server, run).unwrap();
    let ready =
        "ebb list 2>/dev/null | grep -q short && ls /mnt/efs/ebbtide-*/*client1* >/dev/null 2>&1; sleep 3";
    script(&mut net.clients[1], &format!("for i in $(seq 900); do ls /mnt/efs/ebbtide-*/*client1* >/dev/null 2>&1 && break; sleep 0.2; done; {ready}")).unwrap();
    std::thread::sleep(Duration::from_secs(8));
    drop(net.clients.remove(0));
    let killed = Instant::now();
    let wait = "for i in $(seq 1500); do kill -0 $(cat /tmp/pid) 2>/dev/null || break; sleep 0.2; done; cat /tmp/said";
    let said = script(&mut net.server, wait).unwrap();
    eprintln!("{:?} after the kill:\n{said}", killed.elapsed());
    assert!(said.contains("host a is lost"), "{said}");
    // What the client had made is on the server still, and nobody's but its own.
    let made = script(&mut net.clients[0], "ls -d /mnt/efs/ebbtide-*; ls /mnt/efs/ebbtide-*").unwrap();
    assert!(made.contains("client0") && !made.contains("client1"), "{made}");
    script(&mut net.server, "rm -r /srv/files/ebbtide-*").unwrap();
    Net::nothing_left(&mut net.clients[0]);
}
