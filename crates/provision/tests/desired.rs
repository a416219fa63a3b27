//! What is made for designs as they are written: steps, files, commands.

use ebbtide_experiment::parse;
use ebbtide_provision::status::{Array, ArraySeen, State, Status};
use ebbtide_provision::{
    AtWork, Carried, Class, DesignRequest, Desired, MemberSeen, MemberState, ProvisionError, Record, System,
    TakenOut, check_name,
};
use std::path::Path;

fn system(release: &str, paths: &[&str]) -> System {
    System::of(release, |path| paths.iter().any(|there| Path::new(there) == path))
}

fn debian() -> System {
    system(
        "ID=debian\nVERSION_ID=\"12\"\n",
        &["/usr/sbin/update-initramfs", "/run/systemd/system", "/run/udev"],
    )
}

/// What is made for the design `[designs.d]` with these lines.
fn ordered(
    lines: &str,
    class: Class,
    mountpoint: Option<&str>,
    system: &System,
) -> Result<Desired, ProvisionError> {
    ordered_on(&|_| String::new(), lines, class, mountpoint, system)
}

/// The same, with further keys of each volume.
fn ordered_on(
    keys: &dyn Fn(usize) -> String,
    lines: &str,
    class: Class,
    mountpoint: Option<&str>,
    system: &System,
) -> Result<Desired, ProvisionError> {
    let volumes: String = (0..8)
        .map(|number| {
            format!("[volumes.v{number}]\ndevice = \"/dev/disk/by-id/nvme-vol{number}\"\n{}", keys(number))
        })
        .collect();
    let text = format!(
        "name = \"n\"\n{volumes}[designs.d]\n{lines}\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
    );
    let experiment = parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
    let devices: Vec<String> = (0..8).map(|number| format!("/dev/disk/by-id/nvme-vol{number}")).collect();
    let mountpoint = mountpoint.map(Path::new);
    DesignRequest {
        experiment: &experiment,
        design: 0,
        name: "data",
        class,
        mountpoint,
        devices: &devices,
        machine: "m",
        system,
        program: None,
    }
    .desired()
}

fn shown(desired: &Desired) -> String {
    let steps = desired.build.steps.iter().map(|step| format!("{}\n", step.action));
    let parts = desired.parts.iter().map(|part| format!("--- {}\n{}", part.path.display(), part.lines));
    let after = desired.after.iter().map(|words| format!("then {}\n", words.join(" ")));
    let notes = desired.notes.iter().map(|note| format!("note: {note}\n"));
    steps.chain(parts).chain(after).chain(notes).collect()
}

#[test]
fn a_whole_stack_that_stays() {
    let lines = "layout = \"raid10\"\narrangement = \"offset\"\nchunk = \"64KiB\"\nmembers = [\"v0\", \"v1\", \"v2\"]\n\
                 encryption = { format = \"luks2\", key_file = \"/root/key\", no_read_workqueue = true, no_write_workqueue = true }\n\
                 filesystem = \"xfs\"\nmount_options = \"noatime\"\nreadahead = \"4MiB\"\nscheduler = \"none\"\nqueue_depth = 512\nmax_sectors = \"512KiB\"\n\
                 swap = [{ members = [\"v3\", \"v4\"], priority = 7 }]";
    insta::assert_snapshot!(shown(
        &ordered(lines, Class::Persistent, Some("/srv/my data"), &debian()).unwrap()
    ));
}

#[test]
fn parity_that_stays() {
    let lines = "layout = \"raid5\"\nmembers = [\"v0\", \"v1\", \"v2\"]\nconsistency_policy = \"ppl\"\nstripe_cache_size = 4096\n\
                 group_thread_cnt = 2\nfilesystem = \"ext4\"";
    insta::assert_snapshot!(shown(&ordered(lines, Class::Persistent, Some("/data"), &debian()).unwrap()));
}

#[test]
fn lvm_that_stays_on_another_distribution() {
    let amazon =
        system("ID=amzn\nID_LIKE=\"fedora\"\n", &["/usr/bin/dracut", "/run/systemd/system", "/run/udev"]);
    let lines = "layout = \"stripe\"\nbacking = \"lvm\"\nmembers = [\"v0\", \"v1\"]\nfilesystem = \"ext4\"\nreadahead = \"1MiB\"";
    insta::assert_snapshot!(shown(&ordered(lines, Class::Persistent, Some("/data"), &amazon).unwrap()));
}

#[test]
fn instance_store_is_made_anew_by_its_own_unit() {
    let lines = "layout = \"stripe\"\nmembers = [\"v0\", \"v1\"]\nfilesystem = \"xfs\"";
    insta::assert_snapshot!(shown(&ordered(lines, Class::Ephemeral, Some("/data"), &debian()).unwrap()));
    let bare = system("ID=debian\n", &[]);
    let error = ordered(lines, Class::Ephemeral, Some("/data"), &bare).unwrap_err().to_string();
    assert!(error.contains("does not run systemd"), "{error}");
}

/// Each has its copies on different hosts, one of them this machine: mdadm leaves it alone at boot, reads stay here.
#[test]
fn copies_over_hosts_are_started_by_a_unit_of_their_own() {
    let host = |number: usize| format!("host = \"{}\"\n", ["localhost", "storage-b"][number % 2]);
    let lines = "layout = \"replicated\"\nchunk = \"64KiB\"\nmembers = [\"v0\", \"v2\", \"v1\", \"v3\"]\nfilesystem = \"xfs\"";
    let made = ordered_on(&host, lines, Class::Persistent, Some("/data"), &debian()).unwrap();
    insta::assert_snapshot!(shown(&made));
    let across: Vec<bool> = made.build.steps.iter().map(|step| made.is_across_hosts(step)).collect();
    assert_eq!(&across[..3], [true, true, false]);
    // Ordinary arrays whose volumes say hosts are as careful.
    let lines = "layout = \"mirror\"\nmembers = [\"v0\", \"v1\"]";
    let mirror = ordered_on(&host, lines, Class::Persistent, None, &debian()).unwrap();
    assert!(mirror.has_hosts() && mirror.parts[0].lines.starts_with("ARRAY <ignore> "));
}

#[test]
fn identities_are_known_before_anything_is_made_and_are_this_host_s() {
    let lines = "layout = \"stripe\"\nmembers = [\"v0\", \"v1\"]\nfilesystem = \"xfs\"";
    let made = || ordered(lines, Class::Persistent, Some("/data"), &debian()).unwrap();
    assert_eq!(made(), made());
    let uuid = made().seed.of("file system").uuid();
    let fstab = made().parts.last().unwrap().lines.clone();
    assert!(fstab.contains(&format!("UUID={uuid} /data xfs nofail,")), "{fstab}");
    assert!(made().build.steps.iter().any(|step| step.action.to_string().contains(&format!("uuid={uuid}"))));
    // RFC 9562, 5.4.
    assert_eq!(
        (uuid.len(), &uuid[14..15], uuid[19..20].contains(['8', '9', 'a', 'b'])),
        (36, "4", true),
        "{uuid}"
    );
}

#[test]
fn what_cannot_stay_is_refused_with_what_to_write() {
    let stripe = "layout = \"stripe\"\nmembers = [\"v0\", \"v1\"]\n";
    let refused = |lines: &str, mountpoint| {
        ordered(lines, Class::Persistent, mountpoint, &debian()).unwrap_err().to_string()
    };
    let with = |line: &str| format!("{stripe}{line}");
    for (said, wanted) in [
        (refused(&with("filesystem = \"xfs\""), None), "--mount /data"),
        (refused(&with("filesystem = \"xfs\""), Some("data")), "begin it with /"),
        (refused(&with("filesystem = \"xfs\""), Some("/usr")), "the system's own"),
        (refused(&with("filesystem = \"xfs\""), Some("/dev/data")), "gone after a reboot"),
        (refused(&with("filesystem = \"xfs\""), Some("/tmp/a/b")), "gone after a reboot"),
        (refused(&with("filesystem = \"xfs\""), Some("/data/../etc")), "has .. in it"),
        (refused(&with("filesystem = \"xfs\""), Some("/a\nb")), "cannot hold"),
        (refused(&with("encryption = { format = \"luks2\", key = \"prompt\" }"), None), "key_file"),
        (
            refused(&with("encryption = { format = \"luks2\", key_file = \"/root/a key\" }"), None),
            "crypttab cannot name",
        ),
    ] {
        assert!(said.contains(wanted), "{said}");
    }
    for name in [
        "",
        "1data",
        "Data",
        "data-1",
        "md0",
        "md",
        "control",
        "disk",
        "shm",
        "null",
        "a_name_that_is_far_too_long",
    ] {
        assert!(check_name(name).is_err_and(|error| error.to_string().contains("--name")), "{name}");
    }
    for name in ["data", "md_data", "d2"] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
}

#[test]
fn more_members_than_an_array_can_lose_come_back_together() {
    use MemberState::{Faulty, InUse, Unreachable};
    let design = "layout = \"raid5\"\nmembers = [\"v0\", \"v1\", \"v2\"]\nfilesystem = \"ext4\"";
    let record = Record::new(ordered(design, Class::Persistent, Some("/data"), &debian()).expect("can stay"));
    let remedies = |states: &[MemberState]| seen(&record, states, false).remedies;
    let lost = remedies(&[Faulty, Faulty, InUse]);
    assert!(lost.len() == 1 && lost[0].contains("`umount /data`, `mdadm --stop /dev/md/data`"), "{lost:?}");
    assert!(
        lost[0].contains("--assemble --force /dev/md/data --uuid=") && lost[0].contains("may be damaged"),
        "{lost:?}"
    );
    // One is no loss yet, and one that does not answer comes first.
    for states in [[Faulty, InUse, InUse], [Faulty, Unreachable, InUse]] {
        assert!(!remedies(&states).iter().any(|line| line.contains("--force")), "{states:?}");
    }
}

#[test]
fn with_a_disk_of_a_cache_that_writes_back_all_is_lost() {
    use MemberState::{InUse, Missing};
    use ebbtide_provision::Unfit;
    for (mode, whole, without) in [("writethrough", Some(1), Some(1)), ("writeback", Some(0), None)] {
        let design = format!(
            "layout = \"mirror\"\nbacking = \"lvm\"\nmembers = [\"v[0..1]\"]\nfilesystem = \"ext4\"\n\
             cache = {{ members = [\"v2\"], kind = \"cache\", mode = \"{mode}\" }}"
        );
        let desired = ordered(&design, Class::Persistent, Some("/data"), &debian()).expect("can stay");
        let cache = desired.cache.clone().expect("is noted");
        assert!(desired.notes.iter().any(|note| note.contains(cache.loss())), "{:?}", desired.notes);
        let fits = |class: Class, of: (bool, bool)| class.with_cache(&cache, of);
        let on_instance_store = if mode == "writeback" { Err(Unfit::Cache) } else { Ok(Class::Persistent) };
        assert_eq!(fits(Class::Persistent, (true, true)), on_instance_store);
        assert_eq!(fits(Class::Persistent, (false, false)), Ok(Class::Persistent));
        assert_eq!(fits(Class::Ephemeral, (true, true)), Ok(Class::Ephemeral));
        assert_eq!(fits(Class::Ephemeral, (false, false)), Err(Unfit::Mixed));
        let record = Record::new(desired);
        let can_lose = |states: [MemberState; 3]| seen(&record, &states, false).can_lose;
        assert_eq!((can_lose([InUse; 3]), can_lose([InUse, InUse, Missing])), (whole, without), "{mode}");
    }
}

/// How an array is whose members are in these states.
fn seen(record: &Record, states: &[MemberState], missing: bool) -> Array {
    let of = |state: &MemberState| MemberSeen { state: Some(*state), ..MemberSeen::default() };
    Array::of(record, ArraySeen { members: states.iter().map(of).collect(), missing, ..ArraySeen::default() })
}

#[test]
fn what_brings_members_back_is_said_of_those_that_do_not_come_back_by_themselves() {
    use MemberState::{Faulty, InUse, Missing, Resyncing, Unreachable, Unused};
    let debian = debian();
    let design = "layout = \"mirror\"\nmembers = [\"v0\", \"v1\"]\nfilesystem = \"ext4\"";
    let local = ordered(design, Class::Persistent, Some("/data"), &debian).expect("can stay");
    let local = Record::new(local);
    let remedy_of = |state, missing, carries: Option<Carried>, has_bitmap| {
        let members = [(InUse, None), (state, carries)].map(|(state, carries)| MemberSeen {
            state: Some(state),
            carries,
            has_bitmap,
            ..MemberSeen::default()
        });
        let array = Array::of(&local, ArraySeen { members: members.into(), missing, ..ArraySeen::default() });
        assert_eq!(array.is_complete(), array.remedies.is_empty() && !missing, "{array:?}");
        array.remedies.join("; ").replace("/dev/disk/by-id/nvme-vol1", "PATH")
    };
    let remedy = |state, missing, carries| remedy_of(state, missing, carries, true);
    let add = "`mdadm /dev/md/data --re-add PATH`";
    // Without a bitmap md re-adds nothing.
    let anew = "`mdadm /dev/md/data --add PATH`";
    assert_eq!(remedy_of(Unused, false, Some(Carried::Own), false), format!("volume v1: {anew}"));
    assert!(remedy_of(Faulty, false, None, false).ends_with(&format!("--remove PATH` and {anew}")));
    let other = || Carried::Other("PATH carries ext4 with the label theirs".to_owned());
    for (state, carries, wanted) in [
        (InUse, None, String::new()),
        (Resyncing, None, String::new()),
        (Unused, Some(Carried::Own), format!("volume v1: {add}")),
        (Unused, Some(Carried::Nothing), "volume v1: `mdadm /dev/md/data --add PATH`".to_owned()),
        (
            Unused,
            Some(other()),
            "volume v1: PATH carries ext4 with the label theirs, and nothing of /dev/md/data".to_owned(),
        ),
        (
            Missing,
            None,
            "volume v1: there is no PATH; connect it again, and then see `ebb status`".to_owned(),
        ),
        (Unreachable, None, "volume v1: see why PATH does not answer, and then see `ebb status`".to_owned()),
        (
            Faulty,
            None,
            format!(
                "volume v1: see why the array has thrown it out, and then `mdadm /dev/md/data --remove PATH` and {add}"
            ),
        ),
    ] {
        assert_eq!(remedy(state, false, carries), wanted);
    }
    assert_eq!(remedy(Unused, true, Some(Carried::Own)), "", "the array is started by an apply");
    assert_eq!(
        remedy(Missing, true, None),
        "volume v1: there is no PATH; connect it again, and then the same `ebb apply`"
    );

    let design = "layout = \"replicated\"\nmembers = [\"v0\", \"v1\", \"v2\", \"v3\"]\nfilesystem = \"xfs\"";
    let keys = |number: usize| format!("host = \"storage-{}\"\n", number % 2);
    let desired = ordered_on(&keys, design, Class::Persistent, Some("/data"), &debian).expect("can stay");
    let mut record = Record::new(desired);
    let states = |record: &Record, on_1: [MemberState; 2]| {
        let mut on_1 = on_1.into_iter();
        let of = |member: &ebbtide_provision::Member| match member.host.as_deref() {
            Some("storage-1") => on_1.next().expect("two of them"),
            _ => InUse,
        };
        record.desired.members.iter().map(of).collect::<Vec<_>>()
    };
    let array = seen(&record, &states(&record, [Missing, Unreachable]), false);
    assert_eq!((array.state, array.is_complete()), (State::Degraded, false));
    let text = Status::of(vec![array]).text();
    assert!(
        text.contains("  host storage-1 is gone: 2 of 4 members; no more host may be lost\n")
            && text.ends_with("  to do: host storage-1: attach its volumes again with the same `ebb attach`, and then run the same `ebb apply`\n"),
        "{text}"
    );
    let array = seen(&record, &states(&record, [InUse, Faulty]), false);
    assert_eq!(
        array.remedies,
        ["volume v3 on host storage-1: see why the array has thrown it out, and then the same `ebb apply`"]
    );
    record.without.push(TakenOut { host: "storage-1".to_owned(), stays_out: true, left: Vec::new() });
    let array = seen(&record, &states(&record, [Missing, Missing]), false);
    assert_eq!((array.state, array.is_complete()), (State::Degraded, true));
}

#[test]
fn who_is_at_work_is_told_with_the_step() {
    let design = "layout = \"mirror\"\nmembers = [\"v0\", \"v1\"]\nfilesystem = \"ext4\"";
    let desired = ordered(design, Class::Persistent, Some("/data"), &debian()).expect("can stay");
    let at_work = AtWork {
        command: "ebb apply".to_owned(),
        name: "data".to_owned(),
        pid: 812,
        start: 1,
        since_unix_s: 1_764_000_000,
        step: Some("step 3 of 9, `mkfs.ext4 /dev/md/data`".to_owned()),
    };
    let states = vec![MemberSeen { state: Some(MemberState::InUse), ..MemberSeen::default() }; 2];
    let seen = ArraySeen { members: states, at_work: Some(at_work), ..ArraySeen::default() };
    let status = Status::of(vec![Array::of(&Record::new(desired), seen)]);
    assert!(!status.is_healthy());
    let wanted = "  `ebb apply` of data is at work (process 812, since 2025-11-24T16:00:00Z): step 3 of 9, `mkfs.ext4 /dev/md/data`\n";
    assert!(status.text().ends_with(wanted), "{}", status.text());
}
