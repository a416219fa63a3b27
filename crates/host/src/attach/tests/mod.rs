//! Attaching and detaching on a made-up machine: what stands, what is left after every kill and every failure, and what is never done.

mod machine;

use super::*;
use crate::build::Outcome;
use ebbtide_provision::attached::Link;
use machine::{KEY, Machine, On, SECRET};

fn attached(machine: &Machine) -> Done {
    machine.with(|keeper| keeper.attach(&machine.wanted())).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(machine: &Machine, wanted: &Wanted, words: &[&str]) {
    let error = machine.with(|keeper| keeper.attach(wanted)).expect_err("it is refused").to_string();
    for word in words {
        assert!(error.contains(word), "{word} is not in {error}");
    }
}

#[test]
fn what_is_attached_stands_and_is_taken_away_as_a_whole() {
    let machine = Machine::new();
    let done = attached(&machine);
    assert!(done.changed && done.encrypted && done.formatted);
    assert_eq!(done.record.device.as_deref(), Some("/dev/disk/by-path/far"));
    assert_eq!(done.record.path.as_deref(), Some("/dev/mapper/data"));
    let status = machine.with(|keeper| keeper.look(&done.record));
    assert!(status.is_well() && status.state == Link::Connected, "{}", status.text());
    assert!(!machine.has_left());
    let again = attached(&machine);
    assert!(!again.changed && again.record == done.record);
    let left = machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    assert_eq!(left.1, Vec::<String>::new());
    // The copy of the header is its user's.
    assert_eq!(machine.traces(), ["root/header"]);
    assert!(
        matches!(&*machine.volume.borrow(), On::Luks { filesystem: true, .. }),
        "what is on the volume stays"
    );
    assert!(!machine.has_left());
}

#[test]
fn no_fault_costs_data_or_leaves_what_nobody_can_take_away() {
    let came = crate::made::tests::every_fault(Machine::new);
    assert!(came > 60, "{came}");
}

#[test]
fn neither_key_nor_secret_is_written_down_or_said_to_a_program() {
    let machine = Machine::new();
    attached(&machine);
    let all = machine.written_down();
    assert!(all.contains("luksFormat") && all.contains("ebb export"), "{all}");
    let key = String::from_utf8_lossy(KEY);
    assert!(!all.contains(&*key) && !all.contains(SECRET), "{all}");
}

#[test]
fn a_host_that_cannot_be_reached_keeps_nothing_here() {
    let machine = Machine::new();
    machine.reachable.set(false);
    refused(&machine, &machine.wanted(), &["ada@store1", "cannot be reached"]);
    assert_eq!(machine.traces(), Vec::<String>::new());
    machine.reachable.set(true);
    attached(&machine);
    machine.reachable.set(false);
    let left = machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    assert_eq!(machine.traces(), ["export data", "secret there", "root/header"]);
    assert!(
        left.1[0].contains("the export data on ada@store1") && left.1[0].contains("ebb undo data"),
        "{left:?}"
    );
}

#[test]
fn a_mount_point_that_cannot_be_one_is_refused_before_anything_is_done() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.at("srv/deep/data/precious")).expect("makes");
    refused(&machine, &machine.wanted(), &["/srv/deep/data is not empty (it has precious in it)"]);
    let planned = machine.with(|keeper| keeper.may_mount(&machine.wanted()));
    assert!(planned.is_err_and(|error| error.to_string().contains("precious")));
    assert_eq!((machine.ran.borrow().len(), machine.traces()), (0, vec!["srv/deep".to_owned()]));
    std::fs::remove_dir(machine.at("srv/deep/data/precious")).expect("removes");
    std::fs::write(machine.at("etc/fstab"), "/dev/sdz /srv/deep/data ext4 noauto 0 0\n").expect("writes");
    refused(&machine, &machine.wanted(), &["that of /dev/sdz by line 1 of /etc/fstab"]);
    std::fs::write(machine.at("etc/fstab"), "/dev/mapper/data /srv/deep/data ext4 noauto 0 0\n")
        .expect("writes");
    attached(&machine);
    machine
        .with(|keeper| keeper.may_mount(&machine.wanted()))
        .expect("its own mount is no reason against it");
}

#[test]
fn an_export_that_was_there_before_stays() {
    let machine = Machine::new();
    machine.exports.borrow_mut().insert("data".to_owned(), "/dev/vdb".to_owned());
    attached(&machine);
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    assert_eq!(machine.traces(), ["export data", "root/header"]);
}

#[test]
fn only_what_is_blank_is_encrypted_or_formatted() {
    for on in [On::Foreign, On::Filesystem] {
        let machine = Machine::new();
        *machine.volume.borrow_mut() = on.clone();
        refused(&machine, &machine.wanted(), &["only a blank volume is encrypted"]);
        assert_eq!((machine.traces(), &*machine.volume.borrow()), (Vec::new(), &on));
    }
    let machine = Machine::new();
    *machine.volume.borrow_mut() = On::Luks { uuid: "0-1".to_owned(), filesystem: false };
    let wanted = Wanted { mount: None, ..machine.wanted() };
    machine.with(|keeper| keeper.attach(&wanted)).expect("is opened");
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    refused(&machine, &machine.wanted(), &["was not encrypted by this attach"]);
    let plain = Wanted { encrypt: None, ..machine.wanted() };
    refused(&machine, &plain, &["crypto_LUKS", "no file system that can be mounted"]);
}

/// The last `ebb export` of the other host.
fn last_export(machine: &Machine) -> String {
    let ran = machine.ran.borrow();
    ran.iter().rfind(|line| line.contains("ebb export") && line.contains("--client")).expect("one").clone()
}

#[test]
fn what_was_attached_is_known_by_what_it_carries_when_it_is_exported_again() {
    let machine = Machine::new();
    attached(&machine);
    assert!(
        !last_export(&machine).contains("--carries"),
        "what it carries is not known: {}",
        last_export(&machine)
    );
    let On::Luks { uuid, .. } = machine.volume.borrow().clone() else { panic!("a header") };
    let words = format!("--carries {uuid} ");
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    // By what was noted of the place, whatever it is called.
    let renamed = Wanted { name: "other".to_owned(), encrypt: None, mount: None, ..machine.wanted() };
    machine.with(|keeper| keeper.attach(&renamed)).expect("attaches");
    assert!((last_export(&machine) + " ").contains(&words), "{}", last_export(&machine));
    machine.with(|keeper| keeper.undo("other", false)).expect("detaches");
    // By the copy of the header, on a host that knows nothing of it.
    std::fs::remove_dir_all(machine.at("var/lib/ebbtide")).expect("removes");
    attached(&machine);
    assert!((last_export(&machine) + " ").contains(&words), "{}", last_export(&machine));
    // By its record, after a boot.
    machine.boot();
    std::fs::remove_file(machine.at("root/header")).expect("removes");
    machine.exports.borrow_mut().clear();
    attached(&machine);
    assert!((last_export(&machine) + " ").contains(&words), "{}", last_export(&machine));
    // As its user says.
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    let said = Wanted { carries: Some("u-1".to_owned()), ..machine.wanted() };
    let _ = machine.with(|keeper| keeper.attach(&said));
    assert!((last_export(&machine) + " ").contains("--carries u-1 "), "{}", last_export(&machine));
}

#[test]
fn a_header_is_not_forgotten_where_a_volume_is_attached_without_it() {
    let machine = Machine::new();
    attached(&machine);
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    let On::Luks { uuid, filesystem } = machine.volume.borrow().clone() else { panic!("a header") };
    let plain = Wanted { encrypt: None, mount: None, ..machine.wanted() };
    machine.with(|keeper| keeper.attach(&plain)).expect("attaches");
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    *machine.volume.borrow_mut() = On::Torn { uuid, filesystem };
    let mut without = machine.wanted();
    without.encrypt = Some(Encrypt { key_file: None, integrity: true, backup: None });
    refused(&machine, &without, &["not formatted a second time", "--header-backup"]);
}

#[test]
fn a_volume_is_never_formatted_twice_and_opens_with_the_copy_of_its_header() {
    let machine = Machine::new();
    attached(&machine);
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    let On::Luks { uuid, filesystem } = machine.volume.borrow().clone() else { panic!("a header") };
    *machine.volume.borrow_mut() = On::Torn { uuid, filesystem };
    let mut without = machine.wanted();
    without.encrypt = Some(Encrypt { key_file: None, integrity: true, backup: None });
    refused(&machine, &without, &["not formatted a second time", "--header-backup"]);
    // Whatever it is called this time.
    let renamed = Wanted { name: "other".to_owned(), ..without };
    refused(&machine, &renamed, &["not formatted a second time", "data.known"]);
    let done = attached(&machine);
    assert!(!done.encrypted && !done.formatted);
    assert_eq!(
        done.record.encryption.as_ref().and_then(|encrypted| encrypted.header.clone()),
        Some(machine.at("root/header"))
    );
    assert!(
        Attachments::restore_command(&done.record)
            .is_some_and(|line| line.contains("luksHeaderRestore /dev/disk/by-path/far"))
    );
}

#[test]
fn another_machine_opens_it_with_key_and_copy_alone() {
    let (lost, found) = (Machine::new(), Machine::new());
    attached(&lost);
    *found.volume.borrow_mut() = lost.volume.borrow().clone();
    std::fs::copy(lost.at("root/header"), found.at("root/header")).expect("copies");
    let done = attached(&found);
    assert!(!done.encrypted && !done.formatted);
    assert_eq!(done.record.path.as_deref(), Some("/dev/mapper/data"));
}

#[test]
fn a_copy_of_another_header_is_refused() {
    let machine = Machine::new();
    *machine.volume.borrow_mut() = On::Luks { uuid: "0-1".to_owned(), filesystem: true };
    std::fs::write(machine.at("root/header"), "0-2").expect("writes");
    refused(&machine, &machine.wanted(), &["copy of another one"]);
    std::fs::write(machine.at("root/header"), "no header").expect("writes");
    refused(&machine, &machine.wanted(), &["no copy of a LUKS header"]);
    assert_eq!(machine.traces(), ["root/header"]);
}

#[test]
fn after_a_boot_it_is_told_and_comes_back() {
    let machine = Machine::new();
    let before = attached(&machine).record;
    machine.boot();
    let status = machine.with(|keeper| keeper.look(&before));
    assert!(
        status.state == Link::Missing && status.text().contains("the same `ebb attach`"),
        "{}",
        status.text()
    );
    let done = attached(&machine);
    assert!(done.changed && !done.encrypted && !done.formatted && done.record.id == before.id);
    assert!(machine.with(|keeper| keeper.look(&done.record)).is_well());
    // Its header destroyed meanwhile: nothing is made anew.
    machine.boot();
    *machine.volume.borrow_mut() = On::Blank;
    let mut without = machine.wanted();
    without.encrypt = Some(Encrypt { key_file: None, integrity: true, backup: None });
    refused(&machine, &without, &["not formatted a second time"]);
    assert_eq!(*machine.volume.borrow(), On::Blank);
}

#[test]
fn what_is_asked_for_differently_is_refused() {
    let machine = Machine::new();
    attached(&machine);
    let other = Wanted { hold_s: 5, ..machine.wanted() };
    refused(&machine, &other, &["hold is 30 s and not 5 s", "ebb undo data"]);
    let error = machine.with(|keeper| keeper.undo("other", false)).expect_err("is not there").to_string();
    assert!(error.contains("there is no other") && error.contains("ebb status"), "{error}");
}

#[test]
fn a_record_of_another_attachment_is_not_put_back() {
    let machine = Machine::new();
    let record = attached(&machine).record;
    let put_back = |id: &str| machine.with(|keeper| keeper.clean_up("data", id, false)).expect("looks");
    assert_eq!(put_back("another"), Outcome::Before);
    assert!(matches!(put_back(&record.id), Outcome::Left(_)));
    assert!(record.has_begun("mount"));
}

#[test]
fn what_is_busy_stays_attached() {
    let machine = Machine::new();
    attached(&machine);
    let record = machine.with(|keeper| keeper.record("data").expect("reads")).expect("a record");
    machine.busy.set(true);
    machine.with(|keeper| keeper.undo("data", false)).expect_err("it is busy");
    // A connection that is lost now is still made again.
    assert_eq!(machine.with(|keeper| keeper.record("data").expect("reads")), Some(record));
    assert!(!machine.has_left());
    machine.busy.set(false);
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    assert_eq!(machine.traces(), ["root/header"]);
}

#[test]
fn what_somebody_else_mounted_or_built_on_is_not_pulled_away() {
    let machine = Machine::new();
    let wanted = Wanted { encrypt: None, mount: None, ..machine.wanted() };
    machine.with(|keeper| keeper.attach(&wanted)).expect("attaches");
    machine.users.borrow_mut().push("nvme7n1 is mounted on /mnt (unmount it)".to_owned());
    let error = machine.with(|keeper| keeper.undo("data", false)).expect_err("it is in use").to_string();
    assert!(error.contains("its session goes on") && error.contains("mounted on /mnt"), "{error}");
    let record = machine.with(|keeper| keeper.record("data").expect("reads")).expect("a record");
    let status = machine.with(|keeper| keeper.look(&record));
    assert!(status.is_well() && !machine.has_left(), "{}", status.text());
    machine.users.borrow_mut().clear();
    machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
    assert_eq!(machine.traces(), Vec::<String>::new());
}

#[test]
fn one_volume_is_not_attached_under_two_names() {
    let machine = Machine::new();
    attached(&machine);
    let other = Wanted { name: "other".to_owned(), ..machine.wanted() };
    refused(&machine, &other, &["attached as data already", "ebb undo data"]);
    let status = machine.with(|keeper| keeper.look_all().0);
    assert!(status.len() == 1 && status[0].is_well());
}

#[test]
fn a_session_of_somebody_else_s_is_neither_used_nor_ended() {
    let machine = Machine::new();
    let target = "nqn.2026-11.ebbtide:store1:data";
    machine.controller(target, "traddr=10.0.0.1,trsvcid=4420");
    let place = format!("nvme-tcp://10.0.0.1/{target}").parse().expect("a place");
    let wanted = Wanted { place, secret_file: None, encrypt: None, mount: None, ..machine.wanted() };
    refused(&machine, &wanted, &["connected to nqn", "nvme disconnect -n"]);
    assert_eq!(machine.traces(), ["controller"]);
}

#[test]
fn a_clone_of_this_host_neither_connects_nor_takes_the_export_away() {
    for clone in ["etc/machine-id", "etc/nvme/hostnqn"] {
        let machine = Machine::new();
        attached(&machine);
        machine.boot();
        std::fs::create_dir_all(machine.at("etc/nvme")).expect("makes");
        // The name by which it logs in is cloned, too; or the machine's id is.
        let other = match clone {
            "etc/machine-id" => {
                let nqn = "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff";
                std::fs::write(machine.at("etc/nvme/hostnqn"), nqn).expect("writes");
                "ffeeddccbbaa99887766554433221100"
            }
            _ => "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-1",
        };
        std::fs::write(machine.at(clone), other).expect("writes");
        refused(&machine, &machine.wanted(), &["may be a clone of it", "ebb undo data"]);
        let left = machine.with(|keeper| keeper.undo("data", false)).expect("detaches");
        assert!(left.1[0].contains("clone") && left.1[0].contains("ebb undo data"), "{left:?}");
        assert_eq!(machine.traces(), ["export data", "secret there", "root/header"]);
    }
}

#[test]
fn an_export_that_somebody_of_this_host_s_name_is_connected_to_is_left_to_them() {
    let machine = Machine::new();
    machine.exports.borrow_mut().insert("data".to_owned(), "/dev/vdb".to_owned());
    machine.connected.set(true);
    refused(&machine, &machine.wanted(), &["logs in as this host does", "ebb undo data --force"]);
    assert_eq!(machine.traces(), ["export data"]);
}
