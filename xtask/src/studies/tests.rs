//! The committed pages are what the simulator gives, and what they claim holds.

use super::*;

#[test]
fn the_pages_are_what_the_command_writes_and_every_prediction_is_within_15_percent() {
    let rows = std::thread::scope(|scope| {
        let studies = NAMES.map(|name| (name, scope.spawn(move || compare(name))));
        studies.map(|(name, rows)| (name, rows.join().expect("no panic").expect("compares")))
    });
    for (name, rows) in rows {
        let path = root().join(format!("docs/studies/{name}.md"));
        let page = read(&path).expect("has a page");
        let written = between(&page, "studies", None, &table(&rows)).expect("has markers");
        assert!(written == page, "docs/studies/{name}.md is out of date: run cargo xtask studies");
        assert!(rows.iter().any(|row| row.figure.role == Role::Predicted), "{name} predicts nothing");
        for row in rows.iter().filter(|row| row.figure.role == Role::Predicted) {
            assert!((row.ratio() - 1.0).abs() <= WITHIN, "{name}: {row:?}");
        }
        for row in rows.iter().filter(|row| row.figure.role == Role::Fitted) {
            assert!((row.ratio() - 1.0).abs() <= 0.05, "{name}: a fitted row is missed: {row:?}");
        }
    }
}

#[test]
fn a_wrong_file_of_figures_is_told_where() {
    let line = |role: &str, unit: &str| {
        format!(
            "# source\nconfiguration,design,workload,unit,share,published,role,note\nx,d,w,{unit},1,5,{role},\n"
        )
    };
    assert_eq!(published::parse(&line("fitted", "MB/s"), "f").map(|f| f[0].values.clone()), Ok(vec![5e6]));
    assert!(
        published::parse(&line("guessed", "MB/s"), "f").expect_err("role").starts_with("f:3: unknown role")
    );
    assert!(published::parse(&line("fitted", "MB"), "f").expect_err("unit").contains("unknown unit"));
    assert!(published::parse(&line("missed", "MB/s"), "f").expect_err("note").contains("needs a note"));
}
