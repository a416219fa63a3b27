//! Guests of User-Mode Linux.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use ebbtide_lab::places::Places;
use ebbtide_lab::uml::{Guest, Kernel};
use std::fs::File;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(300);

/// Needs root and the network, like every guest of the lab.
#[test]
#[ignore = "fetches a kernel of 12 MB: run by the lab's tests"]
fn guests_boot_have_disks_share_files_and_lose_their_power() {
    let place = tempfile::tempdir().unwrap();
    let places = Places::new(place.path().join("lab"));
    let kernel = Kernel::ready(&places, &mut |text| eprintln!("{text}")).unwrap();
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

    let make = guest(
        "mdadm --create /dev/md0 -R -l 5 -n 3 /dev/ubda /dev/ubdb /dev/ubdc 2>&1; echo it is $? > /share/said; echo out; echo error >&2; exit 7",
    );
    let outcome = make.run(&kernel, PATIENCE).unwrap();
    assert_eq!(outcome.status, Some(7), "{}", outcome.output);
    assert!(outcome.output.ends_with("out\nerror\n"), "{}", outcome.output);
    assert_eq!(std::fs::read_to_string(share.join("said")).unwrap(), "it is 0\n");

    let running = guest("echo up; sleep 1000").start(&kernel).unwrap();
    while !running.output_so_far().contains("up\n") {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(running.cut_power().unwrap().status, None);

    let late = guest("echo early; sleep 1000").run(&kernel, Duration::from_secs(20)).unwrap_err();
    assert!(late.to_string().contains("is not off after 20 s"), "{late}");
    let left = std::fs::read_dir(places.root().join("guests")).unwrap().count();
    assert_eq!(left, 0, "directories of guests");
}
