//! What a benchmark leaves on a device is known again as its own, whatever mix of reads and writes it was.

use super::common::{Home, Loop, status};
use ebbtide_model::blank;

const SIZE: usize = 8 << 20;

#[test]
#[ignore = "requires root and loop devices"]
fn what_a_mixed_benchmark_leaves_is_no_data_of_an_unknown_kind() {
    let home = Home::new();
    for (first, ioengine) in [("randrw", "io_uring"), ("rw", "io_uring"), ("randrw", "psync")] {
        let file = home.path("backing");
        std::fs::write(&file, vec![0; SIZE]).unwrap();
        let device = Loop::over(&file);
        for rw in [first, "write"] {
            let line = format!(
                "bench {} --rw {rw} --ioengine {ioengine} --bs 16k --size 8m --destroy --quiet --json",
                device.device
            );
            let output = home.ebb(&line).output().unwrap();
            assert_eq!(status(&output), 0, "{first}, then {rw}: {output:?}");
            let content = std::fs::read(&file).unwrap();
            assert_eq!(blank::first_foreign(&content), None, "{rw} on {ioengine}");
            assert!(content.iter().any(|byte| *byte != 0), "{rw} wrote nothing");
        }
    }
}
