//! What each way to a volume of another host costs: the same memory there, over both protocols, directly and through SSH, plain and encrypted. The
//! figures of docs/studies/tunnels.md are from here.

use super::guests::script;
use super::ssh_hosts::Net;
use ebbtide_lab::guest::Guest;
use std::fmt::Write;

const MIB: u64 = 1 << 20;
/// Name, protocol, whether through SSH, and what `ebb attach` is told besides.
const WAYS: [(&str, &str, bool, &str); 6] = [
    ("nvme", "nvme-tcp", false, ""),
    ("iscsi", "iscsi", false, ""),
    ("nvme_luks", "nvme-tcp", false, "--encrypt key --header-backup nvme_luks.header"),
    ("ssh_nvme", "nvme-tcp", true, ""),
    ("ssh_iscsi", "iscsi", true, ""),
    ("ssh_nvme_luks", "nvme-tcp", true, "--encrypt key --header-backup ssh_nvme_luks.header"),
];
const WORKLOADS: &str = r#"
[workloads.read-1]
rw = "randread"
bs = "4KiB"
iodepth = 1
runtime = "1s"
ramp_time = "250ms"

[workloads.read-16]
rw = "randread"
bs = "4KiB"
iodepth = 16
runtime = "1s"
ramp_time = "250ms"

[workloads.write-1]
rw = "randwrite"
bs = "4KiB"
iodepth = 1
runtime = "1s"
ramp_time = "250ms"

[workloads.stream]
rw = "read"
bs = "128KiB"
iodepth = 8
runtime = "1s"
ramp_time = "250ms"

[workloads.stream-write]
rw = "write"
bs = "128KiB"
iodepth = 8
runtime = "1s"
ramp_time = "250ms"
"#;

fn tell(guest: &mut Guest, text: &str) -> String {
    script(guest, text).unwrap()
}

/// Its figures are for reading; what it asserts is that every way was measured.
#[test]
#[ignore = "takes a quarter of an hour, for figures: `cargo test --release -p ebbtide --test lab tunnels:: -- --ignored --nocapture`"]
fn each_way_is_measured_beside_the_others() {
    let mut net = Net::new("tunnels", 64 * MIB);
    let mut desk = net.client(2, "desk");
    tell(&mut desk, "modprobe iscsi_tcp; iscsid; head -c 48 /dev/urandom | base64 -w0 >key; chmod 600 key");
    tell(&mut net.store, &format!("modprobe brd rd_nr={} rd_size={}", WAYS.len(), 32 * 1024));
    let mut text = "name = \"tunnels\"\n".to_owned();
    for (number, (name, transport, ssh, with)) in WAYS.iter().enumerate() {
        let disk = format!("/dev/ram{number}");
        let place = if *ssh {
            format!("root@store:{disk} --transport {transport}")
        } else {
            let client = match *transport {
                "iscsi" => "iqn.2026-11.ebbtide.test:desk",
                _ => "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000002",
            };
            let said = tell(
                &mut net.store,
                &format!(
                    "ebb export {disk} --name {name} --client {client} --transport {transport} --listen 10.77.0.1 --json"
                ),
            );
            let export: serde_json::Value = serde_json::from_str(&said).unwrap();
            format!("{transport}://store/{}", export["target"].as_str().unwrap())
        };
        tell(&mut desk, &format!("ebb attach {place} --name {name} {with} -q"));
        let record = tell(&mut desk, &format!("cat /var/lib/ebbtide/attached/{name}.json"));
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        // What decrypts to noise carries something, and is released by its id.
        let (device, id) = match with.is_empty() {
            true => (record["device"].as_str().unwrap().to_owned(), String::new()),
            false => (format!("/dev/mapper/{name}"), format!("id = \"dm-name-{name}\"\n")),
        };
        write!(text, "[volumes.{name}]\ndevice = \"{device}\"\n{id}").unwrap();
    }
    for (name, ..) in WAYS {
        writeln!(text, "[designs.{name}]\nlayout = \"linear\"\nmembers = [\"{name}\"]").unwrap();
    }
    let rounds = std::env::var("EBB_TEST_ROUNDS").unwrap_or_else(|_| "12".to_owned());
    write!(
        text,
        "{WORKLOADS}\n[answer]\ncontrol = \"nvme\"\ntrials_min = {rounds}\ntrials_max = {rounds}\nbudget = \"40m\"\n"
    )
    .unwrap();
    tell(&mut desk, &format!("mkdir -p /root/run; cat >/root/run/e.toml <<'E'\n{text}E\n"));
    let said = tell(
        &mut desk,
        "cd /root/run; s=0; ebb run e.toml --on files --destroy --seed 1 --store /root/run/store.ebb 2>said || s=$?; cat said; [ $s = 0 ] || [ $s = 3 ]",
    );
    println!("{said}");
    let json: serde_json::Value =
        serde_json::from_str(&tell(&mut desk, "cd /root/run; ebb show --store store.ebb --json")).unwrap();
    println!("{json:#}");
    for (name, ..) in WAYS {
        assert!(
            json["results"].as_array().unwrap().iter().any(|result| result["design"] == *name),
            "{json:#}"
        );
    }
    for (name, ..) in WAYS {
        tell(&mut desk, &format!("ebb undo {name} -q"));
    }
}
