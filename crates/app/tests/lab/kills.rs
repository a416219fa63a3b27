//! `ebb` is killed at boundaries of a build and of its undoing, and `ebb cleanup` makes the guest what it was.

use super::guests::{guest, tell, unchanged};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// What a killed run has left on a volume is nobody's it knows of, so that the ids are needed. Every kind of step but LVM's, whose commands take a second each under emulation; the unit tests have those.
const EXPERIMENT: &str = r#"
name = "kills"
[volumes]
a = { device = "/dev/disk/by-id/virtio-a", id = "virtio-a" }
b = { device = "/dev/disk/by-id/virtio-b", id = "virtio-b" }
s = { device = "/dev/disk/by-id/virtio-s", id = "virtio-s" }
[designs.rich]
layout = "stripe"
chunk = "64KiB"
members = ["a", "b"]
encryption = { format = "luks2", key_file = "/root/key" }
filesystem = "xfs"
mount_options = "noatime"
readahead = "1MiB"
scheduler = "mq-deadline"
swap = [{ members = ["s"], priority = 10 }]
[workloads.w]
rw = "write"
size = "1MiB"
span = "1MiB"
[answer]
level = 0.5
"#;

/// Every so many boundaries one is tried; `EBB_TEST_EVERY=1` asks for all, which takes a quarter of an hour under emulation. What is set and
/// mounted on a build that stays is killed in `builds`, too.
fn every() -> usize {
    ebbtide_host::testing::every(5)
}

/// Boundaries from the start of a run to the end of its first trial.
fn boundaries(plan: &Value) -> usize {
    let steps = plan["builds"][0]["steps"].as_array().unwrap();
    let undos = steps.iter().filter(|step| !step["undo"].is_null()).count();
    // One after the volumes; before each step and after its entry, after the last step, and in each undo.
    1 + steps.len() + undos + 1 + undos
}

#[test]
fn a_kill_at_a_boundary_is_cleaned_up() {
    let disks = ["a", "b", "s"].map(|name| (name.to_owned(), 400 * MIB));
    let mut guest = guest("kills", &disks);
    let before = tell(
        &mut guest,
        &format!(
            "cat >e.toml <<'E'\n{EXPERIMENT}E\nhead -c 32 /dev/urandom >key\nmodprobe raid0\n\
             mkdir -p .local/state/ebbtide/journals\nstate"
        ),
    );
    let run = "ebb run e.toml --on kernel --destroy --no-save -q";
    let plan = tell(&mut guest, &format!("{run} --dry-run --json"));
    let count = boundaries(&serde_json::from_str(&plan).unwrap());
    assert!(count > 30, "{plan}");
    for boundary in (0..count).step_by(every()) {
        let start = std::time::Instant::now();
        let kill = format!("status=0; EBB_TEST_HALT={boundary} {run} 2>&1 || status=$?; echo $status");
        let said = tell(&mut guest, &kill);
        assert_eq!(said.lines().last(), Some("137"), "{boundary}: {said}");
        let cleaned = tell(&mut guest, "ebb cleanup");
        let after = tell(&mut guest, "state");
        unchanged(&before, &after, &format!("killed at boundary {boundary} of {count}, then\n{cleaned}"));
        eprintln!("{:.1} s boundary {boundary} of {count}", start.elapsed().as_secs_f64());
    }
}
