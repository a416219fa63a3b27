use super::*;
use crate::workload::{Access, Arrival, Details, IoEngine, Mix, Sequence, Stop};
use std::collections::BTreeSet;

/// The workload of `options` (`name=value`), its notes, or what is wrong.
fn read(grammar: Grammar, options: &str) -> Result<(Workload, Vec<String>), String> {
    let mut draft = Draft::new(grammar);
    for given in options.split_whitespace() {
        let (name, value) = given.split_once('=').expect("name=value");
        let option = OPTIONS.iter().find(|option| option.names().any(|known| known == name)).expect(name);
        let set = option.set(&mut draft, &mut Plain(value));
        set.map_err(|refusal| refusal.expect("nothing else reports").to_string())?;
    }
    let workload = draft
        .finish("w")
        .map_err(|refusals| refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    Ok((workload, draft.notes))
}

fn made(grammar: Grammar, options: &str) -> Workload {
    read(grammar, options).expect(options).0
}

#[test]
fn names_are_unique_and_what_is_named_is_there() {
    let names: Vec<&str> = OPTIONS.iter().flat_map(WorkloadOption::names).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for option in OPTIONS {
        let others = option.unused.iter().filter_map(|unused| unused.with).map(|(name, _)| name);
        for other in others.chain(option.stands_for) {
            assert_eq!(named(other).name, other, "{}", option.name);
        }
        assert!(!option.doc.is_empty() && !option.doc.ends_with('.'), "{}", option.name);
    }
    for name in ["runtime", "io_size", "size", "loops", "rw", "bs", "offset", "direct", "rate_iops"] {
        assert_eq!(named(name).name, name);
    }
    assert_eq!(named("no option").name, "");
}

/// What is written of a workload in fio's words is that workload again.
#[test]
fn what_is_said_of_a_workload_is_read_back() {
    for options in [
        "rw=read bs=1m size=1g",
        "rw=randrw rwmixread=70 iodepth=8 numjobs=3 runtime=1.5 time_based=1 ramp_time=2",
        "rw=rewrite bs=512 size=4096 io_size=8192 runtime=9 offset=512 direct=1 sync=1 end_fsync=1",
        "rw=write size=1m fsync=3 fdatasync=5 thinktime=2.5 rate=1000 ioengine=psync",
        "rw=randread runtime=2 time_based=1 rate_iops=12.5 rate_process=poisson iomem=mmaphuge nice=-5",
        "rw=randread runtime=2 time_based=1 rate_iops=7 cpus_allowed=0-2,5",
        "rw=randwrite size=1m direct=1 ioengine=io_uring hipri=1 sqthread_poll=1",
        "rw=read:-8192 size=1m direct=1",
        "rw=randrw size=1m direct=0 invalidate=0 startdelay=3 buffer_compress_percentage=40 dedupe_percentage=30",
        "rw=randread:8 rw_sequencer=identical size=1m random_distribution=zoned:60/10:/30:30/ bssplit=4k:8k:64k,4k/9:1m",
        "rw=randread size=1m runtime=60 time_based=1 iodepth=64 latency_target=500 latency_window=100000.5 latency_percentile=99.9 latency_run=1",
        "rw=read size=1m runtime=600 time_based=1 ss=iops_slope:0.3% ss_dur=30 ss_ramp=5 ss_interval=2 ratemin=1000 ratecycle=250",
        "rw=read size=1m steadystate=lat:70 steadystate_duration=4 rate_iops_min=12.5",
        "rw=randrw size=1m continue_on_error=all",
        "rw=randrw size=1m continue_on_error=write",
        "rw=randrw size=1m random_distribution=pareto:0.3 bssplit=512/60:4096/40",
    ] {
        let workload = made(Grammar::JobFile, options);
        let said: Vec<String> =
            said(&workload).into_iter().skip(1).map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(made(Grammar::JobFile, &said.join(" ")), workload, "{options}: {said:?}");
    }
}

#[test]
fn what_is_not_at_its_default_is_said_in_fios_units() {
    let said = |workload: &Workload| {
        let options = said(workload).into_iter().map(|(name, value)| format!("{name}={value}"));
        options.collect::<Vec<_>>().join(" ")
    };
    let plain = Workload::new("a", Access::Random, Mix::Read, Stop::Runtime(Nanos::from_millis(1500)));
    assert_eq!(
        said(&plain),
        "name=a rw=randread bs=4096 iodepth=1 numjobs=1 runtime=1.5 time_based=1 direct=1 ioengine=io_uring"
    );
    let rich = Workload {
        mix: Mix::Mixed { read_percent: 70 },
        stop: Stop::Size(Bytes(8192)),
        span: Some(Bytes(4096)),
        arrival: Arrival::Poisson { iops: 12.5 },
        rate: Some(Bytes(1000)),
        think_time: Nanos(2_500),
        warm_up: Nanos::from_secs(2),
        sync: true,
        end_fsync: true,
        ioengine: IoEngine::Psync,
        details: Details {
            offset: Bytes(512),
            fsync_every: Some(3),
            fdatasync_every: Some(5),
            ..Details::default()
        },
        ..plain
    };
    assert_eq!(
        said(&rich),
        "name=a rw=randrw rwmixread=70 bs=4096 iodepth=1 numjobs=1 size=4096 io_size=8192 offset=512 ramp_time=2 \
         direct=1 sync=1 fsync=3 fdatasync=5 end_fsync=1 rate=1000 rate_iops=12.5 rate_process=poisson thinktime=2.5 \
         ioengine=psync"
    );
}

/// Every number has its range in every grammar, and both its ends are within.
#[test]
fn ranges_are_the_same_in_every_grammar() {
    for grammar in [Grammar::Experiment, Grammar::Command, Grammar::JobFile] {
        for option in OPTIONS.iter().filter(|option| option.is_in(grammar)) {
            let Kind::Whole { least, most, .. } = option.kind else { continue };
            let set = |value: i64| option.set(&mut Draft::new(grammar), &mut Plain(&value.to_string()));
            assert!(set(least).is_ok() && set(most).is_ok(), "{}", option.name);
            assert!(set(least - 1).is_err() && set(most + 1).is_err(), "{}", option.name);
        }
    }
    let said = read(Grammar::Command, "iodepth=4097").expect_err("is too many");
    assert_eq!(said, "--iodepth is 4097, but must be from 1 to 4096; write for example --iodepth=4096");
}

#[test]
fn an_option_that_would_change_nothing_is_refused_or_noted_and_one_that_would_is_neither() {
    use Grammar::{Command, Experiment, JobFile};
    for (options, name, useful) in [
        ("rw=read runtime=1 rate_process=poisson", "rate_process", "rate_iops=9"),
        ("rw=read runtime=1 rwmixread=60", "rwmixread", "rw=randrw"),
        ("rw=read runtime=1 time_based=1 loops=2", "loops", ""),
        ("rw=read runtime=1 random_distribution=zipf:1.1", "random_distribution", "rw=randread"),
        ("rw=randread runtime=1 rw_sequencer=identical", "rw_sequencer", "rw=randread:8"),
        ("rw=randread runtime=1 bs=8k bssplit=4k:8k", "bs", ""),
    ] {
        for grammar in [Experiment, Command] {
            let options = options.replace(" time_based=1", "");
            let said = read(grammar, &options).expect_err(&options);
            let called = named(name).called(grammar);
            assert!(said.starts_with(&format!("{called} changes nothing: ")), "{said}");
            assert!(said.ends_with(&format!("remove {called}")), "{said}");
            if !useful.is_empty() {
                assert!(read(grammar, &format!("{options} {useful}")).is_ok(), "{options} {useful}");
            }
        }
        let (_, notes) = read(JobFile, options).expect("is common in [global]");
        assert!(notes.iter().any(|note| note.starts_with(&format!("{name} changes nothing: "))), "{notes:?}");
    }
    for options in ["rw=read size=1m fsync=4", "rw=read size=1m fdatasync=4"] {
        assert!(read(Command, options).expect_err(options).contains("nothing is written"));
        assert_eq!(made(JobFile, options).details.fsync_every, None);
        assert!(read(Command, &options.replace("read", "write")).is_ok());
    }
    for (options, why) in [
        ("rw=read size=1m hipri=1 ioengine=psync", "psync has no ring"),
        ("rw=read size=1m sqthread_poll=1 ioengine=psync", "psync has no ring"),
        ("rw=read size=1m hipri=1 ioengine=io_uring direct=0", "the page cache is not polled"),
    ] {
        for grammar in [Experiment, Command, JobFile] {
            assert!(read(grammar, options).expect_err(options).contains(why), "{options}");
        }
        assert!(read(JobFile, "rw=read size=1m hipri=1 sqthread_poll=1 ioengine=io_uring direct=1").is_ok());
    }
    let said = read(Experiment, "rw=read runtime=1 ioengine=psync iodepth=32").expect_err("compares nothing");
    assert!(said.contains("write for example `numjobs = 32`"), "{said}");
    assert!(
        read(Command, "rw=read runtime=1 ioengine=psync iodepth=32").is_ok(),
        "the engine's notes say so"
    );
}

#[test]
fn the_end_is_what_each_grammar_says() {
    use Grammar::{Command, Experiment, JobFile};
    let size = |bytes| Stop::Size(Bytes(bytes));
    let time = |seconds| Stop::Runtime(Nanos::from_secs(seconds));
    for (grammar, options, stop, span) in [
        (Command, "", time(10), None),
        (Command, "size=1m", size(1 << 20), Some(1 << 20)),
        (Command, "size=1m runtime=3", time(3), Some(1 << 20)),
        (Command, "size=1m io_size=4m", size(4 << 20), Some(1 << 20)),
        (Command, "size=1m loops=3", size(3 << 20), Some(1 << 20)),
        (Experiment, "rw=read io_size=1m loops=3 size=8m", size(3 << 20), Some(8 << 20)),
        (Experiment, "rw=read runtime=3 size=8m", time(3), Some(8 << 20)),
        (JobFile, "runtime=9 size=1m loops=3 runtime=0", size(3 << 20), Some(1 << 20)),
        (JobFile, "size=1m runtime=3 time_based=1", time(3), Some(1 << 20)),
        (JobFile, "runtime=3", time(3), None),
    ] {
        let workload = made(grammar, options);
        assert_eq!((workload.stop, workload.span), (stop, span.map(Bytes)), "{grammar:?} {options}");
    }
    let limited = made(JobFile, "size=1m runtime=3");
    assert_eq!((limited.stop, limited.details.time_limit), (size(1 << 20), Some(Nanos::from_secs(3))));
    for (grammar, options, said) in [
        (
            Experiment,
            "rw=read size=8m",
            "`runtime` is missing; write for example `runtime = \"10s\"` or `size",
        ),
        (Experiment, "runtime=1", "`rw` is missing"),
        (JobFile, "runtime=0", "runtime is missing"),
        (JobFile, "rw=read", "runtime is missing; write for example runtime=10s or io_size=1GiB"),
        (Command, "runtime=1 io_size=1m", "--runtime and --io_size exclude each other; keep --runtime"),
        (Experiment, "rw=read runtime=1 rate_iops=5 rate=1m", "`rate_iops` and `rate` exclude each other"),
        (Command, "runtime=0", "--runtime is 0, but must be more than 0; write for example --runtime=10s"),
        (Command, "rate=0", "--rate is 0"),
    ] {
        let found = read(grammar, options).expect_err(options);
        assert!(found.contains(said), "{options}: {found}");
    }
    assert!(read(JobFile, "size=16384t loops=4096").expect_err("2^66").contains("more than 64 bits"));
}

#[test]
fn depth_is_what_is_in_flight() {
    let depth = |options: &str| made(Grammar::Command, options).depth();
    assert_eq!(depth("iodepth=8"), 8);
    assert_eq!(depth("iodepth=8 ioengine=psync"), 1);
    assert_eq!(depth("iodepth=8 thinktime=5"), 1);
}

#[test]
fn a_search_ends_by_itself_within_a_time() {
    use Grammar::{Command, JobFile};
    let found = made(JobFile, "rw=randread ioengine=libaio iodepth=8 latency_target=500");
    let latency = found.conditions.latency.expect("is asked for");
    assert_eq!((latency.target, latency.window), (Nanos(500_000), Nanos::from_secs(1)));
    assert_eq!(found.stop, Stop::Runtime(latency.longest(8)));
    let runtime = |options: &str| (super::named("runtime").fio)(&made(Command, options));
    assert_eq!(runtime("size=1m latency_target=5ms"), None, "nobody asked for it");
    assert_eq!(runtime("size=1m runtime=3 latency_target=5ms").as_deref(), Some("3"));
    assert_eq!(
        made(Command, "size=1m runtime=3 latency_target=5ms").stop,
        Stop::Runtime(Nanos::from_secs(3))
    );
    assert_eq!(made(JobFile, "size=1m runtime=3 latency_target=0").conditions.latency, None);
    for (options, said) in [
        ("latency_target=5 rate_iops=9", "--latency_target and --rate_iops exclude each other"),
        (
            "latency_target=1s latency_window=1s",
            "--latency_window is 1s, but must be longer than --latency_target, 1s",
        ),
        (
            "latency_target=5 latency_percentile=101",
            "--latency_percentile is 101, but must be a percentage above 0 and up to 100",
        ),
        (
            "latency_percentile=99",
            "--latency_percentile changes nothing: no load is looked for; write for example",
        ),
        ("latency_target=5 io_size=1m", "--io_size changes nothing: latency_target ends it"),
        ("latency_target=5 latency_run=1", "--latency_run changes nothing: no runtime says how long"),
        (
            "latency_target=0",
            "--latency_target is 0, but must be more than 0; write for example --latency_target=500us",
        ),
        ("latency_target=5 latency_window=0", "write for example --latency_window=1s"),
        (
            "runtime=9 rw=read continue_on_error=write",
            "--continue_on_error changes nothing: nothing is written",
        ),
        ("runtime=9 rw=write continue_on_error=read", "--continue_on_error changes nothing: nothing is read"),
    ] {
        let found = read(Command, options).expect_err(options);
        assert!(found.contains(said), "{options}: {found}");
    }
}

#[test]
fn what_is_looked_at_while_it_runs_has_whole_intervals_and_an_end() {
    use Grammar::{Command, JobFile};
    let w = made(Command, "runtime=600 ss=bw:5% ss_dur=3 ss_interval=300ms rate_iops_min=5 ratecycle=600");
    // 1 s divides neither; 100 ms does.
    assert_eq!(w.series_interval(), Nanos::from_millis(100));
    assert_eq!(made(Command, "runtime=600").series_interval(), Nanos::from_secs(1));
    for (options, said) in [
        ("ss=iops:5% ss_dur=9", "--runtime is missing; write for example --runtime=10s or"),
        (
            "runtime=60 ss=iops:5%",
            "--steadystate_duration is missing: it says how much of the run is judged; write for example --steadystate_duration=30s",
        ),
        (
            "runtime=60 ss=iops:5% ss_dur=1",
            "--steadystate_duration is 1s, but must be a multiple of 1s, what one measurement takes, and at least two of them; write for example --steadystate_duration=2s",
        ),
        (
            "runtime=60 ss=iops:5% ss_dur=1 ss_interval=5ms",
            "--steadystate_check_interval must be a multiple of 10ms; write for example --steadystate_check_interval=10ms",
        ),
        (
            "runtime=9 ss=iops:5% ss_dur=8 ss_ramp=2",
            "--runtime is 9s, in which there is no window of 8s after 2s; write for example --runtime=40s",
        ),
        ("runtime=9 ss_dur=8", "--steadystate_duration changes nothing: no steady state is waited for"),
        ("runtime=9 ss=ipos:8", "write for example --steadystate=iops_slope:0.3%"),
        (
            "runtime=9 rate_iops=5 rate_iops_min=6",
            "--rate_iops_min is more than --rate_iops, so that every trial would fail; write --rate_iops_min=5 or less",
        ),
        (
            "runtime=9 rate=5m rate_min=6m",
            "--rate_min is more than --rate, so that every trial would fail; write --rate_min=5MiB or less",
        ),
        (
            "runtime=2 ss=iops:5% ss_dur=3",
            "--runtime is 2s, in which there is no window of 3s; write for example --runtime=12s",
        ),
        (
            "runtime=9 rate_min=6m rate_cycle=15",
            "--rate_cycle must be a multiple of 10ms; write for example --rate_cycle=20ms",
        ),
        ("runtime=9 rate_cycle=20", "--rate_cycle changes nothing: no rate is asked for at least"),
        ("runtime=9 rate_min=5 latency_target=5", "--latency_target and --rate_min exclude each other"),
    ] {
        let found = read(Command, options).expect_err(options);
        assert!(found.contains(said), "{options}: {found}");
    }
    // fio ends it by its size, too.
    assert_eq!(made(JobFile, "size=1m ss=iops:5% ss_dur=9").stop, Stop::Size(Bytes(1 << 20)));
}

#[test]
fn words_of_fios_run_as_others_and_an_experiment_says_which() {
    let (workload, notes) = read(Grammar::Command, "ioengine=libaio").expect("is fio's");
    assert_eq!(
        (workload.ioengine, notes),
        (IoEngine::IoUring, vec!["ioengine=libaio runs on io_uring".to_owned()])
    );
    assert_eq!(
        read(Grammar::JobFile, "size=1m ioengine=pvsync2").expect("is fio's").0.ioengine,
        IoEngine::Psync
    );
    let said = read(Grammar::Experiment, "rw=read runtime=1 ioengine=libaio").expect_err("compares");
    assert_eq!(said, "`ioengine`: `libaio` is unknown; write \"io_uring\"");
    let said = read(Grammar::Command, "rw=randraed").expect_err("is misspelt");
    assert_eq!(said, "--rw: `randraed` is unknown; write `randread`");
    assert!(read(Grammar::Command, "rw=trim").expect_err("is not done").contains("trim is not measured"));
}

#[test]
fn what_has_a_grammar_of_its_own_is_refused_with_an_example() {
    use Grammar::{Command, Experiment, JobFile};
    for (grammar, options, said) in [
        (
            Command,
            "random_distribution=zipf:x",
            "--random_distribution: `x` is no number above 0 and up to 20; write for example --random_distribution=zipf:1.2",
        ),
        (
            Experiment,
            "rw=read runtime=1 bssplit=4k/60:8k/50",
            "`bssplit`: its shares of the operations make 110%, and have to make 100%; write for example `bssplit = \"4k/60:64k/40\"`",
        ),
        (JobFile, "size=1m bssplit=4k,8k,16k", "trim is not measured"),
        (Command, "bssplit=4k/50:1000/50", "--bssplit: sizes must be multiples of 512 bytes"),
        (
            Command,
            "rw=read:-1000",
            "--rw: sizes must be multiples of 512 bytes, as O_DIRECT needs; write for example --rw=read:-8k",
        ),
        (
            Command,
            "rw=randread:x",
            "--rw: `x` is no number of operations from 2 on; write for example --rw=read:-8k",
        ),
        (Experiment, "rw=read:0 runtime=1", "`rw`: `0` is no number of bytes"),
        (Command, "rw=raed:8k", "--rw: `raed` is unknown; write `read`"),
    ] {
        let found = read(grammar, options).expect_err(options);
        assert!(found.contains(said), "{options}: {found}");
    }
    // A later order has no modifier of an earlier one, and fio's `4ki` is 4000 in its files only.
    assert_eq!(made(JobFile, "size=1m rw=read:8k rw=randread").details.sequence, Sequence::Plain);
    let workload = made(Experiment, "rw=read:8k runtime=1 bssplit=4k:8k");
    assert_eq!((workload.details.sequence, workload.bs), (Sequence::Holes(8192), Bytes(8192)));
}

#[test]
fn the_pages_list_every_option_of_their_grammar_once() {
    for grammar in [Grammar::Experiment, Grammar::Command] {
        let page = page(grammar);
        let listed = OPTIONS.iter().filter(|option| option.is_in(grammar) && option.stands_for.is_none());
        assert_eq!(page.lines().count(), 2 + listed.count());
    }
    assert!(
        page(Grammar::Experiment).contains("| `span` |") && !page(Grammar::Experiment).contains("`io_size`")
    );
    assert!(page(Grammar::Command).contains("| `--io_size`, `--io_limit` |"));
}
