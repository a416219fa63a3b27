use super::*;
use ebbtide_analysis::{analyse, metrics::metric};
use ebbtide_model::metric::Metric;
use ebbtide_model::workload::{Access, IoEngine, Mix};
use proptest::prelude::*;

/// fio 3.33 on this format's usual host, with the line that it prints before the JSON for each odd job.
const FIO_3: &str = include_str!("recorded/fio-3.33.txt");
const BONNIE_2: &str = include_str!("recorded/bonnie-2.00.csv");
/// Made up in the layout of fio 2.2.10: KiB, microseconds, no job options.
const FIO_2: &str = r#"fio: set debug option
{
  "fio version" : "fio-2.2.10",
  "timestamp" : 1444144664,
  "jobs" : [ {
    "jobname" : "random-read", "groupid" : 0, "error" : 0,
    "read" : { "io_bytes" : 8000, "bw" : 400, "iops" : 100.0, "runtime" : 20000, "total_ios" : 2000,
      "clat" : { "min" : 90, "max" : 40000, "mean" : 900.0, "stddev" : 1.0,
        "percentile" : { "50.000000" : 800, "99.000000" : 20000, "0.00" : 0 } } },
    "write" : { "io_bytes" : 0, "bw" : 0, "iops" : 0.0, "runtime" : 0, "total_ios" : 0,
      "clat" : { "min" : 0, "max" : 0, "percentile" : { "50.000000" : 0 } } }
  } ]
}"#;
/// Made up in the layout of 1.97: 48 fields.
const BONNIE_1: &str = "Version 1.97 of something\n1.97,1.97,db1,1,1374655110,16G,,512,97,102400,12,51200,9,1024,96,204800,15,250.5,7,\
16,,,,,+++++,+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++,16000us,900ms,800ms,9us,100ms,90ms,\
1us,2us,3us,4us,5us,6us\n";

fn only(text: &str) -> Imported {
    let mut found = parse(text).expect("a result");
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn value(measured: &Measured, which: Metric) -> f64 {
    metric(&measured.samples, which).expect("a value")
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.002, "{found} instead of {expected}");
}

#[test]
fn fio_3_as_recorded() {
    let found = only(FIO_3);
    assert_eq!((found.program.as_str(), found.target.as_deref()), ("fio-3.33", Some("data/f")));
    assert_eq!(found.ended_unix, Some(UnixTime(1_795_232_013_399_000_000)));
    let names: Vec<&str> = found.measured.iter().map(|m| m.workload.name.as_str()).collect();
    assert_eq!(names, ["seqread", "second"]);
    let first = &found.measured[0];
    assert_eq!((first.workload.access, first.workload.bs), (Access::Random, Bytes(4096)));
    assert!(matches!(first.workload.mix, Mix::Mixed { read_percent: 45..=55 }));
    assert_eq!((first.workload.direct, first.workload.ioengine), (true, IoEngine::Psync));
    let read = &first.samples.array.read;
    assert_eq!((read.count.ops, read.count.bytes), (8649, 35_426_304));
    // fio's own percentiles come back from the distribution restored from them.
    near(read.latency.percentile(1.0).expect("p1") as f64, 19_328.0);
    near(read.latency.percentile(50.0).expect("p50") as f64, 22_400.0);
    assert_eq!(read.latency.max(), Some(10_598_015));
    assert_eq!(read.latency.count(), 8649);
}

#[test]
fn fio_2_counts_kib_and_microseconds() {
    let found = only(FIO_2);
    let job = &found.measured[0];
    near(value(job, Metric::Throughput), 400.0 * 1024.0);
    near(value(job, Metric::Iops), 100.0);
    near(value(job, Metric::LatP50), 800_000.0);
    near(value(job, Metric::LatP99), 20_000_000.0);
    assert_eq!((job.workload.access, job.workload.bs), (Access::Random, Bytes(4096)));
    assert!(job.samples.notes[0].contains("name"), "{:?}", job.samples.notes);
}

/// Values are fio's, not this project's: `4kb` is 4096, and `sync` has words.
#[test]
fn options_of_fio_are_read_as_fio_reads_them() {
    let with = |options: &str| {
        let text =
            FIO_2.replace("\"error\" : 0,", &format!("\"error\" : 0, \"job options\" : {{ {options} }},"));
        // Bytes that are those of the block size: others would be those of a group of jobs.
        let text = if options.contains("kib") || options.contains("1000") {
            text.replace(": 8000", ": 7812")
        } else {
            text
        };
        let mut found = only(&text);
        (found.measured.remove(0).workload, found.size)
    };
    let (workload, size) =
        with(r#""bs": "4kb", "size": "1gb", "sync": "none", "direct": "", "ramp_time": "1500ms""#);
    assert_eq!((workload.bs, size), (Bytes(4096), Some(Bytes(1 << 30))));
    assert_eq!((workload.sync, workload.direct), (false, true));
    assert_eq!(workload.warm_up, Nanos::from_millis(1500));
    let (workload, size) =
        with(r#""bs": "4kib,4kib", "size": "50%", "sync": "dsync", "direct": "0", "ramp_time": "2""#);
    assert_eq!((workload.bs, size), (Bytes(4000), None));
    assert_eq!((workload.sync, workload.direct), (true, false));
    assert_eq!(workload.warm_up, Nanos::from_secs(2));
    assert_eq!(with(r#""bs": "4k", "kb_base": "1000""#).0.bs, Bytes(4000));
}

#[test]
fn bonnie_2_as_recorded() {
    let found = only(BONNIE_2);
    assert_eq!((found.program.as_str(), found.size), ("bonnie++-2.00a", Some(Bytes(64 << 20))));
    let tests: Vec<(&str, f64)> =
        found.measured.iter().map(|m| (m.workload.name.as_str(), value(m, Metric::Throughput))).collect();
    assert_eq!(tests.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["putc", "getc"]);
    near(tests[0].1, 955.0 * 1024.0);
    near(tests[1].1, 1340.0 * 1024.0);
    let left_out = ["write", "rewrite", "read", "seeks"];
    assert!(
        left_out.iter().all(|name| found.notes.iter().any(|note| note.starts_with(name))),
        "{:?}",
        found.notes
    );
}

#[test]
fn bonnie_1_has_two_fields_less() {
    let found = only(BONNIE_1);
    assert_eq!(found.hostname.as_deref(), Some("db1"));
    let of = |name: &str| found.measured.iter().find(|m| m.workload.name == name).expect("the test");
    for (name, kib) in [("putc", 512.0), ("write", 102_400.0), ("rewrite", 51_200.0), ("read", 204_800.0)] {
        near(value(of(name), Metric::Throughput), kib * 1024.0);
    }
    near(value(of("seeks"), Metric::Iops), 250.5);
    assert!(of("read").samples.notes[0].contains("100ms"), "{:?}", of("read").samples.notes);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    assert_eq!(parse("hello\n"), Err(ImportError::Unknown));
    let cut = &FIO_2[..FIO_2.len() - 40];
    assert!(matches!(parse(cut), Err(ImportError::Json { line: 11, .. })), "{:?}", parse(cut));
    assert_eq!(parse("1.97,1.97,db1,1,5,16G,,1,2,3"), Err(ImportError::Fields { line: 1, found: 10 }));
    let odd = BONNIE_1.replace("102400", "fast");
    assert!(matches!(parse(&odd), Err(ImportError::Field { line: 2, field: 10, name: "write", .. })));
    let idle = FIO_2.replace("20000, \"total_ios\" : 2000", "0, \"total_ios\" : 0");
    assert!(matches!(parse(&idle), Err(ImportError::Nothing(_))), "{:?}", parse(&idle));
}

#[test]
fn an_imported_session_can_be_analysed() {
    for text in [FIO_2, FIO_3, BONNIE_1, BONNIE_2] {
        let imported = only(text);
        let count = imported.measured.len();
        let session = session(imported, "id".to_owned(), "0", UnixTime(1));
        let analysis = analyse(&session);
        assert!(analysis.results.len() >= count);
        assert!(analysis.results.iter().all(|r| r.design == "imported"));
    }
}

/// What is kept of a file of many results grows with it and not with its square.
#[test]
fn each_line_of_many_keeps_itself_only() {
    let many = BONNIE_2.repeat(500);
    let found = parse(&many).expect("results");
    assert_eq!(found.len(), 500);
    assert_eq!(found.iter().map(|imported| imported.text.len()).sum::<usize>(), many.len());
    let one = found.into_iter().next_back().expect("the last");
    assert_eq!(session(one, "id".to_owned(), "0", UnixTime(1)).experiment_text, BONNIE_2);
    assert_eq!(only(FIO_3).text, FIO_3);
}

/// Ten thousand jobs of one name: looking through all names for each, and that from the first number on, would be
/// some 10^12 comparisons.
#[test]
fn many_jobs_of_one_name_are_told_apart() {
    let one = only(FIO_2).measured.remove(0);
    let mut measured = vec![one; 10_000];
    measured[1].workload.name = "random-read-3".to_owned();
    tell_apart(&mut measured);
    let names: Vec<&str> = measured.iter().map(|m| m.workload.name.as_str()).collect();
    assert_eq!(names[..4], ["random-read", "random-read-3", "random-read-2", "random-read-4"]);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
}

/// One job of fio's JSON, with `error`, `options` and what it did.
fn fio_job(error: u32, options: &str, directions: &str) -> String {
    format!(
        "{{\n \"fio version\" : \"fio-3.33\", \"timestamp\" : 9, \"jobs\" : [ {{ \"jobname\" : \"a\", \"error\" : {error},\n \
         \"job options\" : {{ {options} }}, {directions} }} ]\n}}\n"
    )
}

fn way(name: &str, ops: u64, bs: u64) -> String {
    let bytes = ops * bs;
    format!(
        "\"{name}\" : {{ \"io_bytes\" : {bytes}, \"io_kbytes\" : {}, \"iops\" : 1.0, \"runtime\" : 1000, \"total_ios\" : {ops}, \
         \"clat_ns\" : {{ \"max\" : 9000, \"percentile\" : {{ \"50.000000\" : 1000, \"99.900000\" : 2000 }} }} }}",
        bytes / 1024
    )
}

#[test]
fn a_run_that_failed_is_told_as_one() {
    let text =
        format!("fio: pid=1, err=28/file:x\n{}", fio_job(28, "\"rw\" : \"write\"", &way("write", 65, 65536)));
    let found = only(&text);
    let failed = found.failed.clone().expect("it failed");
    assert!(failed.contains("job a ended with error 28: No space left on device"), "{failed}");
    assert!(found.notes.iter().any(|note| note.starts_with("the run failed")), "{:?}", found.notes);
    let session = session(found, "id".to_owned(), "0", UnixTime(1));
    assert_eq!(session.meta.ending, Ending::Failed(failed.clone()));
    assert_eq!(session.trials[0].outcome, Outcome::Failed(failed));
    let nothing = parse(&fio_job(5, "", &way("read", 0, 4096))).expect_err("nothing was read").to_string();
    assert!(nothing.contains("error 5: Input/output error"), "{nothing}");
}

/// With --status-interval each document counts from the beginning.
#[test]
fn of_several_documents_the_last_counts() {
    let at = |ops| fio_job(0, "\"rw\" : \"randread\"", &way("read", ops, 4096));
    let text = format!("{}fio: a warning\n{}{}", at(100), at(200), at(300));
    let found = only(&text);
    assert_eq!(found.measured[0].samples.array.read.count.ops, 300);
    assert!(found.notes[0].starts_with("fio wrote 3 results"), "{:?}", found.notes);
    let cut = format!("{}{}", at(100), &at(200)[..150]);
    let found = only(&cut);
    assert_eq!(found.measured[0].samples.array.read.count.ops, 100);
    assert!(found.notes[0].contains("was cut off"), "{:?}", found.notes);
}

/// `fio a.fio >> all.json`, once and again.
#[test]
fn runs_one_after_the_other_are_each_imported() {
    let at = |name: &str, ended: u64, elapsed: u64, ops: u64| {
        let text = fio_job(
            0,
            "\"rw\" : \"randread\"",
            &format!("\"elapsed\" : {elapsed}, {}", way("read", ops, 4096)),
        );
        text.replace("\"timestamp\" : 9", &format!("\"timestamp\" : {ended}"))
            .replace("\"a\"", &format!("\"{name}\""))
    };
    let text = [
        at("a", 1000, 10, 100),
        at("a", 1010, 20, 200),
        "fio: a warning\n".to_owned(),
        at("a", 1100, 20, 300),
        at("b", 1102, 22, 400),
    ]
    .concat();
    let found = parse(&text).expect("results");
    let ops: Vec<u64> = found.iter().map(|run| run.measured[0].samples.array.read.count.ops).collect();
    assert_eq!(ops, [200, 300, 400]);
    assert!(found[0].notes[0].starts_with("fio wrote 2 results"), "{:?}", found[0].notes);
    assert_eq!((found[1].notes.len(), found[2].notes.len()), (0, 0));
    assert_eq!(found.iter().map(|run| run.text.as_str()).collect::<String>(), text, "each has its own part");
}

/// What mails and terminals do to a result.
#[test]
fn results_are_read_whatever_their_way_here_did_to_them() {
    for plain in [FIO_2, FIO_3, BONNIE_1, BONNIE_2] {
        let figures = |text: &str| -> Vec<Option<f64>> {
            let found = parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            found
                .iter()
                .flat_map(|run| &run.measured)
                .map(|job| metric(&job.samples, Metric::Throughput))
                .collect()
        };
        let front =
            |text: &str, mark: &str| text.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
        let hard: String = plain
            .lines()
            .map(|line| {
                let characters: Vec<char> = line.chars().collect();
                characters.chunks(80).map(|part| part.iter().collect::<String>() + "\n").collect::<String>()
            })
            .collect();
        let colours =
            plain.replace("1.9", "\u{1b}[1m1.9\u{1b}[0m").replace("\"jobs\"", "\u{1b}[34m\"jobs\"\u{1b}[0m");
        let quotes = plain.replace('"', "\u{201c}");
        for text in [front(plain, "> "), front(plain, "12:00:01 "), front(&hard, ">> "), colours, quotes] {
            assert_eq!(figures(&text), figures(plain), "{text}");
        }
    }
}

#[test]
fn other_forms_of_fio_are_refused_as_what_they_are() {
    let terse = format!("3;fio-3.33;a;0;0;{}\n", "1;".repeat(120));
    let people =
        "a: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=psync, iodepth=1\nfio-3.33\n  read: IOPS=100\n";
    for (text, form) in [
        (terse.as_str(), "terse"),
        (people, "for people"),
        ("Run status group 0 (all jobs):\n", "for people"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(form) && error.contains("--output-format=json"), "{error}");
    }
}

#[test]
fn reads_and_writes_that_fio_tells_together_are_both() {
    let text = fio_job(
        0,
        "\"rw\" : \"randrw\", \"rwmixread\" : \"70\", \"iodepth\" : \"8\"",
        &way("mixed", 1000, 4096),
    );
    let found = only(&text);
    let job = &found.measured[0];
    let array = &job.samples.array;
    assert_eq!((array.read.count.ops, array.write.count.ops), (700, 300));
    assert_eq!(array.read.count.bytes + array.write.count.bytes, 4_096_000);
    assert_eq!((job.workload.mix, job.workload.iodepth), (Mix::Mixed { read_percent: 70 }, 8));
    assert!(job.samples.notes[0].contains("unified_rw_reporting"), "{:?}", job.samples.notes);
    near(value(job, Metric::Iops), 1000.0);
    let writes = only(&fio_job(0, "\"rw\" : \"write\"", &way("mixed", 10, 4096)));
    assert_eq!(writes.measured[0].workload.mix, Mix::Write);
}

/// fio 3.33, `group_reporting`: a randrw of two jobs at depth 16 and a log, told as one with the log's options.
#[test]
fn the_options_of_a_groups_last_job_are_not_those_of_all() {
    let depths = "\"job_runtime\" : 3000, \"iodepth_level\" : { \"1\" : 4.5, \"16\" : 95.5 }";
    let both = format!("{depths}, {}, {}", way("read", 400, 16384), way("write", 500, 15000));
    let text = fio_job(0, "\"rw\" : \"write\", \"bs\" : \"4k\", \"iodepth\" : \"1\"", &both);
    let found = only(&text);
    let workload = &found.measured[0].workload;
    assert_eq!((workload.iodepth, workload.numjobs), (16, 3));
    assert!(workload.bs > Bytes(15_000), "{:?}", workload.bs);
    assert!(found.notes.iter().any(|note| note.contains("group_reporting")), "{:?}", found.notes);
    // A job and its clones are one group too, and their options are right.
    let own = format!("\"job_runtime\" : 2000, {}", way("write", 500, 4096));
    let options = "\"rw\" : \"write\", \"bs\" : \"4k\", \"numjobs\" : \"2\"";
    let found = only(&fio_job(0, options, &own));
    assert_eq!((found.measured[0].workload.numjobs, found.notes.len()), (2, 0), "{:?}", found.notes);
    // Without it each clone has its own entry.
    let own = format!("\"job_runtime\" : 1000, {}", way("write", 500, 4096));
    assert_eq!(only(&fio_job(0, options, &own)).measured[0].workload.numjobs, 1);
}

/// At 1000 operations the slowest is beyond p99.9.
#[test]
fn percentiles_that_fio_gave_come_back_at_their_ranks() {
    let found = only(&fio_job(0, "\"rw\" : \"read\"", &way("read", 1000, 4096)));
    let latency = &found.measured[0].samples.array.read.latency;
    assert_eq!((latency.percentile(50.0), latency.percentile(99.9)), (Some(1000), Some(2000)));
    assert_eq!(latency.buckets().last().map(|bucket| bucket.count), Some(1));
}

/// Made up in the layout of 1.03, whose line has no version.
#[test]
fn bonnie_1_03_begins_with_the_machine() {
    let text = "box,4G,50000,90,100000,20,40000,8,48000,85,90000,9,250.0,1,16,5000,90,+++++,+++,6000,95,5100,91,+++++,+++,5900,94\n";
    let found = only(text);
    assert_eq!(
        (found.program.as_str(), found.hostname.as_deref(), found.size),
        ("bonnie++-1.03", Some("box"), Some(Bytes(4 << 30)))
    );
    let of = |name: &str| found.measured.iter().find(|m| m.workload.name == name).expect("the test");
    for (name, kib) in [
        ("putc", 50_000.0),
        ("write", 100_000.0),
        ("rewrite", 40_000.0),
        ("getc", 48_000.0),
        ("read", 90_000.0),
    ] {
        near(value(of(name), Metric::Throughput), kib * 1024.0);
    }
    near(value(of("seeks"), Metric::Iops), 250.0);
    assert!(found.notes.iter().any(|note| note.contains("many files")), "{:?}", found.notes);
    let chunk = only(&text.replace("4G", "1024M:64k"));
    let read = chunk.measured.iter().find(|m| m.workload.name == "read").expect("the test");
    assert_eq!((chunk.size, read.workload.bs), (Some(Bytes(1 << 30)), Bytes(64 << 10)));
    let cut = text.trim_end().rsplit_once(',').expect("fields").0;
    assert_eq!(parse(cut), Err(ImportError::Unknown));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,300}") {
        let _ = parse(&text);
    }

    /// A byte of a real result replaced, or its end cut off: an error or a session, and that can be analysed.
    #[test]
    fn no_damage_makes_it_panic(which in 0..4_usize, at in any::<prop::sample::Index>(), with in "[0-9e,+{}\\-\"a.]{0,12}", cut in any::<bool>()) {
        let whole = [FIO_2, FIO_3, BONNIE_1, BONNIE_2][which];
        let at = at.index(whole.len());
        prop_assume!(whole.is_char_boundary(at));
        let text = if cut { format!("{}{with}", &whole[..at]) } else { format!("{}{with}{}", &whole[..at], &whole[at..]) };
        for imported in parse(&text).unwrap_or_default() {
            let session = session(imported, "id".to_owned(), "0", UnixTime(1));
            let _ = analyse(&session);
        }
    }
}
