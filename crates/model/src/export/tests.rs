use super::*;
use std::path::Path;

fn export(transport: Transport) -> Export {
    let target = target(transport, "store-0123abcd", "a_disk");
    let of = Exporting {
        boot: "b".to_owned(),
        transport,
        address: Ipv4Addr::LOCALHOST.into(),
        port: transport.port(),
        target,
        client: "nqn.2014-08.org.nvmexpress:uuid:1".to_owned(),
        secret: None,
        device: "/dev/disk/by-id/virtio-a".into(),
        stable_id: None,
        bytes: 1 << 30,
        persistent: false,
        uuid: "01234567-89ab-4def-8123-456789abcdef".to_owned(),
        program: None,
        source: PathBuf::new(),
        carries: None,
        paths: Vec::new(),
        shared: Vec::new(),
    };
    Record::new("a_disk", "r".to_owned(), of)
}

#[test]
fn a_listener_is_on_loopback_unless_told() {
    let parse = |text: Option<&str>| Listen::parse(text, Transport::NvmeTcp).map(Listen::shown);
    assert_eq!(parse(None).as_deref(), Ok("127.0.0.1:4420"));
    assert_eq!(parse(Some("10.0.0.5")).as_deref(), Ok("10.0.0.5:4420"));
    assert_eq!(parse(Some("10.0.0.5:9")).as_deref(), Ok("10.0.0.5:9"));
    assert_eq!(parse(Some("::1")).as_deref(), Ok("[::1]:4420"));
    assert_eq!(parse(Some("[::1]")).as_deref(), Ok("[::1]:4420"));
    assert_eq!(parse(Some("[::1]:9")).as_deref(), Ok("[::1]:9"));
    for wrong in ["", "store", "10.0.0.5:0", "10.0.0.5:x", "4420"] {
        assert!(parse(Some(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn names_and_secrets_are_what_the_protocols_take() {
    let name = |path: &str| default_name(Path::new(path)).unwrap_or_default();
    assert_eq!(name("/dev/vdb"), "vdb");
    let ebs = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a1b2c3d4e5f60718";
    assert_eq!(name(ebs), "ore_vol0a1b2c3d4e5f60718");
    assert_eq!(
        (name("/v/Back Up.img"), name("/v/---"), name("/")),
        ("back_up_img".into(), String::new(), String::new())
    );
    assert!(check_name("a_1").is_ok() && check_name("").is_err() && check_name("A").is_err());
    assert!(check_name(&"a".repeat(25)).is_err());
    for (client, transport, fine) in [
        ("nqn.2014-08.org.nvmexpress:uuid:1", Transport::NvmeTcp, true),
        ("iqn.1993-08.org.debian:01:a", Transport::NvmeTcp, false),
        ("iqn.1993-08.org.debian:01:a", Transport::Iscsi, true),
        ("iqn.../../x", Transport::Iscsi, false),
        ("iqn.", Transport::Iscsi, false),
    ] {
        assert_eq!(check_client(client, transport).is_ok(), fine, "{client}");
    }
    let secret = |text: &str, transport| check_secret(text, transport).map(str::to_owned);
    assert_eq!(secret("abcdefghijkl\n", Transport::Iscsi).as_deref(), Ok("abcdefghijkl"));
    for wrong in ["", "short", "abcdef ghijkl", "abcdefghijkl\nmore", "abcdefghijk\u{e9}"] {
        assert_eq!(secret(wrong, Transport::Iscsi), Err(SecretError::Chap), "{wrong}");
    }
    let key = format!("DHHC-1:00:{}:\n", "A".repeat(48));
    assert!(secret(&key, Transport::NvmeTcp).is_ok());
    assert_eq!(secret("abcdefghijkl", Transport::NvmeTcp), Err(SecretError::DhChap));
    assert!(!SecretError::Chap.to_string().contains("abcdef"));
}

#[test]
fn the_way_in_is_opened_last_and_everything_made_is_known() {
    let (device, file) =
        (Source::Device("/dev/vdb".into()), Source::File { path: "/v/f".into(), buffered: true });
    for transport in Transport::ALL {
        for source in [&device, &file] {
            let export = export(transport);
            let placed = Placed { number: 60_000, ..Placed::default() };
            let all = steps(&export, source, &placed);
            let text: String = all.iter().map(|step| format!("{step}\n")).collect();
            let last = text.lines().last().unwrap_or_default();
            match transport {
                Transport::NvmeTcp => assert!(last.contains("ports/60000/subsystems/nqn.2026-11.ebbtide:")),
                Transport::Iscsi => assert!(last.ends_with("tpgt_1/enable")),
            }
            assert_eq!(all.iter().filter(|step| matches!(step.action, Action::Open(_))).count(), 1);
            let paths: Vec<PathBuf> =
                all.iter().filter_map(|step| step.makes().map(Path::to_owned)).collect();
            let mut export = export;
            export.paths = paths;
            assert!(export.is_its_own(), "{export:?}");
            assert!(!Export { name: "b_disk".into(), ..export }.is_its_own());
        }
    }
    let there = Placed { number: 60_000, has_port: true, has_client: true, has_iscsi: true };
    assert!(steps(&export(Transport::NvmeTcp), &device, &there).iter().all(|step| !step.shared));
    assert!(steps(&export(Transport::Iscsi), &device, &there).iter().all(|step| !step.shared));
}

#[test]
fn what_is_not_named_as_exports_are_is_nobody_s_to_take_away() {
    let is_own = |path: &str| {
        let mut export = Export { name: "a".to_owned(), ..export(Transport::NvmeTcp) };
        export.paths = vec![path.into()];
        export.is_its_own()
    };
    for other in [
        "/sys/kernel/config/nvmet/subsystems/nqn.2014-08.org.other:a",
        "/sys/kernel/config/nvmet/subsystems/nqn.2026-11.ebbtide:h:b",
        "/sys/kernel/config/nvmet/subsystems/nqn.2026-11.ebbtide::a",
        "/sys/kernel/config/nvmet/ports/1",
        "/sys/kernel/config/target/core/iblock_0/other",
        "/sys/kernel/config/target/core/alua",
        "/sys/kernel/config/nvmet/hosts/../ports/1",
        "/sys/kernel/config/netconsole/a",
        "/etc/a",
    ] {
        assert!(!is_own(other), "{other}");
    }
    assert!(is_own("/sys/kernel/config/nvmet/subsystems/nqn.2026-11.ebbtide:h:a"));
}

#[test]
fn what_differs_is_said() {
    let one = export(Transport::NvmeTcp);
    assert_eq!(one.differences(&one), Vec::<String>::new());
    let mut other = one.clone();
    (other.port, other.persistent, other.bytes) = (9, true, 1);
    assert_eq!(
        one.differences(&other),
        ["listen is 127.0.0.1:4420 and not 127.0.0.1:9", "persistent is no and not yes"]
    );
    assert_eq!(name_of_target(&one.target).as_deref(), Some("a_disk"));
    assert_eq!(name_of_target("nqn.2014-08.org.other:a"), None);
}
