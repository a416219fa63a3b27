//! Observation of real files on this host.

use super::*;
use crate::testing::unpack;
use std::io::Write;

/// A file in the build's own directory: /tmp may be memory, which no block device shows.
fn file(bytes: usize) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
    file.write_all(&vec![7; bytes]).expect("written");
    file
}

fn member(name: &str, file: &tempfile::NamedTempFile) -> ObservedMember {
    ObservedMember { name: name.to_owned(), path: file.path().to_owned() }
}

#[test]
fn what_a_file_writes_is_seen_on_its_disk() {
    let (one, two) = (file(0), file(0));
    let running =
        Observer::host().interval(Duration::from_millis(20)).start(&[member("a", &one), member("b", &two)]);
    let mut writer = one.reopen().expect("reopened");
    writer.write_all(&vec![1; 8 << 20]).and_then(|()| writer.sync_all()).expect("written");
    std::thread::sleep(Duration::from_millis(60));
    let seen = running.stop(None);
    assert_eq!(seen.members.len(), 2);
    assert_eq!(seen.members[0].devices, seen.members[1].devices, "both are on the same disk");
    assert!(!seen.cores.is_empty() && seen.memory.is_some());
    // In a container the file system may have no device that /sys shows.
    if let Some(disk) = seen.members[0].devices.last() {
        assert!(seen.devices[*disk].total.bytes.write >= 8 << 20, "{:?}", seen.devices[*disk]);
        assert!(seen.series.len() >= 2, "{} intervals", seen.series.len());
    }
}

#[test]
fn a_window_outside_the_observation_is_the_whole_of_it() {
    let one = file(4096);
    let running = Observer::host().start(&[member("a", &one)]);
    let window = Window { started_unix: UnixTime(u64::MAX), elapsed: Nanos::from_secs(1) };
    assert!(!running.stop(Some(window)).series.is_empty());
}

#[test]
fn a_member_that_is_not_there_is_kept_without_devices() {
    let gone = ObservedMember { name: "gone".to_owned(), path: PathBuf::from("/no/such/volume") };
    let seen = Observer::host().start(&[gone]).stop(None);
    assert_eq!((seen.members[0].member.as_str(), seen.members[0].devices.len()), ("gone", 0));
}

#[test]
fn a_disk_has_queues_of_its_own_and_what_is_made_of_others_has_none() {
    let tree = unpack(
        "f /sys/devices/sda/queue/nr_requests\n|64\nf /sys/devices/sda/mq/0/cpu_list\n|0\nf /sys/devices/sda/mq/1/cpu_list\n|1\n\
         f /sys/devices/sda/device/queue_depth\n|32\nf /sys/devices/md0/queue/nr_requests\n|128\n\
         l /sys/dev/block/8:0 -> ../../devices/sda\nl /sys/dev/block/9:0 -> ../../devices/md0\n",
    );
    let sys = Sys::below(tree.path());
    let disk = devices::describe(&sys, "sda", "8:0");
    assert_eq!((disk.nr_requests, disk.hardware_queues, disk.device_depth), (Some(64), Some(2), Some(32)));
    let array = devices::describe(&sys, "md0", "9:0");
    assert_eq!((array.nr_requests, array.hardware_queues, array.device_depth), (Some(128), None, None));
}
