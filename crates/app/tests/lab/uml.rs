//! Guests of a script, on User-Mode Linux.

use super::guests::told;
use ebbtide_lab::uml::{Guest, Kernel};
use ebbtide_runner::places;
use std::fs::File;
use std::time::Duration;

#[test]
fn guests_of_a_script_have_disks_and_a_shared_directory_and_end_in_time() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let lab = places::lab().unwrap();
    let kernel = Kernel::ready(&lab, &mut told).unwrap();
    let disks: Vec<_> = ["a", "b", "c"].map(|name| place.path().join(name)).into();
    for disk in &disks {
        File::create(disk).unwrap().set_len(64 << 20).unwrap();
    }
    let share = place.path().join("share");
    std::fs::create_dir(&share).unwrap();
    let guest = |script: &str| Guest {
        script: script.to_owned(),
        disks: disks.clone(),
        udev: true,
        share: Some(share.clone()),
        ..Guest::default()
    };

    let make = "mdadm --create /dev/md0 -R -l 5 -n 3 /dev/ubda /dev/ubdb /dev/ubdc 2>&1; echo it is $? > /share/said; echo out; echo error >&2; exit 7";
    let outcome = guest(make).run(&kernel, Duration::from_secs(300)).unwrap();
    assert_eq!(outcome.status, Some(7), "{}", outcome.output);
    assert!(outcome.output.ends_with("out\nerror\n"), "{}", outcome.output);
    assert_eq!(std::fs::read_to_string(share.join("said")).unwrap(), "it is 0\n");

    // One that goes off by itself, and one whose power is cut.
    let off = guest("echo up; echo o >/proc/sysrq-trigger; sleep 1000");
    let outcome = off.run(&kernel, Duration::from_secs(300)).unwrap();
    assert!(outcome.status.is_none() && outcome.output.starts_with("up\n"), "{outcome:?}");
    let late = guest("echo early; sleep 1000").run(&kernel, Duration::from_secs(20)).unwrap_err();
    let late = late.to_string();
    assert!(late.contains("is not off after 20 s") && late.contains("early"), "{late}");
    let ours = format!("uml-{}-", std::process::id());
    let guests = std::fs::read_dir(lab.root().join("guests")).unwrap().map(|found| found.unwrap());
    let left = guests.filter(|found| {
        // Other tests of this process may have one of theirs at this moment.
        let script = std::fs::read_to_string(found.path().join("script")).unwrap_or_default();
        found.file_name().to_string_lossy().starts_with(&ours) && script.contains("echo early")
    });
    assert_eq!(left.count(), 0, "directories of guests");
}
