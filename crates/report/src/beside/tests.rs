use super::*;
use ebbtide_analysis::TrialSummary;
use ebbtide_analysis::between::Gate;
use ebbtide_formats::import;
use ebbtide_model::session::Session;
use ebbtide_model::units::UnixTime;

const FIO: &str = include_str!("../../../formats/src/import/recorded/fio-3.33.txt");
const BONNIE: &str = include_str!("../../../formats/src/import/recorded/bonnie-2.00.csv");

fn imported(text: &str, id: &str) -> Session {
    let first = import::parse(text).unwrap().remove(0);
    import::session(first, id.to_owned(), "0.1.0", UnixTime(1_000_000_000_000))
}

fn figures(session: &Session) -> Vec<TrialSummary> {
    session.trials.iter().map(|record| TrialSummary::of(&session.experiment, record)).collect()
}

fn asked(tables: &[Vec<String>]) -> CompareRequest {
    CompareRequest { tables: tables.to_vec(), metrics: Vec::new(), indifference: 0.02, threshold: 0.05 }
}

fn of(tables: &[Vec<String>]) -> Result<Beside, BesideError> {
    let sessions = [imported(FIO, "one"), imported(BONNIE, "two")];
    let trials = sessions.each_ref().map(figures);
    let sides =
        [0, 1].map(|side| ComparedSession { session: &sessions[side], trials: &trials[side], design: None });
    Beside::new(&sides, &asked(tables))
}

#[test]
fn workloads_of_other_names_are_compared_only_when_asked() {
    let plain = of(&[]).unwrap();
    assert!(plain.rows.is_empty(), "fio's and bonnie++'s names differ: {plain:?}");
    assert_eq!(plain.gate(), Gate::Undecided, "what compares nothing does not pass");
    assert!(plain.remarks.iter().any(|r| r.contains("in A but not in B")), "{:?}", plain.remarks);
    let asked = of(&[vec!["seqread".to_owned(), "getc".to_owned()]]).unwrap();
    let [iops, p99] = asked.rows.as_slice() else { panic!("{asked:?}") };
    assert_eq!((iops.metric, p99.metric), (Metric::Iops, Metric::LatP99));
    assert_eq!(iops.workloads, ["seqread", "getc"]);
    let median = |side: usize| iops.estimates[side].unwrap().median;
    assert!((iops.answered.ratio.unwrap() - median(1) / median(0)).abs() < 1e-9, "one trial each");
    assert_eq!((iops.answered.interval, iops.answered.gate), (None, Gate::Undecided));
    assert_eq!(p99.answered.ratio, None, "bonnie++ keeps no distribution");
    let [table] = asked.tables.as_slice() else { panic!("{asked:?}") };
    assert!(table.differences.contains(&"bs"), "{:?}", table.differences);
    let json = asked.json();
    assert_eq!(json["tables"][0]["rows"][1]["ratio"], median(1) / median(0));
    assert!(json["tables"][0]["rows"][1]["lat_p50"].is_null());
    assert!(
        json["comparisons"][0]["ci_low"].is_null() && json["comparisons"][0]["conclusion"] == "inconclusive"
    );
}

#[test]
fn what_differs_is_told_with_the_value_of_each() {
    let differs = of(&[]).unwrap().differs;
    let backend = differs.iter().any(|d| d.what == "backend");
    assert!(!backend, "both are imports");
    let experiment = differs.iter().find(|d| d.what == "experiment").unwrap();
    assert!(experiment.values[0].as_ref().unwrap().contains("fio"), "{experiment:?}");
}

#[test]
fn what_nobody_has_is_named() {
    let error = of(&[vec!["seqraed".to_owned()]]).unwrap_err().to_string();
    assert!(error.contains("`seqraed`") && error.contains("seqread"), "{error}");
    let session = imported(FIO, "one");
    let trials = figures(&session);
    let sides = |designs: [Option<&'static str>; 2]| {
        designs.map(|design| ComparedSession { session: &session, trials: &trials, design })
    };
    let error = Beside::new(&sides([None, None]), &asked(&[])).unwrap_err().to_string();
    assert!(error.contains("named already"), "{error}");
    let error = Beside::new(&sides([None, Some("stripe")]), &asked(&[])).unwrap_err().to_string();
    assert!(error.contains("no design `stripe`") && error.contains("imported"), "{error}");
}
