//! What the `files` backend refuses, of experiments as they are written.

use ebbtide_model::experiment::Experiment;

fn experiment(layout: &str, rw: &str) -> Experiment {
    let text = format!(
        "name = \"t\"\n[volumes.v]\ncount = 6\nsize = \"8MiB\"\n[designs.d]\n{layout}\n[workloads.w]\nrw = \"{rw}\"\nruntime = \"1s\"\n"
    );
    ebbtide_experiment::parse(&text, "t.toml").expect("parses")
}

#[test]
fn only_writes_to_parity_are_refused() {
    let flat = "layout = \"raid5\"\nmembers = [\"v[0..5]\"]";
    let nested = "layout = \"stripe\"\nmembers = [{ layout = \"raid6\", members = [\"v[0..3]\"] }, \"v4\"]";
    let none = "layout = \"raid10\"\nmembers = [\"v[0..5]\"]";
    for (layout, level) in [(flat, "raid5"), (nested, "raid6")] {
        for rw in ["write", "randrw", "rewrite"] {
            let refusal = experiment(layout, rw).refused_in_user_space();
            assert!(refusal.is_some_and(|why| why.contains(&format!("design d: {level} is not written"))));
        }
        assert_eq!(experiment(layout, "randread").refused_in_user_space(), None);
    }
    assert_eq!(experiment(none, "write").refused_in_user_space(), None);
}
