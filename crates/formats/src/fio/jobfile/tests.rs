use super::*;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, Arrival, Generator, IoEngine, Mix, Regions, Stop};
use proptest::prelude::*;
use std::collections::HashMap;

/// Included files and variables by name.
#[derive(Default)]
struct Fake(HashMap<&'static str, &'static str>);

impl JobFileContext for Fake {
    fn include(&self, name: &str, _from: &str) -> io::Result<String> {
        self.0.get(name).map(|text| (*text).to_owned()).ok_or_else(|| io::Error::other("no such file"))
    }

    fn variable(&self, name: &str) -> String {
        self.0.get(name).map(|text| (*text).to_owned()).unwrap_or_default()
    }

    /// `disk` is there, of 1 GiB and a bit.
    fn length(&self, name: &str) -> Option<Bytes> {
        (name == "/dev/disk").then_some(Bytes((1 << 30) + 5000))
    }
}

fn read(text: &str) -> Result<Vec<FileJob>, JobFileErrors> {
    parse(text, "job.fio", &[], &Fake::default()).map(|file| file.jobs)
}

/// The only mistake of `text`.
#[track_caller]
fn mistake(read: Result<Vec<FileJob>, JobFileErrors>) -> JobFileError {
    let mut errors = read.expect_err("is wrong").0;
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn groups_globals_and_clones() {
    let jobs = read(
        "; four kinds of load on one file\n\
         [global]\nioengine=libaio\ndirect=1\nsize=10g\nruntime=60\nfilename=test.file\ndirectory=/data/\n\n\
         [seq]\nrw=read\nbs=1M\nstonewall\n\
         [rand]   # together with the next one\nrw=randread\nstonewall\niodepth=32\nnumjobs=4\ngroup_reporting\n\
         [log]\nrw=write\nbs=8k\nsync=1\nrate_iops=100\n\
         [global]\ntime_based\n\
         [mixed]\nstonewall=1\nrw=randrw\nrwmixwrite=30\n",
    )
    .expect("is right");
    let groups: Vec<(&str, u32)> = jobs.iter().map(|job| (job.name.as_str(), job.group)).collect();
    assert_eq!(groups, [("seq", 0), ("rand", 1), ("log", 1), ("mixed", 2)]);
    let rand = &jobs[1].workload;
    assert_eq!((rand.access, rand.mix, rand.bs, rand.iodepth), (Access::Random, Mix::Read, Bytes(4096), 32));
    assert_eq!(rand.stop, Stop::Size(Bytes(40 << 30)), "size counts for every clone");
    assert_eq!(rand.details.time_limit, Some(Nanos::from_secs(60)), "or the runtime, whichever comes first");
    assert_eq!((rand.span, rand.details.regions), (Some(Bytes(10 << 30)), Regions::Shared));
    assert_eq!(jobs[1].target, Target::Shared("/data/test.file".to_owned()));
    assert_eq!(jobs[0].workload.ioengine, IoEngine::IoUring);
    assert_eq!(jobs[2].workload.arrival, Arrival::Fixed { iops: 100.0 });
    assert!(jobs[2].workload.sync && jobs[2].workload.direct);
    assert_eq!(
        jobs[3].workload.stop,
        Stop::Runtime(Nanos::from_secs(60)),
        "a global below counts for those below"
    );
    assert_eq!(jobs[3].workload.mix, Mix::Mixed { read_percent: 70 });
}

#[test]
fn without_a_filename_every_clone_has_a_file() {
    let jobs =
        read("[writers]\nrw=randwrite\nbs=32k\nsize=64m\nnumjobs=2\ndirectory=/data\n").expect("is right");
    let files = ["/data/writers.0.0", "/data/writers.1.0"].map(str::to_owned).to_vec();
    assert_eq!(jobs[0].target, Target::Each(files));
    assert_eq!(jobs[0].workload.details.regions, Regions::Own);
    assert_eq!((jobs[0].file_size, jobs[0].workload.span), (Some(Bytes(64 << 20)), Some(Bytes(128 << 20))));
    assert_eq!(jobs[0].workload.ioengine, IoEngine::Psync, "fio's default");
    assert!(!jobs[0].workload.direct, "fio's default");
}

/// What fio 3.33 makes of them, which is not what its manual says of `Ki`.
#[test]
fn sizes_have_fios_meaning() {
    for (text, binary, bytes) in [
        ("4096", true, 4096),
        ("4096b", true, 4096),
        ("4k", true, 4096),
        ("4kB", true, 4096),
        ("4K", true, 4096),
        ("1m", true, 1 << 20),
        ("1mi", true, 1 << 20),
        ("1Mi", true, 1 << 20),
        ("1000Ki", true, 1_024_000),
        ("1mib", true, 1_000_000),
        ("1000kib", true, 1_000_000),
        ("1t", true, 1 << 40),
        ("1tib", true, 1_000_000_000_000),
        ("4k", false, 4000),
        ("4Ki", false, 4000),
        ("4kb", false, 4000),
        ("4KiB", false, 4096),
        ("0x1000", true, 4096),
        ("0x10k", true, 16384),
    ] {
        assert_eq!(values::integer(text, binary), Ok(bytes), "{text}");
    }
    for text in ["", "k", "4q", "1.5g", "-1", "99999999999t", "4ii", "i", "4i", "4ib", "4iib", "4kiib"] {
        assert!(values::integer(text, true).is_err(), "{text}");
    }
    for (text, ns) in
        [("30", 30_000_000_000), ("30S", 30_000_000_000), ("5ms", 5_000_000), ("1m", 60_000_000_000)]
    {
        assert_eq!(values::time(text, 1_000_000_000), Ok(Nanos(ns)), "{text}");
    }
    assert_eq!(values::time("100", 1_000), Ok(Nanos(100_000)), "thinktime counts in microseconds");
}

#[test]
fn shares_are_of_the_file_that_is_there() {
    let one =
        |text: &str| read(&format!("[a]\nfilename=/dev/disk\nbs=4k\n{text}")).expect(text).remove(0).workload;
    let half = one("size=50%\n");
    assert_eq!((half.span, half.stop), (Some(Bytes(1 << 29)), Stop::Size(Bytes(1 << 29))), "whole blocks");
    let rear = one("offset=75%\nsize=100%\nio_size=50%\nruntime=9\n");
    let begin = ((1u64 << 30) + 5000) * 75 / 100 / 4096 * 4096;
    let rest = ((1u64 << 30) + 5000 - begin) / 4096 * 4096;
    assert_eq!((rear.details.offset, rear.span), (Bytes(begin), Some(Bytes(rest))));
    assert_eq!(rear.stop, Stop::Size(Bytes(rest / 2 / 4096 * 4096)));
    assert_eq!(one("size=50%\nfilesize=1m\n").span, Some(Bytes(1 << 20)), "the later one counts");
    assert_eq!(one("filesize=1m\nsize=50%\n").span, half.span, "the later one counts");
    // fio 3.33: a share is of the whole file, and ends where that does.
    let (whole, page) = ((1u64 << 30) + 5000, |bytes: u64| bytes / 4096 * 4096);
    for (options, span) in [
        ("size=50%\noffset=50%", page(whole / 2)),
        ("size=75%\noffset=50%", page(whole - page(whole / 2))),
        ("size=50%\noffset=10%", page(whole / 2)),
        ("size=100%\noffset=25%", page(whole - page(whole / 4))),
    ] {
        let half = one(&format!("{options}\n"));
        assert_eq!((half.span, half.stop), (Some(Bytes(span)), Stop::Size(Bytes(span))), "{options}");
    }
    let again = one("size=1m\nloops=3\nnumjobs=2\n");
    assert_eq!(again.stop, Stop::Size(Bytes(6 << 20)), "every clone, every loop");
    let whole = read("[a]\nfilename=new\nsize=100%\nruntime=5\n").expect("is right").remove(0);
    assert_eq!((whole.file_size, whole.workload.stop), (None, Stop::Runtime(Nanos::from_secs(5))));
}

#[test]
fn includes_and_variables() {
    let fake = Fake(HashMap::from([
        ("common.fio", "size=1m\ninclude deep.fio\n"),
        ("deep.fio", "bs=8k"),
        ("DEPTH", "7"),
    ]));
    let text =
        "[global]\ninclude common.fio\n[a]\niodepth=${DEPTH}\nioengine=io_uring\nfilename=/d/${NONE}f\n";
    let file = parse(text, "job.fio", &[], &fake).expect("is right");
    let global = [("size", "1m"), ("bs", "8k")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(file.global, global);
    let jobs = file.jobs;
    let workload = &jobs[0].workload;
    assert_eq!((workload.span, workload.bs, workload.iodepth), (Some(Bytes(1 << 20)), Bytes(8192), 7));
    assert_eq!(jobs[0].target, Target::Shared("/d/f".to_owned()));
    let circle = Fake(HashMap::from([("me.fio", "include me.fio")]));
    let error = mistake(parse("[a]\nsize=1m\ninclude me.fio", "job.fio", &[], &circle).map(|file| file.jobs));
    assert!(error.mistake.to_string().contains("circle"), "{error}");
    // Not deep, and without an end all the same.
    let names = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];
    let lines: Vec<String> = names.iter().map(|name| format!("include {name}\n").repeat(10)).collect();
    let wide = names.iter().zip(lines[1..].iter()).map(|(name, lines)| (*name, lines.clone().leak() as &str));
    let wide = Fake(wide.chain([("12", "# nothing")]).collect());
    let error = mistake(parse("[a]\nsize=1m\ninclude 0", "job.fio", &[], &wide).map(|file| file.jobs));
    assert!(error.mistake.to_string().starts_with("more than 1000 files are included"), "{error}");
    let sections = Fake(HashMap::from([("s.fio", "\n[b]")]));
    let error =
        mistake(parse("[a]\nsize=1m\ninclude s.fio", "job.fio", &[], &sections).map(|file| file.jobs));
    assert_eq!(error.place.to_string(), "s.fio:2");
}

#[test]
fn what_is_not_done_is_refused_with_its_place() {
    for (text, place, words) in [
        (
            "[a]\nsize=1m\npercentage_random=50",
            3,
            "percentage_random: ebb does not support this fio option: a job is sequential or random",
        ),
        ("[a]\nsize=1m\niodpeth=4", 3, "is it `iodepth`?"),
        ("[a]\nrw=trim", 2, "rw: `trim` is unknown; trim is not measured; write one of read"),
        ("[a]\nioengine=rbd", 2, "`rbd` is unknown; write one of io_uring, libaio"),
        ("[a]\nsize=10%", 1, "size=10%: that is a share of a file or device that is there; write bytes"),
        ("[a]\nfilename=/dev/none\nsize=1m\noffset=10%", 1, "offset=10%"),
        ("[a]\nfilename=/dev/disk\nsize=101%", 3, "more than 100 percent"),
        ("[a]\nfilename=/dev/disk\nsize=0%", 1, "ends before it begins"),
        ("[a]\nsize=1m\nnrfiles=1025", 3, "only 1 to 1024 are done"),
        ("[a]\nruntime=1\nnrfiles=4", 1, "nrfiles=4: write size, that of all of them"),
        ("[a]\nfilesize=1m\nnrfiles=4", 1, "filesize, that of each, is not done with it"),
        ("[a]\nsize=8k\nnrfiles=4", 1, "less than a block for each; write a larger size"),
        (
            "[a]\nsize=1m\nnrfiles=4\nrw=randread\nfile_service_type=sequential",
            1,
            "write file_service_type=random",
        ),
        ("[a]\nsize=1m\nnrfiles=4\nbs=1000", 1, "write file_service_type=sequential"),
        ("[a]\nsize=1m\nfile_service_type=zipf:1.2", 3, "is not one of roundrobin, sequential, random"),
        ("[a]\nsize=1m\nverify=crc33", 3, "is not one of 0, crc32c, md5"),
        ("[a]\nsize=1m\nverify=md5\ndo_verify=0", 4, "only 1 is done"),
        ("[a]\nsize=1m\nverify_backlog=9", 3, "when all of it is"),
        ("[a]\nsize=1m\nrwmixread=101", 3, "rwmixread is 101, but must be from 0 to 100"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:1:2", 3, "write for example random_distribution=zipf:1.2"),
        ("[a]\nsize=1m\nbssplit=4k/50:8x/50", 3, "write for example bssplit=4k/60:64k/40"),
        ("[a]\nio_submit_mode=online", 2, "`online` is unknown; write `inline`"),
        ("[a]\nsize=1m\nwait_for=b\n[b]\nsize=1m", 1, "wait_for=b: no job before it is called so"),
        ("[a]\nsize=1m\n[b]\nsize=1m\nwait_for=a\n[c]\nsize=1m", 6, "would begin while jobs before it wait"),
        ("[a]\ncontinue_on_error=verify", 2, "`verify` is unknown; write"),
        ("[a]\nbs=4k,8k", 2, "one value for reads"),
        ("[a]\nbsrange=4k-64k", 2, "a range of block sizes"),
        (
            "[a]\nsize=1m\nnumjobs=0",
            3,
            "numjobs is 0, but must be from 1 to 4096; write for example numjobs=1",
        ),
        ("[a]\nsize=1m\niodepth=4097", 3, "iodepth is 4097, but must be from 1 to 4096"),
        ("[a]\nsize=1m\nfilename=/a:/b", 1, "several files"),
        ("[a]\nrw=read\n", 1, "runtime is missing; write for example runtime=10s or io_size=1GiB"),
        ("[a]\nsize=1m\nrw=randrw\nrate=1m", 1, "reads and writes apart"),
        ("[a]\nsize=1m\ndirect=1\nbs=1000", 1, "a multiple of 512"),
        ("[a]\nsize=1m\nloops=0", 3, "from 1 to"),
        ("[a]\nsize=1m\ndirect=maybe", 3, "neither on nor off; write 0 or 1"),
        ("size=1m\n[a]", 1, "before the first section"),
        ("[a\nsize=1m", 1, "closing bracket"),
        ("[global]\nsize=1m", 1, "there is no job"),
        ("[a]\nsize=${X", 2, "without"),
        ("[a]\nsize=", 2, "no value"),
    ] {
        let errors = read(text).expect_err(text).0;
        let place = Place { file: "job.fio".to_owned(), line: place };
        let said = errors.iter().any(|e| e.place == place && e.mistake.to_string().contains(words));
        assert!(said, "{text}: {errors:?}");
    }
}

/// fio 3.33: `fio --size=4m --runtime=2 FILE` puts both before the [global] sections.
#[test]
fn options_beside_the_file_are_those_of_jobs_that_have_none() {
    let beside = |text: &str, name: &str, value: &str| {
        parse(text, "job.fio", &[(name.to_owned(), value.to_owned())], &Fake::default()).map(|file| file.jobs)
    };
    let jobs = beside("[a]\nrw=read\n[b]\nsize=1m\n", "size", "4m").expect("is right");
    let spans: Vec<u64> = jobs.iter().map(|job| job.workload.span.expect("has one").0).collect();
    assert_eq!(spans, [4 << 20, 1 << 20]);
    for text in ["[a]\ntimeout=1\n", "[global]\nruntime=3\n[a]\nsize=1m\n"] {
        let error = beside(text, "runtime", "2").expect_err("changes nothing").to_string();
        assert!(error.starts_with("--runtime: it changes nothing"), "{error}");
    }
    let error = beside("[a]\nrw=read\n", "runtime", "x").expect_err("is no time").to_string();
    assert!(error.starts_with("--runtime: runtime: "), "{error}");
}

#[test]
fn every_option_that_is_suggested_is_read() {
    let is_unknown = |name: &str| {
        let unknown = format!("{name}: {}", known::unknown(name));
        read(&format!("[a]\n{name}=1\n"))
            .is_err_and(|errors| errors.0.iter().any(|error| error.mistake.to_string() == unknown))
    };
    for name in known::honoured() {
        assert!(!is_unknown(name), "{name}");
    }
    assert!(is_unknown("not_an_option"));
}

#[test]
fn a_job_has_several_files_whose_sizes_are_whole_blocks() {
    let text =
        "[a]\nsize=1m\nbs=16k\nnrfiles=3\nnumjobs=2\ndirectory=/d\n[b]\nsize=1m\nnrfiles=3\nfilename=/f";
    let jobs = read(text).expect("is one");
    let files = |clone| (0..3).map(|file| format!("/d/a.{clone}.{file}")).collect::<Vec<_>>();
    let target = Target::Several { clones: vec![files(0), files(1)], in_turn: Some(Bytes(16 << 10)) };
    assert_eq!(jobs[0].target, target);
    // A third of 1 MiB is 21 blocks and a part of one.
    let each = (21 * 16) << 10;
    assert_eq!((jobs[0].file_size, jobs[0].workload.span), (Some(Bytes(each)), Some(Bytes(6 * each))));
    assert_eq!(jobs[0].workload.stop, Stop::Size(Bytes(6 * each)));
    assert_eq!(
        (&jobs[1].target, jobs[1].file_size),
        (&Target::Shared("/f".to_owned()), Some(Bytes(1 << 20)))
    );
    assert!(
        jobs[1].notes.iter().any(|note| note.starts_with("nrfiles changes nothing")),
        "{:?}",
        jobs[1].notes
    );
    let random = read("[a]\nsize=1m\nrw=randread\nnrfiles=4").expect("is one");
    assert!(matches!(&random[0].target, Target::Several { in_turn: None, .. }), "{:?}", random[0].target);
}

#[test]
fn jobs_wait_for_all_before_them_or_for_one() {
    let text = "[global]\nsize=1m\n[a]\n[b]\n[c]\nwait_for=a\n[d]\nwait_for=b\n[e]\nwait_for=d\n[f]\nstonewall\n[g]\n";
    let groups: Vec<(String, u32)> =
        read(text).expect("is one").into_iter().map(|job| (job.name, job.group)).collect();
    let expected = [("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", 2), ("f", 3), ("g", 3)];
    assert_eq!(groups, expected.map(|(name, group)| (name.to_owned(), group)));
}

/// What the command line takes is what a job file takes.
#[test]
fn options_without_an_effect_are_accepted_by_themselves() {
    for Accepted { name, .. } in known::WITHOUT_EFFECT.iter().chain(known::ONLY_TOLD) {
        assert!(accept(name, "1", None).is_ok(), "{name}");
    }
    assert!(accept("do_verify", "0", None).is_ok() && accept("do_verify", "0", Some("none")).is_ok());
    assert!(accept("do_verify", "0", Some("md5")).is_err());
    assert!(accept("opendir", "/x", None).is_err_and(|what| what.to_string().contains("name each file")));
}

/// A default asks for nothing, and what else it may be is told.
#[test]
fn options_that_are_not_done_may_be_at_their_default() {
    for (Accepted { name, .. }, default) in known::AT_DEFAULT {
        assert!(accept(name, default, None).is_ok(), "{name}={default}");
        let other = if *default == "1" { "0" } else { "1" };
        assert!(
            accept(name, other, None).is_err_and(|what| what.to_string().contains("does not support")),
            "{name}"
        );
        assert!(known::option(name).is_none() && !without_effect(name), "{name} is done");
    }
    let text = "[a]\nsize=1m\nstats=1\nunlink = 0\nlockfile=none\ndo_verify=0\nallrandrepeat=1\nsoftrandommap=1\n\
                block_error_percentiles=0\n";
    assert!(read(text).is_ok(), "{:?}", read(text));
    assert!(read("[a]\nsize=1m\ndo_verify=0\nverify=md5").is_err());
}

/// What people run, in the style of what is published for clouds, databases and clusters.
#[test]
fn job_files_that_people_bring_run() {
    for (text, noted) in [
        (
            "[global]\nbs=4K\niodepth=128\ndirect=1\nsync=0\nioengine=libaio\nrandrepeat=0\nnorandommap=1\nverify=0\ngroup_reporting\n\
             size=1g\nramp_time=60s\nruntime=60s\ntime_based\n[read]\nstonewall\nrw=randread\n[write]\nstonewall\nrw=randwrite\n",
            "",
        ),
        (
            "[global]\nrw=randread\nioengine=libaio\niodepth=64\nsize=1g\ndirect=1\nstartdelay=5\nforce_async=4\nramp_time=5\nruntime=20\n\
             time_based\ndisk_util=0\nclat_percentiles=0\ndisable_lat=1\ndisable_clat=1\ndisable_slat=1\nfilename=fiofile\n\
             [test]\nname=test\nbs=4k\nstonewall\n",
            "disable_clat, disable_lat, disable_slat, disk_util, force_async change nothing here",
        ),
        (
            "[global]\nfilename=/dev/disk\ndirect=1\nverify=0\nrandrepeat=0\ntime_based\nruntime=60\nramp_time=2s\nioengine=libaio\n\
             iodepth_batch_submit=64\niodepth_batch_complete_max=64\n[w]\nrw=write\nbs=1M\niodepth=64\nnumjobs=4\noffset_increment=128m\n",
            "",
        ),
        (
            "[global]\nclocksource=gettimeofday\nfadvise_hint=0\ncreate_serialize=0\nexitall_on_error=1\nlog_avg_msec=1000\nwrite_bw_log=x\n\
             percentile_list=50:99\nlog_max_value=1\nsize=22m\n[wal]\nrw=write\nbs=2300\nfdatasync=1\n",
            "clocksource, create_serialize, exitall_on_error, fadvise_hint, log_avg_msec, log_max_value, percentile_list, write_bw_log change",
        ),
        (
            "[global]\nbs=4k\nrw=randread\niodepth=128\nlatency_target=500000\nlatency_window=5000000\nlatency_percentile=99.9\n\
             [device]\nfilename=/dev/disk\n",
            "",
        ),
    ] {
        let jobs = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(jobs.iter().all(|job| !job.verified), "{text}");
        let told = jobs.iter().flat_map(|job| &job.notes).filter(|note| note.contains("nothing here"));
        let told: Vec<&String> = told.collect();
        assert_eq!(told.len(), usize::from(!noted.is_empty()), "{text}: {told:?}");
        assert!(told.iter().all(|note| note.contains(noted)), "{text}: {told:?}");
    }
}

#[test]
fn all_that_is_refused_is_named_in_one_go_and_once() {
    let text = "[global]\nsize=1m\nzonemode=zbd\nopendir=/x\n[a]\nrw=read\nbs=4q\n[b]\nrw=trim\nnumber_ios=4\nioscheduler=none\n[c]\nnr_files=1\n";
    let errors = read(text).expect_err("much is wrong");
    let lines: Vec<(usize, String)> = errors
        .0
        .iter()
        .map(|error| {
            let what = error.mistake.to_string();
            (error.place.line, what.split(':').next().unwrap_or_default().to_owned())
        })
        .collect();
    let expected = [
        (3, "zonemode"),
        (4, "opendir"),
        (7, "bs"),
        (9, "rw"),
        (10, "number_ios"),
        (11, "ioscheduler"),
        (13, "nr_files"),
    ];
    assert_eq!(lines, expected.map(|(line, what)| (line, what.to_owned())));
    assert_eq!(errors.to_string().lines().count(), 7, "{errors}");
    let many = format!("[a]\nsize=1m\n{}", "opendir=/x\n".repeat(80));
    assert!(read(&many).expect_err("all are wrong").to_string().ends_with("and 30 more"));
}

/// fio 3.33: clone i begins at offset + i x increment, and does its size there.
#[test]
fn clones_begin_an_increment_apart() {
    let jobs =
        read("[a]\nfilename=new\nrw=write\nbs=1m\nsize=64m\nnumjobs=4\noffset=4m\noffset_increment=16m\n");
    let job = jobs.expect("is right").remove(0);
    assert_eq!(job.file_size, Some(Bytes((64 + 4 + 48) << 20)));
    assert_eq!(job.workload.stop, Stop::Size(Bytes(256 << 20)));
    for clone in 0..4u64 {
        let mut stream = Generator::new(&job.workload, Bytes(1 << 30), 1, clone as u32).expect("has room");
        assert_eq!(stream.budget(), Some(Bytes(64 << 20)));
        let blocks: Vec<u64> = (0..65).map(|_| stream.next_op().offset.0 >> 20).collect();
        let first = 4 + 16 * clone;
        assert_eq!((blocks[0], blocks[63], blocks[64]), (first, first + 63, first), "{clone}");
    }
    let on_disk = |options: &str| read(&format!("[a]\nfilename=/dev/disk\nrw=read\nnumjobs=4\n{options}\n"));
    let share = on_disk("bs=1m\nsize=10%\noffset_increment=25%\n").expect("is right").remove(0).workload;
    assert_eq!((share.details.offset_increment, share.span), (Bytes(256 << 20), Some(Bytes(102 << 20))));
    let short = mistake(on_disk("bs=1m\nsize=50%\noffset_increment=25%")).to_string();
    assert!(
        short.contains("the last of 4 jobs would have") && short.contains("or size=268435456"),
        "{short}"
    );
    on_disk("size=50%\noffset_increment=25%\nruntime=1\ntime_based").expect("a time ends it");
    let none = mistake(on_disk("size=50%\noffset_increment=50%\nruntime=1\ntime_based")).to_string();
    assert!(none.contains("or fewer jobs"), "{none}");
    let each = read("[a]\nrw=write\nsize=16m\nnumjobs=4\noffset_increment=4m\n").expect("is right").remove(0);
    assert!(each.notes.iter().any(|note| note.contains("a file of its own")), "{:?}", each.notes);
    assert_eq!((each.file_size, each.workload.details.offset_increment), (Some(Bytes(16 << 20)), Bytes(0)));
}

proptest! {
    #[test]
    fn no_text_panics(text in "([\\[a-z_]{1,9}[\\]=]?[0-9a-z%:,$-]{0,6}[\n #;]?){0,20}") {
        let _ = read(&text);
    }

    #[test]
    fn no_bytes_panic(text in ".*") {
        let _ = read(&format!("[a]\n{text}"));
    }
}

#[test]
fn options_that_change_nothing_are_said_or_refused() {
    let job = |options: &str| read(&format!("[a]\nfilename=f\nsize=1m\n{options}\n"));
    let jobs = job("rw=read\nfsync=4\ntime_based").expect("both are common in [global]");
    assert_eq!(jobs[0].workload.details.fsync_every, None);
    for part in ["fsync changes nothing", "time_based changes nothing"] {
        assert!(jobs[0].notes.iter().any(|note| note.contains(part)), "{:?}", jobs[0].notes);
    }
    let error = job("rw=read\nioengine=psync\nhipri").expect_err("psync has no ring").to_string();
    assert!(error.contains("hipri changes nothing: psync has no ring"), "{error}");
    let jobs = job("rw=write\nfsync=4\nfdatasync=2").expect("both are done");
    assert_eq!(
        (jobs[0].workload.details.fsync_every, jobs[0].workload.details.fdatasync_every),
        (Some(4), Some(2))
    );
}
