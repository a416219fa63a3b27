use super::*;
use ebbtide_model::units::UnixTime;

/// Each backend with what is known of it.
fn all() -> Vec<(&'static str, Facts)> {
    let named = NAMED.map(|(name, _, way)| (name, way().facts()));
    named.into_iter().chain([("hosts", OnHosts::FACTS)]).collect()
}

#[test]
fn every_backend_says_which_options_it_has_no_use_for() {
    let said: Vec<String> = all()
        .into_iter()
        .flat_map(|(name, facts)| facts.no_use_for.iter().map(move |why| format!("{name}: {why}")))
        .collect();
    let leave_out =
        "--hosts runs files and devices of the hosts as they are, as `--on files` does; leave out --on";
    let expected = [
        &format!("kernel: {leave_out}"),
        "kernel: --keep has no meaning with `--on kernel`: an array is taken apart after each trial",
        "kernel: --scale has no meaning with `--on kernel`, which runs devices as fast as they are",
        &format!("lab: {leave_out}"),
        "lab: --keep has no meaning with `--on lab`: the disks go with the guest",
        "lab: --destroy has no meaning with `--on lab`: the guest's disks are its own, and nothing of this host is written",
        &format!("sim: {leave_out}"),
        "hosts: --scale has no meaning with --hosts: what is on hosts is as fast as it is",
    ];
    assert_eq!(said, expected);
}

#[test]
fn trials_are_observed_where_they_are_and_not_in_virtual_time() {
    let named = |is: fn(&Facts) -> bool| -> Vec<&str> {
        all().into_iter().filter(|(_, facts)| is(facts)).map(|(name, _)| name).collect()
    };
    assert_eq!(named(|facts| facts.is_here), ["files", "kernel"]);
    assert_eq!(named(|facts| facts.in_virtual_time), ["sim"]);
    assert_eq!(named(|facts| facts.takes_key), ["kernel"]);
    let kinds: Vec<String> =
        all().iter().map(|(_, facts)| format!("{:?}", facts.kind).to_lowercase()).collect();
    assert_eq!(kinds, named(|_| true), "backends are called what they are");
}

/// Of each backend that a user can name, what it says to an experiment with this in its volumes and its design; nothing where it fits.
fn said(of_volumes: &str, of_design: &str, more: &str) -> [String; 4] {
    let text = format!(
        "name = \"e\"\n[volumes.v]\ncount = 4\nsize = \"64MiB\"\n{of_volumes}\n\
         [designs.d]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v[0..3]\"]\n{of_design}\n\
         [workloads.w]\nrw = \"randread\"\nruntime = \"1s\"\n{more}\n"
    );
    NAMED.map(|(_, _, way)| {
        let way = way();
        let meta = SessionMeta::new("test", way.facts().kind, 1, UnixTime::EPOCH);
        let experiment = ebbtide_experiment::parse(&text, "e.toml").expect("parses");
        let session = Session { meta, experiment, experiment_text: text.clone(), trials: Vec::new() };
        let fits = way.fit(&mut Run { session, destroy: false, scale: None });
        fits.err().map_or_else(String::new, |error| error.to_string())
    })
}

#[test]
fn every_backend_says_what_of_an_experiment_it_cannot_carry_out() {
    let (shape, ext3) = ("shape = { iops = 100 }", "filesystem = \"ext3\"");
    let effect = "[[effects]]\nwhere = { filesystem = \"ext3\" }\nrate = 0.5";
    // Each by what it says, in the order of `--on`: files, kernel, lab, sim.
    for (said, expected) in [
        (said(shape, "", ""), ["", "volume v0 has a `shape`, and the kernel runs", "", ""]),
        (said("", "", ""), ["", "", "", "volume v0: has no shape"]),
        (
            said(shape, "metadata = \"1.2\"", ""),
            ["design d has `metadata`, which only the kernel", "has a `shape`", "", "no model of `metadata`"],
        ),
        (
            said(shape, ext3, effect),
            ["`[[effects]]` plants what `filesystem`", "`[[effects]]`", "`[[effects]]`", ""],
        ),
    ] {
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}: {expected}");
        }
    }
}
