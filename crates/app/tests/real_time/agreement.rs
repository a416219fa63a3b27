//! Shaped file volumes in real time and the simulator agree on the same experiment.
//!
//! Nothing here asserts how fast the machine is: the limits are far below what any disk does, so that both backends
//! should give what the shapes say, and there is enough in flight that a late thread does not leave a volume idle.

use crate::common::Home;
use crate::one_at_a_time;
use serde_json::Value;
use std::collections::BTreeMap;

const EXPERIMENT: &str = r#"
name = "agreement"

[links.gate]
throughput = "6MB/s"

[volumes.vol]
count = 3
size = "16MiB"
shape = { iops = 300, throughput = "4MB/s", latency = "20ms" }

[volumes.far]
count = 2
size = "16MiB"
shape = { throughput = "4MB/s", latency = "20ms", link = "gate" }

[designs.stripe]
layout = "stripe"
chunk = "64KiB"
members = ["vol[0..2]"]

[designs.behind-a-link]
layout = "stripe"
chunk = "64KiB"
members = ["far[0..1]"]

# The limit of operations: 300/s for each volume; behind the link, 6 MB/s.
[workloads.random]
rw = "randread"
bs = "4KiB"
iodepth = 96
runtime = "2s"
ramp_time = "500ms"

# The limit of bytes.
[workloads.sequential]
rw = "write"
bs = "16KiB"
iodepth = 96
runtime = "2s"
ramp_time = "500ms"

[answer]
level = 0.5
precision = "50%"
trials_max = 2
"#;

/// Median by design and workload of each one's primary metric.
fn medians(report: &Value) -> BTreeMap<(String, String), f64> {
    let results = report["results"].as_array().unwrap().iter().filter(|result| result["primary"] == true);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    results.map(|r| ((text(&r["design"]), text(&r["workload"])), r["median"].as_f64().unwrap())).collect()
}

#[test]
fn shaped_files_and_the_simulator_agree_within_5_percent() {
    let _alone = one_at_a_time();
    let home = Home::on_its_own_disk();
    home.write("agreement.toml", EXPERIMENT);
    let run =
        |on: &str| medians(&home.json(&format!("run agreement.toml --no-save --seed 1 --on {on}"), &[0, 3]));
    let (real, simulated) = (run("files"), run("sim"));
    assert_eq!(real.len(), 4);
    for (key, real) in &real {
        let ratio = real / simulated[key];
        assert!((ratio - 1.0).abs() <= 0.05, "{key:?}: {real} in real time, {} simulated", simulated[key]);
    }
}
