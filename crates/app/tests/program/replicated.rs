//! Replicated designs on the backends that need nothing: read, shown, simulated, and run on real files.

use crate::common::Home;
use serde_json::Value;

const EXPERIMENT: &str = r#"name = "hosts"
[volumes.a]
count = 2
size = "4MiB"
host = "storage-a"
shape = { iops = 2000 }
[volumes.b]
count = 2
size = "4MiB"
host = "storage-b"
shape = { iops = 2000 }
[volumes.c]
count = 2
size = "4MiB"
host = "storage-c"
shape = { iops = 2000 }
[designs.two]
layout = "replicated"
chunk = "64KiB"
members = ["*"]
[designs.by-hand]
layout = "stripe"
chunk = "64KiB"
members = [
    { layout = "raid10", arrangement = "offset", chunk = "64KiB", members = ["a0", "b0", "c0"] },
    { layout = "raid10", arrangement = "offset", chunk = "64KiB", members = ["a1", "b1", "c1"] },
]
[designs.three]
layout = "replicated"
copies = 3
over = "linear"
backing = "lvm"
members = ["*"]
[workloads.mixed]
rw = "randrw"
bs = "4KiB"
runtime = "50ms"
[answer]
trials_min = 6
trials_max = 6
"#;

#[test]
fn every_backend_takes_what_a_replicated_design_is_made_of() {
    let home = Home::new();
    let file = home.write("hosts.toml", EXPERIMENT);
    let file = file.display();
    let said = home.ebb(&format!("check {file}")).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(
        said.contains("stripe of 2 (each a RAID10 of 3, 2 offset copies, chunk 64KiB), chunk 64KiB")
            && said.contains("linear, 2 members (each a mirror of 3)")
            && said.contains("on host storage-b"),
        "{said}"
    );
    // The same bytes in the same places as the layouts that it is made of.
    let place = |design: &str| {
        let line = format!("layout where {file}:{design} --offset 192KiB --length 64KiB");
        let mut value = home.json(&line, &[0]);
        value["extents"].take()
    };
    assert_eq!(place("two"), place("by-hand"));
    assert_eq!(place("two").as_array().map(Vec::len), Some(2));
    for backend in ["sim", "files"] {
        let session: Value = home.json(&format!("run {file} --on {backend} --seed 1"), &[0, 3]);
        assert_eq!(session["designs"].as_array().map(Vec::len), Some(3), "{backend}: {session:#}");
        assert!(session["results"].as_array().is_some_and(|results| !results.is_empty()), "{backend}");
    }
}

#[test]
fn what_is_impossible_is_told_with_its_place() {
    let home = Home::new();
    let text = EXPERIMENT.replace("copies = 3", "copies = 4");
    let file = home.write("hosts.toml", &text);
    let output = home.ebb(&format!("run {} --on sim", file.display())).output().unwrap();
    let said = crate::common::stderr(&output);
    assert_eq!(crate::common::status(&output), 2, "{said}");
    assert!(
        said.contains("4 copies need as many hosts, and its members are on 3")
            && said.contains("write `copies = 3`"),
        "{said}"
    );
}
