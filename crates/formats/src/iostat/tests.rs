//! Recorded reports of several versions and forms, and the published slow member.

use super::*;
use ebbtide_analysis::observe::outlier::Difference;
use proptest::prelude::*;

/// studies/slow-member-iostat.csv in the form that iostat -x -m printed then.
const SLOW_MEMBER: &str = "\
Linux 2.6.21.7-2.fc8xen (ip-10-250-18-111) \t06/09/2009

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           0.05    0.00    0.40   12.05    0.02   87.48

Device:         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s avgrq-sz avgqu-sz   await  svctm  %util
md0               0.00     0.00    0.00  615.20     0.00    25.42    84.63     0.00    0.00   0.00   0.00
sdi1              0.00     0.06    0.00  307.41     0.00    12.71    84.67   148.55  483.20   3.25 100.02
sdi2              0.00     0.04    0.00  307.60     0.00    12.71    84.61    10.49   34.10   1.19  36.67
";

/// sysstat 12.6, two reports; a device that did nothing in the second.
const NEW: &str = "\
Linux 6.18.44 (vm) \t11/21/26 \t_x86_64_\t(2 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          12.60   45.95    8.11    1.53    0.08   31.73

Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
loop0         3381.59  13527.78     0.05   0.00    0.15     4.00    0.00      0.82     0.01  75.53    0.13   195.04    0.00     12.05     0.00   0.00    0.00 32768.50    0.00    0.10    0.52   0.55
vda           3271.50  15693.26     6.31   0.19    0.24     4.80  215.53  15229.25    47.55  18.07    0.93    70.66   24.03   8279.79     0.04   0.18    0.26   344.55    1.92    0.30    1.00   3.74

Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
loop0            0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.00   0.00
vda           1000.00   4000.00     0.00   0.00    0.50     4.00  500.00   4000.00     0.00   0.00    2.00     8.00    7.00     28.00     0.00   0.00    0.14     4.00    0.00    0.00    1.50  40.00
";

/// sysstat 12.6 with -h: one report in four tables, units on the figures.
const HUMAN: &str = "\
     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device
 3380.96     13.2M     0.05   0.0%    0.15     4.0k loop0
 3270.90     15.3M     6.31   0.2%    0.24     4.8k vda

     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device
    0.00      0.8k     0.01  75.5%    0.13   195.0k loop0
  215.49     14.9M    47.54  18.1%    0.93    70.7k vda

     f/s f_await  aqu-sz  %util Device
    0.00    0.10    0.52   0.5% loop0
    1.92    0.30    1.00   3.7% vda
";

#[test]
fn the_published_slow_member_is_named_with_the_reason() {
    let explanation = explain(&parse(SLOW_MEMBER).expect("a report"), &[], false);
    assert_eq!(explanation.groups.len(), 1);
    let group = &explanation.groups[0];
    assert_eq!(group.grouping, Grouping::AddUp("md0".into()));
    assert_eq!(group.outliers.len(), 1);
    assert_eq!((group.outliers[0].name.as_str(), group.outliers[0].difference), ("sdi1", Difference::Slow));
    assert!(group.outliers[0].reason().starts_with("await 483 ms against 34.1 ms, queue 149 against 10.5"));
    assert_eq!(group.in_reports, [1]);
}

#[test]
fn figures_of_the_new_form() {
    let reports = parse(NEW).expect("reports");
    assert_eq!(reports.len(), 2);
    let vda = &reports[1].devices[1];
    assert_eq!(
        (vda.reads, vda.write_bytes, vda.queue, vda.util),
        (Some(1000.0), Some(4_096_000.0), Some(1.5), Some(0.4))
    );
    assert!((vda.wait().expect("a wait") - 1.0).abs() < 1e-9, "weighted by requests");
    assert_eq!(reports[1].devices[0].wait(), None, "an idle device has no wait");
    let explanation = explain(&reports, &[], false);
    assert_eq!((explanation.reports, explanation.first_left_out), (1, true));
}

#[test]
fn human_units_and_split_tables() {
    let reports = parse(HUMAN).expect("a report");
    assert_eq!(reports.len(), 1);
    let vda = &reports[0].devices[1];
    assert_eq!((vda.device.as_str(), vda.reads, vda.util), ("vda", Some(3270.9), Some(3.7 / 100.0)));
    assert_eq!(vda.read_bytes, Some(15.3 * 1_048_576.0));
}

#[test]
fn json_of_sysstat() {
    let text = r#"{"sysstat": {"hosts": [{"nodename": "vm", "statistics": [
        {"avg-cpu": {"user": 1.0}, "disk": [{"disk_device": "vde", "r/s": 1.42, "w/s": 0.60, "rkB/s": 28.07, "wkB/s": 228.65,
          "r_await": 1.57, "w_await": 3.13, "aqu-sz": 0.00, "util": 0.29}]}]}]}}"#;
    let reports = parse(text).expect("a report");
    assert_eq!(reports[0].devices[0].write_await, Some(3.13));
    assert_eq!(reports[0].devices[0].read_bytes, Some(28.07 * 1024.0));
}

#[test]
fn members_given_and_unknown_arrays() {
    let text = SLOW_MEMBER.lines().filter(|l| !l.starts_with("md0")).collect::<Vec<_>>().join("\n");
    let reports = parse(&text).expect("a report");
    assert_eq!(explain(&reports, &[], false).groups[0].grouping, Grouping::Assumed);
    assert_eq!(explain(&reports, &[], false).groups[0].outliers[0].name, "sdi1");
    let given = explain(&reports, &["sdi2".into(), "sdi1".into()], false);
    assert_eq!(
        (&given.groups[0].grouping, given.groups[0].outliers[0].name.as_str()),
        (&Grouping::Given, "sdi1")
    );
}

/// A report of the given devices: name, reads per second, kB read per second, await in ms, queue.
fn report(devices: &[(&str, f64, f64, f64, f64)]) -> String {
    let mut text = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n".to_owned();
    for (name, reads, kb, wait, queue) in devices {
        text += &format!("{name} {reads:.2} {kb:.2} {wait:.2} 0.00 0.00 0.00 {queue:.2} 10.00\n");
    }
    text
}

fn explained(devices: &[(&str, f64, f64, f64, f64)]) -> Explanation {
    explain(&parse(&report(devices)).expect("a report"), &[], false)
}

#[test]
fn unrelated_disks_are_no_array() {
    let host = [("sda", 14.0, 300.0, 0.5, 0.01), ("sdb", 700.0, 45_000.0, 1.0, 0.7)];
    assert_eq!(explained(&host).groups, []);
    // Idle devices are all equal, and mean nothing.
    let idle = [("loop0", 0.0, 0.0, 0.0, 0.0), ("loop1", 0.0, 0.0, 0.0, 0.0), ("zram0", 0.0, 0.0, 0.0, 0.0)];
    assert_eq!(explained(&idle).groups, []);
    let one = [idle[0], idle[1], ("vda", 700.0, 45_000.0, 1.0, 0.7)];
    assert_eq!(explained(&one).groups, []);
    // As many bytes in a tenth of the requests is other work.
    let other = [("sda", 70.0, 45_000.0, 3.0, 0.3), ("sdb", 700.0, 45_000.0, 1.0, 0.7)];
    assert_eq!(explained(&other).groups, []);
}

#[test]
fn the_disk_under_a_volume_and_an_idle_one_are_no_members() {
    let log = [
        ("sda3", 700.0, 45_000.0, 1.0, 0.7),
        ("loop0", 2.0, 8.0, 0.1, 0.0),
        ("dm-0", 700.0, 45_000.0, 1.0, 0.7),
    ];
    let explanation = explained(&log);
    assert_eq!(
        (explanation.groups.len(), &explanation.arrays_without_members[..]),
        (0, &["dm-0".to_owned()][..])
    );
}

/// A mirror that reads from its first disk mostly.
#[test]
fn an_array_whose_members_are_not_found_is_told() {
    let log = [
        ("md0", 92.0, 9_000.0, 7.5, 0.7),
        ("vdb", 74.0, 5_000.0, 0.27, 0.02),
        ("vdc", 18.0, 2_000.0, 37.16, 0.67),
    ];
    let explanation = explained(&log);
    assert_eq!(
        (explanation.groups.len(), &explanation.arrays_without_members[..]),
        (0, &["md0".to_owned()][..])
    );
    let reports = parse(&report(&log)).expect("a report");
    let given = explain(&reports, &["vdb".into(), "vdc".into()], false);
    assert_eq!(given.arrays_without_members, Vec::<String>::new());
    assert_eq!((given.groups[0].outliers.len(), given.groups[0].spared[0].name.as_str()), (0, "vdc"));
}

/// iostat on a guest with throttled disks: md0 over vda to vdd under load, while 22 kB/s of 67 MB/s go to a partition.
#[test]
fn a_partition_of_few_bytes_is_no_member_of_an_array() {
    let reports = parse(include_str!("recorded/md0-and-root.txt")).expect("reports");
    let explanation = explain(&reports, &[], false);
    let group = &explanation.groups[0];
    assert_eq!((explanation.groups.len(), &group.grouping), (1, &Grouping::AddUp("md0".into())));
    let names: Vec<&str> = group.members.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["vda", "vdb", "vdc", "vdd"]);
    assert_eq!(group.outliers, []);
}

/// More members than the tolerance has room for one of: leaving one out would add up as well.
#[test]
fn no_member_of_many_is_left_out() {
    let names: Vec<String> = (0..40).map(|i| format!("sd{i:02}x")).collect();
    let mut log: Vec<(&str, f64, f64, f64, f64)> =
        names.iter().map(|name| (name.as_str(), 100.0, 1000.0, 1.0, 0.1)).collect();
    log.push(("md0", 4000.0, 40_000.0, 1.0, 4.0));
    log.push(("sda1", 5.0, 60.0, 1.0, 0.0));
    assert_eq!(explained(&log).groups[0].members.len(), 40);
}

#[test]
fn the_one_device_below_an_array_is_named() {
    let log = [
        ("sdb", 400.0, 25_600.0, 20.0, 8.0),
        ("sdc", 0.0, 0.0, 0.0, 0.0),
        ("md0", 400.0, 25_600.0, 0.0, 0.0),
    ];
    let explanation = explained(&log);
    assert_eq!(explanation.arrays_without_members, ["md0"]);
    assert_eq!(explanation.carried_by_one.get("md0").map(String::as_str), Some("sdb"));
}

/// A disk of a root moves as many bytes in a tenth of the requests.
#[test]
fn the_most_that_are_alike_are_compared() {
    let mut log: Vec<(&str, f64, f64, f64, f64)> =
        ["sda", "sdb", "sdc"].iter().map(|name| (*name, 400.0, 1600.0, 5.0, 2.0)).collect();
    log.push(("sdd", 400.0, 1600.0, 65.0, 26.0));
    log.push(("nvme0n1", 40.0, 1600.0, 0.2, 0.01));
    let explanation = explained(&log);
    let group = &explanation.groups[0];
    assert_eq!((group.grouping.clone(), group.members.len()), (Grouping::Assumed, 4));
    assert_eq!(group.outliers[0].name, "sdd");
    // Its siblings do as many requests: nobody limited its rate.
    assert!(explanation.devices.iter().all(|device| !device.same_rate), "{explanation:?}");
}

/// Few requests in a report are enough of them in all.
#[test]
fn a_slow_device_is_so_in_the_reports_that_show_it() {
    let few = ("sda", 12.0, 120.0, 44.0, 0.6);
    let text = [report(&[few]), report(&[few]), report(&[few])].concat();
    let explanation = explain(&parse(&text).expect("reports"), &[], true);
    let device = &explanation.devices[0];
    assert_eq!((device.state, device.in_reports), (State::Slow, 3), "{device:?}");
}

/// The same guest: vdf alone, held to 150 requests/s with 26 in flight.
#[test]
fn a_full_disk_is_told_by_itself() {
    let reports = parse(include_str!("recorded/saturated.txt")).expect("reports");
    let explanation = explain(&reports, &[], false);
    assert_eq!((explanation.groups.len(), explanation.devices.len()), (0, 1));
    let full = &explanation.devices[0];
    assert_eq!((full.figures.name.as_str(), full.state, full.in_reports), ("vdf", State::Saturated, 4));
    assert!(full.same_rate, "150.00, 150.00, 149.50 and 150.00 requests/s");
    assert!((full.each_ms - 6.67).abs() < 0.05, "{full:?}");
}

/// The same guest: md1 over vdg, vdh and the slow vdl, given beside three that did nothing.
#[test]
fn idle_ones_do_not_hide_the_slow_one() {
    let reports = parse(include_str!("recorded/slow-and-idle.txt")).expect("reports");
    let given = ["vdg", "vdh", "vdl", "vdi", "vdj", "vdk"].map(str::to_owned);
    let group = &explain(&reports, &given, false).groups[0];
    assert_eq!(group.idle, ["vdi", "vdj", "vdk"]);
    let named: Vec<_> = group.outliers.iter().map(|o| (o.name.as_str(), o.difference)).collect();
    assert_eq!((named, group.in_reports.as_slice()), (vec![("vdl", Difference::Slow)], &[4][..]));
    // Without names the array's bytes tell.
    let found = explain(&reports, &[], false);
    assert_eq!(found.groups[0].members.len(), 3);
    assert_eq!(found.groups[0].outliers[0].name, "vdl");
    assert_eq!(found.devices[0].figures.name, "vdl");
    // One of eight that works is the answer, not an exception among idle ones.
    let linear: Vec<(String, f64)> =
        (0..8).map(|i| (format!("sd{i}x"), if i == 2 { 900.0 } else { 0.0 })).collect();
    let log: Vec<_> =
        linear.iter().map(|(name, r)| (name.as_str(), *r, r * 64.0, r / 450.0, r / 500.0)).collect();
    let names: Vec<String> = linear.iter().map(|(name, _)| name.clone()).collect();
    let one = explain(&parse(&report(&log)).expect("a report"), &names, false);
    assert_eq!((one.groups[0].idle.len(), one.groups[0].outliers[0].difference), (0, Difference::Busy));
}

#[test]
fn a_device_by_itself_is_full_never_idle_or_slow() {
    let of = |reports: &[(f64, f64, f64, f64)]| {
        let text: String = reports
            .iter()
            .map(|(requests, wait, queue, util)| {
                format!(
                    "Device r/s rkB/s r_await aqu-sz %util\nnvme0n1 {requests} 4000 {wait} {queue} {util}\n\n"
                )
            })
            .collect();
        let found = explain(&parse(&text).expect("reports"), &[], true).devices;
        found.first().map(|found| (found.state, found.same_rate, found.whatever_queue))
    };
    // Many at once in little time each: full or not, nobody can tell.
    assert_eq!(of(&[(106_000.0, 0.3, 32.0, 100.0)]), Some((State::NeverIdle, false, None)));
    // Twice the queue, and no more requests.
    let ladder = [(99_000.0, 0.15, 16.0, 99.9), (106_000.0, 0.3, 32.0, 100.0), (105_000.0, 0.6, 64.0, 100.0)];
    assert_eq!(of(&ladder), Some((State::Saturated, false, Some((16.0, 64.0)))));
    let more = [(50_000.0, 0.3, 16.0, 99.9), (100_000.0, 0.3, 32.0, 100.0), (190_000.0, 0.33, 64.0, 100.0)];
    assert_eq!(of(&more), Some((State::NeverIdle, false, None)));
    assert_eq!(of(&[(40.0, 25.0, 1.0, 99.0)]), None, "one at a time is never idle, and not full");
    assert_eq!(of(&[(40.0, 31.0, 1.2, 99.0)]), Some((State::Slow, false, None)));
    assert_eq!(of(&[(4.0, 31.0, 0.1, 12.0)]), None, "too few to tell");
    assert_eq!(of(&[(900.0, 0.9, 0.8, 60.0)]), None);
}

#[test]
fn every_report_of_a_log_recorded_with_y_counts() {
    let reports = parse(NEW).expect("reports");
    let explanation = explain(&reports, &[], true);
    assert_eq!((explanation.reports, explanation.first_left_out), (2, false));
}

#[test]
fn a_decimal_comma_is_read() {
    let text = SLOW_MEMBER.replace('.', ",").replace("2,6,21,7-2,fc8xen", "");
    assert_eq!(explain(&parse(&text).expect("a report"), &[], false).groups[0].outliers[0].name, "sdi1");
}

#[test]
fn a_healthy_array_has_no_outlier() {
    let text = SLOW_MEMBER.replace("148.55  483.20   3.25 100.02", " 11.02   35.90   1.20  37.10");
    assert!(explain(&parse(&text).expect("a report"), &[], false).groups[0].outliers.is_empty());
}

#[test]
fn what_is_no_report_says_so() {
    assert_eq!(parse("hello\nworld\n"), Err(IostatError::NoReport));
    assert!(matches!(parse("{\"a\": 1}"), Err(IostatError::Json(_))));
    let plain = "Device             tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn\nvda              12.00      4.00      5.00      6      7\n";
    assert_eq!(parse(plain), Err(IostatError::NotExtended));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(?s)(Device:? |sd[a-c]1? |md0 |r/s |await |avgqu-sz |[0-9.,]{1,6}[kM%é]? |\n|\\{|.){0,60}", member in "sd[a-c]") {
        if let Ok(reports) = parse(&text) {
            let _ = explain(&reports, &[], false);
            let _ = explain(&reports, &[member], false);
        }
    }
}

/// As people paste it: quoted in a mail, behind a time or a mark, as a table of Markdown.
#[test]
fn a_table_is_read_with_what_is_around_it() {
    let plain = "Device r/s w/s rkB/s wkB/s await aqu-sz %util\nsda 1 2 3 4 5 6 7\nsdb 2 2 3 4 25 6 7\n";
    let expected = parse(plain).expect("is one");
    let each =
        |change: &dyn Fn(&str) -> String| plain.lines().map(|line| change(line) + "\n").collect::<String>();
    let quoted = each(&|line| format!("> {line}"));
    let twice = each(&|line| format!(">> {line}"));
    let timed =
        each(&|line| if line.starts_with('D') { format!("   {line}") } else { format!("12:00:01 {line}") });
    let marked = plain.replace("sdb", "--> sdb");
    let said = plain.replace("sdb", "this one: sdb");
    let table = each(&|line| {
        let rule = if line.starts_with('D') { "\n|---|:---:|:---:|--:|---|---|---|---|" } else { "" };
        format!("| {} |{rule}", line.replace(' ', " | "))
    });
    for text in [&quoted, &twice, &timed, &marked, &said, &table] {
        assert_eq!(parse(text).expect("is one"), expected, "{text}");
    }
}

/// sysstat's own fault with `-y`.
#[test]
fn a_comma_that_follows_nothing_is_left_out() {
    let text = r#"{"sysstat": {"hosts": [{"nodename": "a[,\\\",b", "statistics": [
        ,
        {"disk": [{"disk_device": "sda", "r/s": 1.0, "r_await": 0.5, "aqu-sz": 0.5, "util": 40.0}]}]}]}}"#;
    assert_eq!(parse(text).expect("is one")[0].devices[0].reads, Some(1.0));
}
