//! What happened to a volume between two passes, as far as it can be seen from its host: by what both passes found.

use crate::units::{Bytes, UnixTime};
use serde::{Deserialize, Serialize};

/// What a pass finds of a volume and of the host that it is attached to; nothing where it cannot be told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeContext {
    /// Name of the host.
    pub host: String,
    /// What tells the host from others whatever it is called (`/etc/machine-id`).
    pub machine_id: Option<String>,
    /// Vendor and product of the host: on EC2 the instance type.
    pub machine: Option<String>,
    /// What tells this start of the host from others (`/proc/sys/kernel/random/boot_id`).
    pub boot: Option<String>,
    /// When it was started, to the second (`btime` of `/proc/stat`).
    pub booted: Option<UnixTime>,
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Kernel name of the device, such as `nvme1n1`.
    pub device: Option<String>,
    /// What kind of device it is, and its model.
    pub kind: Option<String>,
    /// Size of the volume.
    pub bytes: Option<Bytes>,
}

/// What happened to a volume between two passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// It is attached to another host: the names of both.
    Moved {
        /// Name of the host before.
        before: String,
        /// Name of the host since.
        after: String,
    },
    /// Its host was started again.
    Started,
    /// Its host is another machine, an instance of another type: vendors and products.
    Machine {
        /// Machine before.
        before: String,
        /// Machine since.
        after: String,
    },
    /// Its host runs another kernel: releases.
    Kernel {
        /// Release of the kernel before.
        before: String,
        /// Release of the kernel since.
        after: String,
    },
    /// It has another device name on its host: it was detached and attached again, or found in another order.
    Renamed {
        /// Kernel name before.
        before: String,
        /// Kernel name since.
        after: String,
    },
    /// It has another size.
    Resized {
        /// Size before.
        before: Bytes,
        /// Size since.
        after: Bytes,
    },
    /// It is another kind of device, or another model.
    Kind {
        /// Kind and model before.
        before: String,
        /// Kind and model since.
        after: String,
    },
}

/// Something that happened to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, or the first pass that saw it.
    pub at: UnixTime,
    /// The last pass before it.
    pub since: UnixTime,
    /// What both passes found different.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened from the pass at `since`, which found `before`, to the one at `at`, which found `now`.
pub fn events(
    (since, before): (UnixTime, &VolumeContext),
    (at, now): (UnixTime, &VolumeContext),
) -> Vec<Event> {
    let event = |what| Event { at, since, what };
    let mut all = Vec::new();
    let is_other = match (&before.machine_id, &now.machine_id) {
        (Some(before), Some(now)) => before != now,
        _ => before.host != now.host,
    };
    if is_other {
        // What else differs is the hosts' difference.
        all.push(event(EventKind::Moved { before: before.host.clone(), after: now.host.clone() }));
    } else {
        if changed(&before.boot, &now.boot).is_some() {
            let booted = now.booted.filter(|booted| (since..=at).contains(booted));
            all.push(Event { at: booted.unwrap_or(at), since, what: EventKind::Started });
        }
        let machine = changed(&before.machine, &now.machine);
        all.extend(machine.map(|(before, after)| event(EventKind::Machine { before, after })));
        let kernel = changed(&before.kernel, &now.kernel);
        all.extend(kernel.map(|(before, after)| event(EventKind::Kernel { before, after })));
        let device = changed(&before.device, &now.device);
        all.extend(device.map(|(before, after)| event(EventKind::Renamed { before, after })));
    }
    let size = changed(&before.bytes, &now.bytes);
    all.extend(size.map(|(before, after)| event(EventKind::Resized { before, after })));
    let kind = changed(&before.kind, &now.kind);
    all.extend(kind.map(|(before, after)| event(EventKind::Kind { before, after })));
    all
}

/// Both, where both are known and differ.
fn changed<T: Clone + PartialEq>(before: &Option<T>, now: &Option<T>) -> Option<(T, T)> {
    let (before, now) = (before.as_ref()?, now.as_ref()?);
    (before != now).then(|| (before.clone(), now.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SINCE: UnixTime = UnixTime::from_secs(1000);
    const AT: UnixTime = UnixTime::from_secs(1900);

    fn found() -> VolumeContext {
        VolumeContext {
            host: "db1".to_owned(),
            machine_id: Some("m1".to_owned()),
            machine: Some("Amazon EC2 m5.large".to_owned()),
            boot: Some("b1".to_owned()),
            booted: Some(UnixTime::from_secs(10)),
            kernel: Some("6.1".to_owned()),
            device: Some("nvme1n1".to_owned()),
            kind: Some("EBS volume".to_owned()),
            bytes: Some(Bytes(100 << 30)),
        }
    }

    fn of(now: &VolumeContext) -> Vec<Event> {
        events((SINCE, &found()), (AT, now))
    }

    fn seen(what: EventKind) -> Event {
        Event { at: AT, since: SINCE, what }
    }

    #[test]
    fn nothing_happens_where_nothing_differs_or_it_is_not_known() {
        assert_eq!(of(&found()), []);
        assert_eq!(of(&VolumeContext { host: "db1".to_owned(), ..VolumeContext::default() }), []);
        let renamed = VolumeContext { host: "renamed".to_owned(), ..found() };
        assert_eq!(of(&renamed), [], "the same machine by its id");
    }

    #[test]
    fn a_stop_and_start_as_another_type_is_told_with_what_it_brought() {
        let now = VolumeContext {
            boot: Some("b2".to_owned()),
            booted: Some(UnixTime::from_secs(1500)),
            machine: Some("Amazon EC2 m5.4xlarge".to_owned()),
            kernel: Some("6.12".to_owned()),
            device: Some("nvme2n1".to_owned()),
            ..found()
        };
        let (before, after) = ("Amazon EC2 m5.large".to_owned(), "Amazon EC2 m5.4xlarge".to_owned());
        assert_eq!(
            of(&now),
            [
                Event { at: UnixTime::from_secs(1500), since: SINCE, what: EventKind::Started },
                seen(EventKind::Machine { before, after }),
                seen(EventKind::Kernel { before: "6.1".to_owned(), after: "6.12".to_owned() }),
                seen(EventKind::Renamed { before: "nvme1n1".to_owned(), after: "nvme2n1".to_owned() }),
            ]
        );
        // A clock that was wrong at the start says nothing.
        let odd = VolumeContext { booted: Some(UnixTime::from_secs(5000)), ..now };
        assert_eq!(of(&odd)[0].at, AT);
    }

    #[test]
    fn another_host_is_one_event_whatever_differs_of_it() {
        let now = VolumeContext {
            host: "db2".to_owned(),
            machine_id: Some("m2".to_owned()),
            boot: Some("b9".to_owned()),
            kernel: Some("5.10".to_owned()),
            device: Some("sdf".to_owned()),
            bytes: Some(Bytes(200 << 30)),
            ..found()
        };
        let moved = EventKind::Moved { before: "db1".to_owned(), after: "db2".to_owned() };
        let resized = EventKind::Resized { before: Bytes(100 << 30), after: Bytes(200 << 30) };
        assert_eq!(of(&now), [seen(moved.clone()), seen(resized)]);
        // Where it has no id, the name has to do.
        let nameless = VolumeContext { host: "db2".to_owned(), ..VolumeContext::default() };
        assert_eq!(of(&nameless), [seen(moved)]);
    }

    fn any_found() -> impl Strategy<Value = VolumeContext> {
        let word = || proptest::option::of("[ab]");
        ("[ab]", word(), word(), word(), word(), word(), word(), proptest::option::of(0..3u64)).prop_map(
            |(host, machine_id, machine, boot, kernel, device, kind, bytes)| {
                let bytes = bytes.map(Bytes);
                VolumeContext { host, machine_id, machine, boot, booted: None, kernel, device, kind, bytes }
            },
        )
    }

    proptest! {
        #[test]
        fn back_again_is_as_many_events_and_stays_as_it_is_in_json(one in any_found(), other in any_found()) {
            let there = events((SINCE, &one), (AT, &other));
            prop_assert_eq!(there.len(), events((SINCE, &other), (AT, &one)).len());
            prop_assert_eq!(events((SINCE, &one), (AT, &one)), vec![]);
            let text = serde_json::to_string(&there).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Vec<Event>>(&text).expect("reads"), there);
        }
    }
}
