//! Programs as loads: what is made of their workloads, and mistakes in them.

use super::parse;
use ebbtide_model::metric::Metric;
use ebbtide_model::workload::{Program, Workload};

pub(crate) const PROGRAMS: &str = include_str!("testdata/programs.toml");

#[test]
fn a_program_is_a_load_and_its_server_is_made_of_commands() {
    let experiment = parse(PROGRAMS, "programs.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let of = |name: &str| {
        let workload = experiment.workloads.iter().find(|workload| workload.name == name);
        workload.and_then(|workload| workload.program.clone()).unwrap_or_else(|| panic!("{name}"))
    };
    let (tpcb, shell) = (of("tpcb"), of("shell"));
    let names = |program: &Program| -> Vec<&str> {
        Metric::of(&Workload::of_program("w", program.clone())).into_iter().map(Metric::name).collect()
    };
    assert_eq!(names(&tpcb), ["tps", "latency", "p99", "time"]);
    assert_eq!(names(&shell), ["n", "rate", "time"]);
    assert_eq!(experiment.answer.metric.map(Metric::name), Some("tps"));
    let first = |argv: &Vec<String>| argv[0].clone();
    let laid: Vec<String> = tpcb.prepare.iter().map(first).collect();
    assert_eq!(laid, ["initdb", "/bin/sh", "/bin/sh", "createdb", "pgbench", "createdb", "/bin/sh"]);
    assert_eq!(tpcb.before.iter().map(first).collect::<Vec<_>>(), ["/bin/sh", "true"]);
    assert_eq!(tpcb.after.iter().map(first).collect::<Vec<_>>(), ["false", "/bin/sh"]);
    let settings = tpcb.prepare[1].join(" ");
    assert!(settings.contains("autovacuum = 'on'") && !settings.contains("autovacuum = 'off'"), "{settings}");
    let path = &tpcb.env.iter().find(|(name, _)| name == "PATH").expect("is set").1;
    assert!(path.starts_with("/opt/pg/bin:/usr/lib/postgresql/"), "{path}");
    assert_eq!((tpcb.user.as_deref(), shell.user.as_deref()), (Some("pg"), Some("nobody")));
    assert_eq!(experiment.designs[0].stack.directory.as_deref(), Some(std::path::Path::new("/mnt/data")));
}

#[test]
fn mistakes_in_a_program_s_workload_are_named() {
    for (was, is, says) in [
        (
            "command = [\"pgbench\", \"-c\", \"{clients}\", \"-l\"]",
            "command = \"pgbench -l\"",
            "write `[\"pgbench\", \"-l\"]`",
        ),
        ("\"{clients}\", \"-l\"", "\"{clients}\", \"{client}\"", "unknown placeholder `{client}`"),
        ("clients = 8\n", "", "clients = 16"),
        ("clients = 8\n", "clients = 0\n", "from 1 to 10000"),
        ("'([0-9]+) MB/s'", "'[0-9]+ MB/s'", "put the number in parentheses"),
        ("'([0-9]+) MB/s'", "'([0-9]+ MB/s'", "is no pattern"),
        ("pointer = \"/a/n\"", "pointer = \"a.n\"", "is no JSON pointer"),
        ("name = \"rate\"", "name = \"n\"", "defined twice"),
        ("pointer = \"/a/n\", ", "", "has no `pattern`"),
        ("better = \"lower\"", "better = \"less\"", "unknown direction"),
        ("timeout = \"5m\"", "timeout = \"0s\"", "more than 0"),
        ("reset = \"reflink\"", "reset = \"magic\"", "unknown way of putting data back"),
        ("clients = 8\n", "clients = 8\nrw = \"read\"\n", "unknown key `rw`"),
        (
            "size = \"8MiB\"\n",
            "size = \"8MiB\"\nlayout = \"stripe\"\n",
            "`directory` and `layout` exclude each other",
        ),
        ("\"/mnt/data\"", "\"data\"", "no absolute path"),
        ("scale = 3", "scale = 30000", "at most 20000"),
        ("synchronous_commit = \"off\"", "synchronous_commit = \"o'ff\"", "cannot be set to that"),
        ("metric = \"tps\"", "metric = \"tpm\"", "unknown metric"),
    ] {
        assert!(PROGRAMS.contains(was), "{was}");
        let said = parse(&PROGRAMS.replacen(was, is, 1), "p.toml").expect_err(is).to_string();
        assert!(said.contains(says), "{is}: {said}");
    }
    let job = format!("{PROGRAMS}\n[workloads.both.jobs.one]\ncommand = [\"true\"]\n");
    let said = parse(&job, "p.toml").expect_err("is refused").to_string();
    assert!(said.contains("is a program, which runs alone"), "{said}");
}
