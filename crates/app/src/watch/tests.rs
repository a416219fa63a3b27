//! The picture at two sizes, keys, and lines, over made-up counters of the recorded guest's array.

use super::keys::{Mode, Screen, press};
use super::*;
use ebbtide_model::observe::host::HostCounters;
use ebbtide_model::shown::is_control;
use ebbtide_model::units::Nanos;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// An array of four members that move 10 MB/s each in both directions; the third holds its requests twelve times as
/// long. Sixty seconds of history, the last one twice as busy.
fn array() -> Watch {
    let mut watch = Watch::default();
    let members = ["nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"];
    let shown = |name: &str, depth| Shown { name: name.into(), label: name.into(), depth };
    watch.topology.shown = std::iter::once(shown("md0", 0)).chain(members.map(|m| shown(m, 1))).collect();
    watch.topology.shown.push(shown("vda", 0));
    watch.topology.groups = vec![("md0".into(), members.map(String::from).to_vec())];
    watch.span = Duration::from_secs(1);
    let host = |stat: &str, vmstat: &str| HostCounters::parse(stat, vmstat);
    watch.host = host("cpu  1250 0 800 7000 500 30 20 400\n", "pswpin 5\npswpout 300\n")
        .rates(Nanos::from_secs(1), 4096);
    let mut n = 0;
    for second in 0..60u64 {
        n += if second == 59 { 400 } else { 100 + second };
        let line = |minor, name, ops: u64, wait: u64| {
            let (sectors, ms) = (ops * 128, ops * wait);
            format!(
                "259 {minor} {name} {ops} {ops} {sectors} {ms} {ops} 0 {sectors} {ms} 3 {} {} 7 0 56 1 {second} 4\n",
                second * 900,
                2 * ms
            )
        };
        let mut text = line(0, "md0", n * 4, 4);
        for (minor, name) in members.iter().enumerate() {
            text += &line(minor as u64 + 1, name, n, if minor == 2 { 48 } else { 4 });
        }
        text += &format!("254 0 vda {second} 0 {second} 0 0 0 0 0 0 0 0\n254 16 vdb 0 0 0 0 0 0 0 0 0 0 0\n");
        watch.table.update(&text, Nanos::from_secs(second));
        watch.judge();
    }
    watch
}

fn picture(watch: &Watch, screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| screen::draw(frame, watch, screen, "2026-11-21 14:30:05 UTC")).expect("drawn");
    terminal.backend().to_string()
}

#[test]
fn the_picture_at_80x24() {
    insta::assert_snapshot!(picture(&array(), &Screen::default(), 80, 24));
}

#[test]
fn the_picture_at_200x60() {
    insta::assert_snapshot!(picture(&array(), &Screen::default(), 200, 60));
}

#[test]
fn help_over_the_picture() {
    let screen = Screen { mode: Mode::Help, ..Screen::default() };
    insta::assert_snapshot!(picture(&array(), &screen, 80, 24));
}

#[test]
fn any_size_can_be_drawn() {
    let watch = array();
    for (width, height) in [(1, 1), (19, 2), (20, 3), (40, 4), (79, 8), (121, 6), (300, 5)] {
        picture(&watch, &Screen { mode: Mode::Help, scroll: 99, ..Screen::default() }, width, height);
    }
    picture(&Watch::default(), &Screen::default(), 80, 24);
}

#[test]
fn keys_sort_filter_freeze_and_quit() {
    let (mut watch, mut screen) = (array(), Screen::default());
    let mut type_keys = |keys: &[KeyCode], watch: &mut Watch| {
        keys.iter().for_each(|key| press(KeyEvent::from(*key), &mut screen, watch));
        screen.clone()
    };
    type_keys(&[KeyCode::Char('s'), KeyCode::Char('s'), KeyCode::Char('s')], &mut watch);
    assert_eq!((watch.sort, watch.rows()[0].label, watch.rows()[0].depth), (Sort::Await, "nvme2n1", 0));
    type_keys(
        &[KeyCode::Char('/'), KeyCode::Char('n'), KeyCode::Char('v'), KeyCode::Char('q'), KeyCode::Backspace],
        &mut watch,
    );
    assert_eq!((watch.filter.as_str(), watch.rows().len()), ("nv", 4));
    let after = type_keys(&[KeyCode::Enter, KeyCode::Char('u'), KeyCode::Char(' ')], &mut watch);
    assert_eq!((after.mode, after.frozen, watch.unit, after.quit), (Mode::Table, true, Unit::Mebi, false));
    assert!(type_keys(&[KeyCode::Char('q')], &mut watch).quit);
}

#[test]
fn a_new_filter_begins_empty_and_one_without_a_match_says_so() {
    let (mut watch, mut screen) = (array(), Screen::default());
    let mut type_keys = |keys: &str, watch: &mut Watch| {
        keys.chars().for_each(|key| press(KeyEvent::from(KeyCode::Char(key)), &mut screen, watch));
        press(KeyEvent::from(KeyCode::Enter), &mut screen, watch);
    };
    type_keys("/vda", &mut watch);
    assert_eq!((watch.filter.as_str(), watch.nothing_to_show()), ("vda", None));
    type_keys("/zzz", &mut watch);
    assert_eq!(watch.filter, "zzz");
    assert!(picture(&watch, &Screen::default(), 80, 24).contains("no device name contains `zzz`"));
    assert!(plain::table(&watch).contains("`zzz`"));
}

#[test]
fn names_drive_neither_the_screen_nor_the_table() {
    let mut watch = array();
    let hostile = "x\u{1b}[2J\u{9b}A\u{202e}\ny";
    watch.topology.shown[0].label = hostile.to_owned();
    watch.topology.groups[0].0 = hostile.to_owned();
    for width in [40, 80, 200] {
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).expect("a terminal");
        terminal.draw(|frame| screen::draw(frame, &watch, &Screen::default(), "now")).expect("drawn");
        let cells = &terminal.backend().buffer().content;
        assert!(cells.iter().all(|cell| !cell.symbol().contains(is_control)), "{width}");
    }
    assert!(picture(&watch, &Screen::default(), 200, 24).contains("x\\x1b[2J"));
    assert!(plain::table(&watch).contains("\nx\\x1b[2J\\u009bA\\u202e\\ny"), "{}", plain::table(&watch));
}

/// Everything that the outlier's figures say is on the screen, however narrow.
#[test]
fn the_reason_of_an_outlier_is_not_cut() {
    let mut watch = array();
    let long = "a-volume-group-with-a-long-name-and-its-logical-volume";
    watch.topology.groups[0].0 = long.to_owned();
    let standing = watch.standing.remove("md0").expect("judged");
    watch.standing.insert(long.to_owned(), standing);
    let picture = picture(&watch, &Screen::default(), 80, 24);
    let lines: Vec<&str> = picture.lines().map(|l| l.trim_matches('"').trim()).collect();
    let whole = lines.join(" ");
    let sentence = plain::sentence(&watch.outliers()[0]);
    assert!(sentence.contains("queue") && whole.contains(&sentence), "{sentence}\n{picture}");
}

#[test]
fn devices_that_never_did_anything_are_shown_on_demand() {
    let mut watch = array();
    watch.topology.shown.push(Shown { name: "vdb".into(), label: "vdb".into(), depth: 0 });
    assert_eq!(watch.rows().len(), 6);
    watch.idle = true;
    assert_eq!(watch.rows().len(), 7);
}

#[test]
fn lines_for_people_and_programs() {
    let watch = array();
    insta::assert_snapshot!(plain::table(&watch));
    let value = plain::to_json(&watch, 1e9);
    assert_eq!(value["devices"][3]["device"], "nvme2n1");
    assert_eq!(value["devices"][3]["rates"]["read"]["per_second"], 400.0);
    assert_eq!(value["devices"][3]["rates"]["read"]["await_ms"], 48.0);
    assert_eq!(value["outliers"][0]["outlier"]["name"], "nvme2n1");
    let csv = plain::csv(&watch, 1e9);
    let columns = plain::CSV_HEADER.split(',').count();
    let reader = csv.lines().filter(|l| !l.contains('"'));
    assert!(reader.clone().count() == 5 && reader.clone().all(|l| l.split(',').count() == columns), "{csv}");
}

#[test]
fn a_report_since_boot_says_so() {
    let mut watch = array();
    watch.since_boot = true;
    let mut first = |minutes: u64| {
        watch.span = Duration::from_secs(minutes * 60 + 59);
        plain::table(&watch).lines().next().map(str::to_owned).unwrap_or_default()
    };
    assert_eq!(first(7), "means since boot, 7 min ago");
    assert_eq!(first(82), "means since boot, 1 h 22 min ago");
    assert_eq!(first(3000), "means since boot, 2 d 2 h ago");
    assert!(
        picture(&watch, &Screen::default(), 80, 24).contains("means since boot, 2 d 2 h ago  sorted by tree")
    );
}

#[test]
fn bars_scale_to_the_largest_shown() {
    assert_eq!(screen::sparkline(&[Some(0.0), None, Some(50.0), Some(100.0)], 6), "  ▁ ▅█");
    assert_eq!(screen::sparkline(&[Some(900.0), Some(1.0), Some(2.0)], 2), "▅█");
    assert_eq!(screen::sparkline(&[], 3), "   ");
}
