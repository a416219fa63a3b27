//! Who runs what, and what is refused.

use super::*;
use crate::testing;
use crate::units::Bytes;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn places(places: &[&str]) -> Vec<Place> {
    places.iter().map(|place| place.parse().expect("a place")).collect()
}

fn stripe(members: Vec<LayoutNode>) -> LayoutNode {
    LayoutNode::Array { kind: ArrayKind::Stripe { chunk: Bytes(65536) }, members }
}

/// Four volumes v0 to v3 and a design of this layout.
fn experiment(layout: LayoutNode) -> Experiment {
    let mut experiment = testing::experiment(1, 1);
    let new = VolumeSource::NewFile { directory: None };
    experiment.volumes =
        (0..4).map(|i| Volume::new(format!("v{i}"), new.clone(), Some(Bytes(1 << 26)))).collect();
    experiment.designs[0].layout = layout;
    experiment
}

fn volume(index: usize) -> LayoutNode {
    LayoutNode::Volume(index)
}

#[test]
fn volumes_go_to_the_hosts_in_turn_and_each_runs_its_own_members() {
    let experiment = experiment(stripe(vec![volume(0), volume(1), volume(2)]));
    let placement = Placement::new(&experiment, &names(&["a", "b"]), &[], None).expect("placed");
    assert_eq!(placement.host_of, [0, 1, 0, 1]);
    let parts = placement.parts(&experiment.designs[0]).expect("parts");
    assert_eq!(
        parts,
        [Part { host: 0, layout: stripe(vec![volume(0), volume(2)]) }, Part { host: 1, layout: volume(1) }]
    );
    let there = placement.on_host(0).expect("an experiment");
    assert_eq!(
        (there.volumes.as_slice(), there.designs.as_slice()),
        ([0, 2].as_slice(), [Some(0)].as_slice())
    );
    assert_eq!(there.experiment.designs[0].layout, stripe(vec![volume(0), volume(1)]));
    assert_eq!(placement.in_words(), ["host a: v0 (new), v2 (new)", "host b: v1 (new)"]);
}

#[test]
fn a_design_on_one_host_is_whatever_it_is() {
    let mirror = |members| LayoutNode::Array { kind: ArrayKind::Mirror, members };
    let mut two = experiment(mirror(vec![volume(0), volume(2)]));
    two.designs.push(Design { name: "other".into(), layout: volume(1), stack: Stack::default() });
    let placement = Placement::new(&two, &names(&["a", "b"]), &[], None).expect("placed");
    assert_eq!(placement.parts(&two.designs[0]).expect("parts").len(), 1);
    assert_eq!(placement.on_host(1).expect("an experiment").designs, [None, Some(0)]);

    let torn = experiment(stripe(vec![volume(0), mirror(vec![volume(2), volume(1)])]));
    let error = Placement::new(&torn, &names(&["a", "b"]), &[], None).expect_err("torn").to_string();
    assert!(error.contains("mirror keeps blocks on several members, which are on a and b"), "{error}");
    assert!(error.contains("--place VOLUME=a"), "{error}");
}

#[test]
fn a_volume_is_placed_by_name_at_a_path_too_and_its_limits_are_left_out() {
    let mut two = experiment(stripe(vec![volume(0), volume(1)]));
    two.volumes[0].shape = Some(crate::volume::Shape::default());
    let hosts = names(&["ada@a", "fd00::1", "fd00::1:2"]);
    let at = |place: &str| Placement::new(&two, &hosts[..2], &places(&[place, "v1=ada@a"]), None);
    let placement = at("v0=fd00::1:/mnt/x").expect("placed");
    assert_eq!(placement.host_of[..2], [1, 0]);
    assert_eq!(placement.experiment.volumes[0].source, VolumeSource::ExistingFile { path: "/mnt/x".into() });
    assert_eq!((placement.experiment.volumes[0].size, &placement.experiment.volumes[0].shape), (None, &None));
    assert_eq!(placement.notes.len(), 1);
    let device = at("v0=fd00::1:/dev/disk/by-id/nvme-x").expect("placed");
    let id = Some("nvme-x".to_owned());
    let source = VolumeSource::Device { path: "/dev/disk/by-id/nvme-x".into(), id };
    assert_eq!(device.experiment.volumes[0].source, source);

    let directory = Path::new("/mnt/efs");
    let shared = Placement::new(&two, &hosts[..2], &[], Some(directory)).expect("placed");
    let new = VolumeSource::NewFile { directory: Some(directory.into()) };
    assert!(shared.experiment.volumes.iter().all(|volume| volume.source == new));
    assert_eq!(shared.in_words()[0], "host ada@a: v0 (new, in /mnt/efs)");
    // The longer of two names that fit.
    let placed = Placement::new(&two, &hosts, &places(&["v0=fd00::1:2", "v1=fd00::1"]), None);
    assert_eq!(placed, Err(PlaceError::Idle("ada@a".into())));
}

#[test]
fn mistakes_are_told_with_what_to_write() {
    let two = experiment(stripe(vec![volume(0), volume(1)]));
    let told = |hosts: &[&str], at: &[&str]| {
        Placement::new(&two, &names(hosts), &places(at), None).expect_err("refused").to_string()
    };
    assert!(told(&["a", "a"], &[]).starts_with("--hosts names a twice"));
    assert!(told(&["a", "b"], &["w0=a"]).ends_with("no such volume; write `v0`"));
    assert!(told(&["alpha", "beta"], &["v0=bet:/x"]).ends_with("does not name that host; write `beta`"));
    assert!(told(&["a", "b"], &["v0=a", "v0=b"]).contains("is there twice"));
    assert!(told(&["a", "b"], &["v0=a:x"]).contains("must begin with /"));
    assert!(told(&["a", "b", "c"], &[]).starts_with("host c has no volume"));
    assert!(
        "v0".parse::<Place>().is_err() && "=a".parse::<Place>().is_err() && "v0=".parse::<Place>().is_err()
    );
}

#[test]
fn what_cannot_be_shared_out_is_refused_only_where_it_is_shared_out() {
    let linear = LayoutNode::Array { kind: ArrayKind::Linear, members: vec![volume(0), volume(1)] };
    let mut two = experiment(linear);
    let place =
        |experiment: &Experiment, hosts: &[&str]| Placement::new(experiment, &names(hosts), &[], None);
    two.workloads[0].span = Some(Bytes(1 << 20));
    assert!(matches!(place(&two, &["a", "b"]), Err(PlaceError::PartOfLinear { .. })));
    assert!(place(&two, &["a"]).is_ok());
    two.designs[0].layout = stripe(vec![volume(0), volume(1)]);
    assert!(place(&two, &["a", "b"]).is_ok());
    two.workloads[0].end_fsync = true;
    assert!(matches!(place(&two, &["a", "b"]), Err(PlaceError::EndFsync { .. })));
    assert!(place(&two, &["a"]).is_ok());
}
