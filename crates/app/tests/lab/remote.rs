//! A file server of the guest's own: how many calls an operation on it is, and how long they take.

use super::guests::{guest, script};
use serde_json::{Value, json};

/// A server that starts waits for the clients that had files open before, as short as it can.
const SET_UP: &str = r#"
    modprobe nfsd; modprobe nfsv4
    mkfs.ext4 -q /dev/vda
    mkdir -p /srv/files /mnt/files /var/lib/nfs/v4recovery
    mount /dev/vda /srv/files
    dd if=/dev/urandom of=/srv/files/volume bs=1M count=64 oflag=direct status=none
    mount -t nfsd nfsd /proc/fs/nfsd
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    echo '/srv/files 127.0.0.1(rw,async,no_root_squash,no_subtree_check,fsid=0)' >/etc/exports
    rpcbind; exportfs -ra; rpc.mountd -N 3; rpc.nfsd -N 3 -G 10 -L 10 -H 127.0.0.1 8
    mount -t nfs4 -o vers=4.2,rsize=65536,wsize=65536 127.0.0.1:/ /mnt/files
"#;

const EXPERIMENT: &str = r#"name = "remote"
[volumes.served]
file = "/mnt/files/volume"
[designs.as-it-is]
layout = "linear"
members = ["served"]
[workloads.read]
rw = "randread"
bs = "SIZE"
runtime = "1s"
[answer]
level = 0.5
trials_min = 2
trials_max = 2
"#;

#[test]
fn the_calls_of_a_file_server_are_counted() {
    let mut guest = guest("remote", &[("a".to_owned(), 128 << 20)]);
    script(&mut guest, SET_UP).unwrap();
    for (size, calls) in [("4k", 1.0), ("256k", 4.0)] {
        let experiment = EXPERIMENT.replace("SIZE", size);
        let line = format!(
            "cat > /tmp/e.toml <<'END'\n{experiment}END\nebb run /tmp/e.toml -q >/dev/null || [ $? = 3 ]; ebb show --json --full"
        );
        let said = script(&mut guest, &line).unwrap();
        let session: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let trial =
            with_key(&session, "observed").unwrap_or_else(|| panic!("{size}: no trial was observed: {said}"));
        let remote = &trial["observed"]["members"][0]["remote"];
        assert_eq!(
            (&remote["fstype"], &remote["source"]),
            (&json!("nfs4"), &json!("127.0.0.1:/")),
            "{size}: {remote}"
        );
        let number =
            |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{size}: no number: {value}: {remote}"));
        let read = &remote["calls"]["read"];
        let each = number(&read["calls"]) / (number(&trial["values"]["iops"]) * number(&trial["elapsed_s"]));
        // Counters are read four times a second, and what lies between is shared out evenly.
        assert!((each / calls - 1.0).abs() < 0.5, "{size}: {each} calls for each operation: {remote}");
        let [queued, round_trip, whole] = ["queued", "round_trip", "whole"].map(|time| number(&read[time]));
        assert!(round_trip > 0.0 && queued + round_trip <= 1.01 * whole, "{size}: {remote}");
    }
}

/// The first object that has this key, from the top.
fn with_key<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) if map.get(key).is_some_and(Value::is_object) => Some(value),
        Value::Object(map) => map.values().find_map(|value| with_key(value, key)),
        Value::Array(list) => list.iter().find_map(|value| with_key(value, key)),
        _ => None,
    }
}
