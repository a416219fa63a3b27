//! What is made of designs, and what is refused.

use super::*;
use ebbtide_model::experiment::Experiment;
use std::path::Path;

fn experiment(volumes: &str, design: &str) -> Experiment {
    let text = format!(
        "name = \"night\"\n[volumes]\n{volumes}\n[designs.scratch]\n{design}\n[workloads.w]\nrw = \"randread\"\nruntime = \"1s\"\n"
    );
    ebbtide_experiment::parse(&text, "night.toml").unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

const STRIPE: &str = "layout = \"stripe\"\nchunk = \"256KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"xfs\"\nmount_options = \"noatime\"\n\
                      readahead = \"1MiB\"\nscheduler = \"none\"";
const FILES: &str = "a = { size = \"1GiB\" }\nb = { size = \"1GiB\" }";
const DEVICES: &str = "a = { device = \"/dev/nvme1n1\", id = \"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1\" }\n\
                       b = { device = \"/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS2\" }";

fn order<'a>(experiment: &'a Experiment, members: Option<&str>) -> BootOrder<'a> {
    BootOrder {
        experiment,
        design: 0,
        name: "scratch",
        mountpoint: Path::new("/data"),
        members: members.map(|word| Members::kind(&[word.to_owned()]).unwrap()),
        class: None,
        least: None,
    }
}

fn refused(volumes: &str, design: &str, members: Option<&str>) -> String {
    order(&experiment(volumes, design), members).boot().unwrap_err().to_string()
}

#[test]
fn a_kind_of_disk_decides_about_number_geometry_and_class() {
    let experiment = experiment(FILES, STRIPE);
    let boot = order(&experiment, Some("instance-store")).boot().unwrap();
    assert_eq!((boot.class, boot.least, boot.redundant), (Class::Ephemeral, 2, false));
    assert_eq!(boot.create.join(" "), "--run --quiet --homehost=any --metadata=1.2 --level=0 --chunk=256K");
    // The number of disks is not known, so that mkfs asks md for the geometry.
    assert!(!boot.mkfs.iter().any(|word| word.contains("su=")), "{:?}", boot.mkfs);
    assert_eq!(boot.settings, ["disk.scheduler=none", "array.read_ahead_kb=1024"]);
    let ebs = order(&experiment, Some("ebs")).boot().unwrap();
    assert_eq!(ebs.class, Class::Persistent);
    assert_ne!((ebs.uuid, ebs.filesystem_uuid), (boot.uuid.clone(), boot.filesystem_uuid.clone()));
    // The same on every machine.
    assert_eq!(order(&experiment, Some("instance-store")).boot().unwrap(), boot);
    let other = BootOrder { name: "other", ..order(&experiment, Some("instance-store")) };
    assert_ne!(other.boot().unwrap().uuid, boot.uuid);
}

#[test]
fn named_disks_are_all_needed_in_their_order_and_the_geometry_is_theirs() {
    let boot = order(&experiment(DEVICES, STRIPE), None).boot().unwrap();
    let link = |n| format!("/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{n}");
    assert_eq!(boot.members, Members::Links(vec![link(1), link(2)]));
    assert_eq!((boot.class, boot.least), (Class::Ephemeral, 2));
    assert!(boot.mkfs.join(" ").contains("-d su=262144,sw=2"), "{:?}", boot.mkfs);
    assert!(boot.script().contains("\nexact=yes\n"));
}

#[test]
fn volumes_of_a_catalogue_s_type_are_ebs() {
    let gp3 = "a = { type = \"aws:gp3\", size = \"100GiB\" }\nb = { type = \"aws:gp3\", size = \"100GiB\" }";
    let boot = order(&experiment(gp3, STRIPE), None).boot().unwrap();
    assert!(boot.members.links()[0].contains("Elastic_Block_Store"), "{:?}", boot.members);
    assert_eq!(boot.class, Class::Persistent);
}

#[test]
fn what_a_machine_cannot_make_by_itself_is_refused_with_what_to_write() {
    let has = |text: String, words: &[&str]| assert!(words.iter().all(|word| text.contains(word)), "{text}");
    has(refused(FILES, STRIPE, None), &["volume a", "--members instance-store"]);
    let design = |more: &str| format!("layout = \"stripe\"\nmembers = [\"a\", \"b\"]\n{more}");
    has(refused(FILES, &design(""), Some("ebs")), &["no file system"]);
    has(refused(FILES, &design("filesystem = \"jfs\""), Some("ebs")), &["JFS"]);
    has(
        refused(FILES, &design("filesystem = \"xfs\"\nbacking = \"lvm\""), Some("ebs")),
        &["not one md array", "ebb apply"],
    );
    let crypt = "filesystem = \"xfs\"\nencryption = { format = \"luks2\", key_file = \"/k\" }";
    has(refused(FILES, &design(crypt), Some("ebs")), &["encrypted"]);
    let mixed = DEVICES
        .replace("AWS2", "AWS2\"}#")
        .replace("EC2_NVMe_Instance_Storage_AWS2\"}#", "Elastic_Block_Store_vol1");
    has(refused(&mixed, STRIPE, None), &["not mixed"]);
    let experiment = experiment(FILES, STRIPE);
    let persistent =
        BootOrder { class: Some(Class::Persistent), ..order(&experiment, Some("instance-store")) };
    has(persistent.boot().unwrap_err().to_string(), &["cannot be persistent"]);
    for place in ["/var", "/var/lib/ebbtide", "/usr/local"] {
        let above = BootOrder { mountpoint: Path::new(place), ..order(&experiment, Some("ebs")) };
        has(above.boot().unwrap_err().to_string(), &[place, "/data"]);
    }
    for word in ["nvme1n1", "/dev/disk/by-id/a b", "/dev/disk/by-id/$(reboot)", "/dev/disk/by-id/../../sda"] {
        has(Members::kind(&[word.to_owned()]).unwrap_err().to_string(), &[word, "instance-store"]);
    }
    let raid6 = "layout = \"raid6\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\", \"c\", \"d\"]\nfilesystem = \"ext4\"";
    let volumes = format!("{FILES}\nc = {{ size = \"1GiB\" }}\nd = {{ size = \"1GiB\" }}");
    let experiment = self::experiment(&volumes, raid6);
    let few = BootOrder { least: Some(2), ..order(&experiment, Some("ebs")) };
    has(few.boot().unwrap_err().to_string(), &["RAID6", "4", "2"]);
}

#[test]
fn user_data_is_short_enough_and_holds_the_script_to_the_byte() {
    let boot = order(&experiment(FILES, STRIPE), Some("instance-store")).boot().unwrap();
    let (config, script) = (boot.cloud_config(), boot.script());
    assert!(config.len() < USER_DATA_MAX, "{} bytes", config.len());
    // As YAML reads a block: what is indented by as much as its first line.
    let (_, rest) = config.split_once("content: |\n").unwrap();
    let block: String = rest
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("   "))
        .map(|line| format!("{}\n", line.get(3..).unwrap_or("")))
        .collect();
    assert_eq!(block, script);
    assert!(config.contains("- [ephemeral0, null]\n") && config.is_ascii());
    assert!(boot.installer().contains(&script));
    let ebs = order(&experiment(FILES, STRIPE), Some("ebs")).boot().unwrap();
    assert!(!ebs.cloud_config().contains("ephemeral0"));
}

/// What is put onto machines changes only where it is meant to.
#[test]
fn the_head_and_the_units_are_these() {
    let boot = order(&experiment(DEVICES, STRIPE), None).boot().unwrap();
    let config = boot.cloud_config();
    let (head, rest) = config.split_once("   # Everything above").unwrap();
    let (_, units) = rest.split_once("- path: /etc").unwrap();
    insta::assert_snapshot!(format!("{head}...\n- path: /etc{units}"));
}
