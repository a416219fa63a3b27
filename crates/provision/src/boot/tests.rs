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
    }
}

fn refused(volumes: &str, design: &str, members: Option<&str>) -> String {
    order(&experiment(volumes, design), members).boot().unwrap_err().to_string()
}

#[test]
fn of_a_kind_or_by_name_it_takes_as_many_disks_as_the_design_has() {
    let made = experiment(FILES, STRIPE);
    let boot = order(&made, Some("instance-store")).boot().unwrap();
    assert_eq!((boot.wanted, boot.members.has_instance_store()), (2, true));
    assert_eq!(boot.create.join(" "), "--run --quiet --homehost=any --metadata=1.2 --level=0 --chunk=256K");
    // Nothing is written over, and each machine draws its own uuid.
    assert_eq!(boot.mkfs.join(" "), "-q -d su=262144,sw=2");
    assert_eq!(boot.settings, ["disk.scheduler=none", "array.read_ahead_kb=1024"]);
    assert_eq!(boot.fstab, "/data xfs noatime,nofail,x-systemd.device-timeout=30s 0 0");

    let named = experiment(DEVICES, STRIPE);
    let boot = order(&named, None).boot().unwrap();
    let link = |n| format!("/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{n}");
    assert_eq!(boot.members, Members::Links(vec![link(1), link(2)]));
    assert!(boot.script().contains("\nkind=no\nwanted=2\n"));
}

#[test]
fn raid5_is_made_of_all_its_members_at_once() {
    let raid5 =
        "layout = \"raid5\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\", \"c\"]\nfilesystem = \"ext4\"";
    let experiment = experiment(&format!("{FILES}\nc = {{ size = \"1GiB\" }}"), raid5);
    let boot = order(&experiment, Some("ebs")).boot().unwrap();
    assert!(boot.create.contains(&"--force".to_owned()), "{:?}", boot.create);
}

#[test]
fn volumes_of_a_catalogue_s_type_are_ebs() {
    let gp3 = "a = { type = \"aws:gp3\", size = \"100GiB\" }\nb = { type = \"aws:gp3\", size = \"100GiB\" }";
    let boot = order(&experiment(gp3, STRIPE), None).boot().unwrap();
    assert!(boot.members.links()[0].contains("Elastic_Block_Store"), "{:?}", boot.members);
    assert!(!boot.members.has_instance_store());
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
    let mostly = "layout = \"mirror\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"xfs\"\nwrite_mostly = \"b\"";
    has(refused(FILES, mostly, Some("ebs")), &["are read only where no other can be"]);
    let threads =
        "layout = \"raid5\"\nmembers = [\"a\", \"b\", \"c\"]\nfilesystem = \"xfs\"\ngroup_thread_cnt = 2";
    has(
        refused(&format!("{FILES}\nc = {{ size = \"1GiB\" }}"), threads, Some("ebs")),
        &["sets `stripe_cache_size` or `group_thread_cnt`"],
    );
    let experiment = experiment(FILES, STRIPE);
    let system = BootOrder { mountpoint: Path::new("/usr"), ..order(&experiment, Some("ebs")) };
    has(system.boot().unwrap_err().to_string(), &["/usr", "/data"]);
    for word in ["nvme1n1", "/dev/disk/by-id/a b", "/dev/disk/by-id/$(reboot)", "/dev/disk/by-id/../../sda"] {
        has(Members::kind(&[word.to_owned()]).unwrap_err().to_string(), &[word, "instance-store"]);
    }
}

#[test]
fn user_data_is_short_enough_and_holds_the_script_to_the_byte() {
    let boot = order(&experiment(FILES, STRIPE), Some("instance-store")).boot().unwrap();
    let script = boot.script();
    let config = cloud_config("scratch", &script, true);
    assert!(config.len() < USER_DATA_MAX, "{} bytes", config.len());
    // As YAML reads a block of this indentation.
    let (_, rest) = config.split_once("content: |1\n").unwrap();
    let block: String = rest
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("   "))
        .map(|line| format!("{}\n", line.get(3..).unwrap_or("")))
        .collect();
    assert_eq!(block, script);
    assert!(config.contains("- [ephemeral0, null]\n") && config.is_ascii());
    assert!(!cloud_config("scratch", &script, false).contains("ephemeral0"));
}

#[test]
fn a_script_is_short_enough_to_be_read() {
    let boot = order(&experiment(FILES, STRIPE), Some("ebs")).boot().unwrap();
    let script = boot.script();
    let code = script.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
    assert!(code.count() <= 165);
}

#[test]
fn with_ebb_the_machine_is_given_the_experiment_and_an_apply() {
    let text = "# END\nEND\n";
    let stack = "filesystem = \"xfs\"\nbacking = \"lvm\"\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\"]";
    let lvm = experiment(FILES, stack);
    let brought =
        order(&lvm, Some("instance-store")).brought(text, Ebb::Installed, Some("ephemeral")).unwrap();
    let script = brought.script();
    assert!(script.contains("packages='lvm2 xfsprogs'\n"), "{script}");
    assert!(script.contains("<<'END_' || refuse"), "{script}");
    let end = "\n# END\nEND\nEND_\nexec ebb apply /etc/ebbtide/scratch.toml:scratch --name scratch --mount /data \
               --members '/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*' --class ephemeral\n";
    assert!(script.ends_with(end), "{script}");

    let named = experiment(DEVICES, STRIPE);
    let fetched = Ebb::Fetched { url: "https://example.org/ebb".to_owned(), sha256: "0f".repeat(32) };
    let script = order(&named, None).brought(text, fetched, None).unwrap().script();
    assert!(script.contains("url=https://example.org/ebb\n") && !script.contains("--members"), "{script}");
    assert!(
        script.contains("links='/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1 "),
        "{script}"
    );
}

#[test]
fn a_pattern_stands_for_what_a_shell_takes_it_for() {
    for (pattern, fitting, others) in [
        ("t-*", &["t-", "t-a", "t-a-b"][..], &["t", "xt-a"][..]),
        ("t-?b*", &["t-ab", "t-abc"], &["t-b", "t-a"]),
        ("t-[a-c1]x", &["t-ax", "t-cx", "t-1x"], &["t-dx", "t-x", "t--x"]),
        ("t-[a", &["t-[a"], &["t-a"]),
        ("*a*a", &["aa", "baab-a"], &["a", "ab"]),
    ] {
        let link = |text: &&str| format!("/dev/disk/by-id/{text}");
        let members = Members::kind(&[link(&pattern)]).unwrap();
        assert!(fitting.iter().all(|text| members.have(&link(text))), "{pattern}");
        assert!(!others.iter().any(|text| members.have(&link(text))), "{pattern}");
    }
}

/// What is put onto machines changes only where it is meant to.
#[test]
fn the_head_is_this() {
    let boot = order(&experiment(DEVICES, STRIPE), None).boot().unwrap();
    let config = cloud_config(&boot.name, &boot.script(), true);
    let (head, rest) = config.split_once("   # Everything above").unwrap();
    let (_, end) = rest.split_once("runcmd").unwrap();
    insta::assert_snapshot!(format!("{head}...\nruncmd{end}"));
}
