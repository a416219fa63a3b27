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
    assert_eq!(reports.reports.len(), 2);
    let vda = &reports.reports[1].devices[1];
    assert_eq!(
        (vda.reads, vda.write_bytes, vda.queue, vda.util),
        (Some(1000.0), Some(4_096_000.0), Some(1.5), Some(0.4))
    );
    assert!((vda.wait().expect("a wait") - 1.0).abs() < 1e-9, "weighted by requests");
    assert_eq!(reports.reports[1].devices[0].wait(), None, "an idle device has no wait");
    let explanation = explain(&reports, &[], false);
    assert_eq!((explanation.reports, explanation.first_left_out), (1, true));
}

#[test]
fn human_units_and_split_tables() {
    let reports = parse(HUMAN).expect("a report");
    assert_eq!(reports.reports.len(), 1);
    let vda = &reports.reports[0].devices[1];
    assert_eq!((vda.device.as_str(), vda.reads, vda.util), ("vda", Some(3270.9), Some(3.7 / 100.0)));
    assert_eq!(vda.read_bytes, Some(15.3 * 1_048_576.0));
}

#[test]
fn json_of_sysstat() {
    let text = r#"{"sysstat": {"hosts": [{"nodename": "vm", "statistics": [
        {"avg-cpu": {"user": 1.0}, "disk": [{"disk_device": "vde", "r/s": 1.42, "w/s": 0.60, "rkB/s": 28.07, "wkB/s": 228.65,
          "r_await": 1.57, "w_await": 3.13, "aqu-sz": 0.00, "util": 0.29}]}]}]}}"#;
    let reports = parse(text).expect("a report");
    assert_eq!(reports.reports[0].devices[0].write_await, Some(3.13));
    assert_eq!(reports.reports[0].devices[0].read_bytes, Some(28.07 * 1024.0));
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
        // As requests that come at random keep it busy.
        let util = 100.0 * (1.0 - (-queue).exp());
        text += &format!("{name} {reads:.2} {kb:.2} {wait:.2} 0.00 0.00 0.00 {queue:.2} {util:.2}\n");
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
        assert_eq!(parse(text).expect("is one").reports, expected.reports, "{text}");
    }
}

/// A report of `iostat -x` as sysstat 12 has it: the second disk is slow.
fn slow_second() -> String {
    let mut text = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           1.00    0.00    2.00   30.00    0.00   67.00\n\n\
        Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz  aqu-sz  %util\n"
        .to_owned();
    for (name, wait, queue, util) in
        [("sda", 0.4, 0.32, 30.5), ("sdb", 30.25, 24.2, 100.0), ("sdc", 0.4, 0.32, 30.5)]
    {
        text += &format!(
            "{name:<15}{:8.2} {:9.2}     0.00   0.00 {wait:7.2} {:8.2}    0.00      0.00     0.00   0.00    0.00     0.00 {queue:7.2} {util:6.2}\n",
            812.0, 103_936.0, 128.0
        );
    }
    text
}

/// Breaks each line after at most `width` characters, at a blank or within words.
fn broken(text: &str, width: usize, at_blanks: bool, indent: &str) -> String {
    let mut broken = String::new();
    for line in text.lines() {
        let mut rest = line.to_owned();
        while rest.len() > width {
            let at = rest[..width].rfind(' ').filter(|at| at_blanks && *at > indent.len()).unwrap_or(width);
            broken += &(rest[..at].to_owned() + "\n");
            rest =
                if at_blanks { indent.to_owned() + rest[at..].trim_start() } else { rest[at..].to_owned() };
        }
        broken += &(rest + "\n");
    }
    broken
}

/// What mails, tickets and terminals do to a log; also together.
#[test]
fn a_log_is_read_whatever_its_way_here_did_to_it() {
    let plain = format!("Linux 6.1.0 (db1) \t11/29/26 \t_x86_64_\t(8 CPU)\n\n{0}\n{0}\n", slow_second());
    let expected = parse(&plain).expect("reports").reports;
    let each = |text: &str, change: &dyn Fn(&str) -> String| {
        text.lines().map(|line| change(line) + "\n").collect::<String>()
    };
    let front = |mark: &str| each(&plain, &|line| format!("{mark}{line}"));
    let mut ways = vec![
        plain.replace('\n', "\r\n"),
        plain.replace('\n', "\r\r\n"),
        plain.replace('\n', "\r"),
        plain.replace('\n', "\n\n"),
        plain.replace(' ', "\u{a0}"),
        plain.replace('\n', " "),
        plain.split([' ', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("\t"),
        plain.replace("sdb ", "\u{1b}[1;31msdb\u{1b}[0m ").replace("30.25", "\u{1b}[33m30.25\u{1b}[0m"),
        plain.replace("sdb ", "^[[31msdb^[[0m ").replace("30.25", "[33m30.25[0m"),
        plain.replace("sdb ", "<-- look: sdb "),
        plain.replace("100.00\n", "100.00  <-- 30 ms!\n"),
        plain.replace("100.00\n", "100.00  - slow\n").replace("sdb ", "*sdb* "),
        plain.replace("Device", "Périphérique:"),
        plain.replace('.', ",").replace("6,1,0", "6.1.0"),
        plain.replace("  ", "&nbsp; "),
        plain.replace("avg-cpu", "11/29/26 12:00:01 PM\navg-cpu"),
        format!("root@db1:~# iostat -x 1 2\n{plain}^C\nroot@db1:~# "),
        format!("{{noformat}}\n{plain}{{noformat}}\n"),
        format!(
            "Hi all,\n\nsdb needs 30 ms for a read, and 2 others 0.4:\n\n```\n{plain}```\nBob  12:04 PM\n(2 replies)\n"
        ),
        broken(&plain, 75, false, "")
            .lines()
            .fold(String::new(), |text, line| text + line + if line.len() == 75 { "=\n" } else { "\n" }),
        plain.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(";") + "\n").collect(),
        plain.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(",") + "\n").collect(),
    ];
    for mark in [
        "> ",
        ">> > ",
        ">",
        "| ",
        "> | ",
        "12:00:01 ",
        "Nov 29 12:00:01 ",
        "1795835853.123456 ",
        "    12\t",
        "[2026-11-29 12:00:01,123] ",
        "2026-11-29T12:00:01.123456789Z ",
        "Nov 29 12:00:01 db1 iostat[812]: ",
        "db-1  | ",
        "29.11.2026 12:00:01 ",
    ] {
        ways.push(front(mark));
    }
    for width in [72, 80, 100, 132] {
        for indent in ["", "    "] {
            ways.push(broken(&plain, width, true, indent));
        }
        ways.push(broken(&plain, width, false, ""));
        for mark in ["> ", ">> > ", "12:00:01 "] {
            for at_blanks in [true, false] {
                ways.push(each(&broken(&plain, width, at_blanks, ""), &|line| format!("{mark}{line}")));
            }
            ways.push(broken(&front(mark), width, true, ""));
        }
    }
    let table = |border: &str, head: &str, rule: bool| {
        each(&plain, &|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let border = if line.starts_with("Device") { head } else { border };
            let rule = if rule && line.starts_with("Device") {
                "\n|".to_owned() + &":---:|".repeat(words.len())
            } else {
                String::new()
            };
            format!("{border} {} {border}{rule}", words.join(&format!(" {border} ")))
        })
    };
    ways.extend([table("|", "|", true), table("|", "||", false), table("│", "│", false)]);
    ways.push(each(&table("|", "|", true), &|line| format!("> {line}")));
    for text in &ways {
        assert_eq!(parse(text).map(|log| log.reports), Ok(expected.clone()), "{text}");
    }
}

/// What is lost is said.
#[test]
fn what_is_skipped_of_a_log_is_said() {
    let plain = slow_second();
    let notes = |text: &str| parse(text).expect("a report").notes;
    assert_eq!(notes(&plain), [""; 0]);
    assert_eq!(
        notes(&plain.replace("sdb", "<-- sdb")),
        ["text in front of 1 row is skipped, as `<--` before sdb"]
    );
    for short in [plain.replace("30.25", "..."), plain.replace(" 100.00\n", "\n")] {
        let said = notes(&short);
        let figures = "13 figures under a header of 14 columns: left out";
        assert!(said[0].starts_with("line 6: `sdb 812.00") && said[0].ends_with(figures), "{said:?}");
    }
    // A last report that is cut off counts for nothing; what is left of a first one is no mean since boot.
    let cut = format!("{plain}\n{}", &plain[..plain.len() - 40]);
    let log = parse(&cut).expect("a report");
    assert_eq!((log.reports.len(), log.notes[0].as_str()), (1, "the last report is cut off: left out"));
    let (_, rows) = plain.split_once("%util\n").expect("a header");
    let log = parse(&format!("{rows}\n{plain}\n{plain}")).expect("reports");
    assert_eq!((log.reports.len(), log.since_boot), (2, false));
    assert!(log.notes[0].starts_with("line 1: figures before the first header"), "{:?}", log.notes);
}

#[test]
fn what_cannot_be_read_says_why() {
    let plain = slow_second();
    let (_, rows) = plain.split_once("%util\n").expect("a header");
    assert_eq!(parse(rows), Err(IostatError::NoHeader { line: 1 }));
    let narrow = plain.replace(" wareq-sz", "");
    assert_eq!(parse(&narrow), Err(IostatError::NoRow { line: 5, figures: 14, columns: 13 }));
    let (processors, _) = plain.split_once("\n\n").expect("a blank line");
    assert_eq!(parse(processors), Err(IostatError::OnlyProcessors));
    let bsd = "extended device statistics\ndevice r/s w/s kr/s kw/s ms/r ms/w ms/o ms/t qlen %b\nada0 1 2 3 4 5 6 7 8 9 10\n";
    assert_eq!(parse(bsd), Err(IostatError::Foreign));
    let busybox =
        "Device:   tps   Blk_read/s   Blk_wrtn/s   Blk_read   Blk_wrtn\nsda  1.00  2.00  3.00  4  5\n";
    assert_eq!(parse(busybox), Err(IostatError::NotExtended));
}

/// Lines of `sar -d` with `afternoon` behind each time, which is of 12 hours then.
fn sar(header: &str, afternoon: &str, names: [&str; 3]) -> String {
    let mut text = format!(
        "Linux 5.15.0 (db1) \t11/29/26 \t_x86_64_\t(8 CPU)\n\n02:00:01{afternoon}          DEV {header}\n"
    );
    let columns = header.split_whitespace().count();
    for (time, rate) in [
        (format!("02:10:01{afternoon}"), 100.0),
        (format!("02:20:01{afternoon}"), 120.0),
        ("Average:".to_owned(), 9e9),
    ] {
        if time == "Average:" {
            text += &format!("\nAverage:          DEV {header}\n");
        }
        for (name, wait) in names.iter().zip([0.5, 40.0, 0.5]) {
            let figures = header.split_whitespace().map(|column| match column {
                "tps" => rate,
                "rkB/s" | "rd_sec/s" => rate * 16.0,
                "await" => wait,
                "aqu-sz" | "avgqu-sz" => rate * wait / 1000.0,
                "%util" => {
                    if wait > 1.0 {
                        99.0
                    } else {
                        5.0
                    }
                }
                _ => 0.0,
            });
            let figures: Vec<String> = figures.map(|figure| format!("{figure:9.2}")).collect();
            assert_eq!(figures.len(), columns);
            text += &format!("{time}  {name:>11} {}\n", figures.join(" "));
        }
    }
    text
}

#[test]
fn sar_of_disks_is_read_with_every_interval_and_without_its_means() {
    let new = "tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util";
    let old = "tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util";
    for (header, unit) in [(new, 1024.0), (old, 512.0)] {
        for afternoon in ["", " PM"] {
            for names in [["sda", "sdb", "sdc"], ["dev8-0", "dev8-16", "dev8-32"]] {
                let text = sar(header, afternoon, names);
                let log = parse(&text).expect("reports");
                assert_eq!(
                    (log.reports.len(), log.since_boot, log.notes.len()),
                    (2, false, 0),
                    "{text}\n{log:?}"
                );
                assert_eq!(log.reports[1].devices[0].read_bytes, Some(1920.0 * unit));
                let explanation = explain(&log, &[], false);
                assert_eq!((explanation.reports, explanation.first_left_out), (2, false));
                assert_eq!(explanation.groups[0].outliers[0].name, names[1]);
            }
        }
    }
    let volumes = ["dev8-0", "dev8-16", "dev9-127"].map(str::to_owned);
    let text = sar(new, "", [&volumes[0], &volumes[1], "dev8-32"]).replace("dev8-32", "dev9-127");
    let halved = text.replace(" 1600.00", " 800.00").replace(" 1920.00", " 960.00");
    let doubled: String = halved
        .lines()
        .map(|line| if line.contains("dev9-127") { line.replace(" 800.00", " 1600.00").replace(" 960.00", " 1920.00") } else { line.to_owned() } + "\n")
        .collect();
    let explanation = explain(&parse(&doubled).expect("reports"), &[], false);
    assert_eq!(explanation.groups[0].grouping, Grouping::AddUp("dev9-127".into()), "{explanation:?}");
}

/// Sums of whole arrays tell whose a disk is, where fewer of other disks would do nearly as well.
#[test]
fn no_disk_is_in_two_arrays() {
    let mut log: Vec<(&str, f64, f64, f64, f64)> = Vec::new();
    ["nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"]
        .iter()
        .for_each(|name| log.push((*name, 665.0, 66_500.0, 0.5, 0.35)));
    ["nvme4n1", "nvme5n1", "nvme6n1", "nvme7n1"]
        .iter()
        .for_each(|name| log.push((*name, 500.0, 50_100.0, 0.5, 0.25)));
    log[6].3 = 40.0;
    log[6].4 = 20.0;
    log.push(("md127", 2660.0, 266_000.0, 0.0, 0.0));
    log.push(("md126", 2000.0, 200_000.0, 0.0, 0.0));
    let explanation = explained(&log);
    let groups: Vec<(Grouping, Vec<&str>)> = explanation
        .groups
        .iter()
        .map(|group| {
            (group.grouping.clone(), group.members.iter().map(|member| member.name.as_str()).collect())
        })
        .collect();
    let expected = [
        (Grouping::AddUp("md127".into()), vec!["nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"]),
        (Grouping::AddUp("md126".into()), vec!["nvme4n1", "nvme5n1", "nvme6n1", "nvme7n1"]),
    ];
    assert_eq!(groups, expected);
    assert_eq!(explanation.groups[0].outliers, []);
    assert_eq!(explanation.groups[1].outliers[0].name, "nvme6n1");
}

/// RAID10 writes each block to two of its members; two arrays of equal load share out the same disks.
#[test]
fn members_that_write_everything_twice_are_one_array() {
    let row = |name: &str, writes: f64, wait: f64| {
        format!("{name} 10.00 160.00 0.50 {writes:.2} {:.2} {wait:.2} 1.00 40.00\n", writes * 16.0)
    };
    let disks = ["sda", "sdb", "sdc", "sdd"].map(|name| row(name, 500.0, 1.0)).concat();
    let head = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n";
    let groupings = |arrays: &str| -> Vec<(Grouping, usize)> {
        let explanation = explain(&parse(&format!("{head}{disks}{arrays}")).expect("a report"), &[], false);
        explanation.groups.into_iter().map(|group| (group.grouping, group.members.len())).collect()
    };
    let one = row("md0", 1000.0, 0.0).replace("10.00 160.00", "40.00 640.00");
    assert_eq!(groupings(&one), [(Grouping::Copies("md0".into()), 4)]);
    let striped =
        ["md0", "md1"].map(|name| row(name, 1000.0, 0.0).replace("10.00 160.00", "20.00 320.00")).concat();
    assert_eq!(groupings(&striped), [(Grouping::AddUp("md0".into()), 2), (Grouping::AddUp("md1".into()), 2)]);
}

#[test]
fn volumes_stand_on_the_array_whose_bytes_they_move() {
    let disks = [
        ("sda", 1500.0, 96_000.0, 0.5, 0.7),
        ("sdb", 1500.0, 96_000.0, 0.5, 0.7),
        ("md0", 3000.0, 192_000.0, 0.0, 0.0),
    ];
    for volumes in [
        vec![("data-db", 3000.0, 192_000.0)],
        vec![("dm-0", 3000.0, 192_000.0)],
        vec![("dm-0", 2000.0, 150_000.0), ("dm-1", 1000.0, 42_000.0)],
    ] {
        let mut log = disks.to_vec();
        log.extend(volumes.iter().map(|(name, requests, kb)| (*name, *requests, *kb, 0.5, 1.0)));
        let explanation = explained(&log);
        assert_eq!(explanation.groups.len(), 1, "{explanation:?}");
        assert_eq!(explanation.groups[0].grouping, Grouping::AddUp("md0".into()));
        let expected = volumes.iter().map(|(name, ..)| ((*name).to_owned(), "md0".to_owned())).collect();
        assert_eq!(explanation.stands_on, expected);
        assert_eq!((explanation.arrays_without_members.len(), explanation.carried_by_one.len()), (0, 0));
    }
}

/// A loop device over a file on the disk beside it.
#[test]
fn a_disk_and_the_loop_device_over_it_are_no_members_of_one_array() {
    let log = [("vda", 800.0, 51_200.0, 1.0, 0.8), ("loop0", 800.0, 51_200.0, 9.0, 7.2)];
    assert_eq!(explained(&log).groups, []);
    let two = [
        ("loop0", 400.0, 25_600.0, 1.0, 0.4),
        ("loop1", 400.0, 25_600.0, 1.0, 0.4),
        ("vda", 800.0, 51_200.0, 0.9, 0.7),
        ("md0", 800.0, 51_200.0, 0.0, 0.0),
    ];
    let members: Vec<String> =
        explained(&two).groups[0].members.iter().map(|member| member.name.clone()).collect();
    assert_eq!(members, ["loop0", "loop1"]);
}

/// Six disks with the same requests, bytes and time at work; two wait longer, as splitting and queueing above them make it.
#[test]
fn who_waits_longer_and_is_busy_no_longer_is_not_condemned() {
    let text = |util: f64| {
        let rows = ["sda", "sdb", "sdc", "sdd", "sde", "sdf"].map(|name| {
            let (wait, queue) = if matches!(name, "sdb" | "sde") { (2.4, 14.4) } else { (0.5, 3.0) };
            let util = if matches!(name, "sdb" | "sde") { util } else { 64.2 };
            format!("{name} 6000.00 24000.00 {wait:.2} 0.00 0.00 0.00 {queue:.2} {util:.2}\n")
        });
        format!("Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n{}", rows.concat())
    };
    for reports in [1, 3] {
        let explanation = explain(&parse(&text(64.2).repeat(reports)).expect("reports"), &[], true);
        let group = &explanation.groups[0];
        assert_eq!(group.outliers, []);
        let names: Vec<&str> = group.spared.iter().map(|spared| spared.name.as_str()).collect();
        assert_eq!(names, ["sdb", "sde"]);
        assert!(
            group.spared[0].because[0].starts_with("it is busy no longer than they are (64.2% of the time"),
            "{group:?}"
        );
    }
    let slow = explain(&parse(&text(99.0)).expect("a report"), &[], true);
    assert_eq!(slow.groups[0].outliers.len(), 2);
}

#[test]
fn a_share_of_the_time_above_all_of_it_is_said_and_not_believed() {
    let text = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n\
                sda 40.00 5000.00 250.00 0.00 0.00 0.00 10.00 138.50\nsdb 40.00 5000.00 260.00 0.00 0.00 0.00 10.40 101.20\n";
    let explanation = explain(&parse(text).expect("a report"), &[], false);
    let utils: Vec<Option<f64>> = explanation.groups[0].members.iter().map(|member| member.util).collect();
    assert_eq!(utils, [None, Some(1.012)]);
    assert!(explanation.notes[0].starts_with("%util is up to 138.5 for sda:"), "{:?}", explanation.notes);
    let states: Vec<State> = explanation.devices.iter().map(|device| device.state).collect();
    assert_eq!(states, [State::Saturated, State::Saturated]);
}

/// A limit shows although the device is not busy all the time.
#[test]
fn the_same_rate_in_every_report_is_told() {
    let reports = |names: &[&str], rates: &[f64]| -> Explanation {
        let report = |rate: &f64| {
            let rows: Vec<_> =
                names.iter().map(|name| (*name, *rate, rate * 16.0, 5.0, rate / 200.0)).collect();
            report(&rows) + "\n"
        };
        explain(&parse(&rates.iter().map(report).collect::<String>()).expect("reports"), &[], true)
    };
    let one = reports(&["sdb"], &[300.0, 300.0, 299.5, 300.0]);
    let device = &one.devices[0];
    assert_eq!((device.state, device.same_rate, device.in_reports), (State::Steady, true, 4));
    assert_eq!(reports(&["sdb"], &[300.0, 280.0, 310.0, 300.0]).devices, []);
    assert_eq!(reports(&["sdb"], &[300.0, 300.0]).devices, [], "two reports may be alike by chance");
    assert_eq!(reports(&["sdb"], &[8.0, 8.0, 8.0]).devices, []);
    // Members have the same rate as their siblings, whatever limits it: it is told of all.
    let two = reports(&["sda", "sdb"], &[300.0, 300.0, 300.0]);
    assert_eq!((two.groups[0].same_rate, two.devices.len()), (Some(300.0), 0));
}

/// Each list of disks is read by itself.
#[test]
fn json_is_read_with_what_is_around_it() {
    let disk = |name: &str, wait: f64| {
        format!(
            "      {{\"disk_device\": \"{name}\", \"r/s\": 812.00, \"rkB/s\": 103936.00, \"r_await\": {wait:.2}, \"w_await\": 0.00, \"aqu-sz\": 0.50, \"util\": 40.00}}"
        )
    };
    let list = format!("{{\"disk\": [\n{},\n{}\n    ]}}", disk("sda", 0.5), disk("sdb", 30.25));
    let plain = format!(
        "{{\"sysstat\": {{\n \"hosts\": [\n {{\"nodename\": \"a\", \"statistics\": [\n{list},\n{list}\n]}}]}}}}\n"
    );
    let expected = parse(&plain).expect("reports").reports;
    assert_eq!(expected[1].devices[1].read_await, Some(30.25));
    let front =
        |text: &str, mark: &str| text.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
    for text in [
        front(&plain, "> "),
        front(&plain, "12:00:01 "),
        front(&broken(&plain, 80, false, ""), "> "),
        plain.replace('"', "\u{201d}"),
        plain.replace("812.00", "812,00").replace("30.25", "30,25"),
        format!("$ iostat -xo JSON 1 2\n{plain}$ "),
        format!("{{code:json}}\n{plain}{{code}}"),
        plain.replace("[\n{\"disk\"", "[\n,\n{\"disk\""),
    ] {
        assert_eq!(parse(&text).map(|log| log.reports), Ok(expected.clone()), "{text}");
    }
    let log = parse(&plain[..plain.len() - 90]).expect("the first");
    assert_eq!((log.reports.as_slice(), log.notes.len()), (&expected[..1], 1), "{:?}", log.notes);
    assert!(matches!(parse(&plain[..150]), Err(IostatError::Damaged(_))));
    let sadf = "{\"sysstat\": {\"hosts\": [{\"statistics\": [{\"disk\": [{\"disk-device\": \"dev8-0\", \"tps\": 5.0, \"rkB\": 80.0, \"await\": 2.0, \"util-percent\": 1.0}]}]}]}}";
    let log = parse(sadf).expect("a report");
    assert_eq!((log.since_boot, log.reports[0].devices[0].read_bytes), (false, Some(81_920.0)));
}

/// sysstat's own fault with `-y`.
#[test]
fn a_comma_that_follows_nothing_is_left_out() {
    let text = r#"{"sysstat": {"hosts": [{"nodename": "a[,\\\",b", "statistics": [
        ,
        {"disk": [{"disk_device": "sda", "r/s": 1.0, "r_await": 0.5, "aqu-sz": 0.5, "util": 40.0}]}]}]}}"#;
    assert_eq!(parse(text).expect("is one").reports[0].devices[0].reads, Some(1.0));
}
