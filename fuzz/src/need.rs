//! Need files: a mistake has its place, and what is understood has designs that are orders and experiments.
use ebbtide_experiment::{NoFiles, NoTrace, parse_need, parse_with};
use ebbtide_model::catalog::Catalog;
use ebbtide_plan::{candidates, experiment, short_of};

pub(crate) fn target(text: &str) {
    let catalog = Catalog::builtin();
    let need = match parse_need(text, "need.toml", catalog, &|_, _| Err(NoTrace::File("none".to_owned()))) {
        Ok(need) => need,
        Err(errors) => {
            assert!(!errors.errors.is_empty() && !errors.to_string().is_empty());
            return;
        }
    };
    let (all, _) = candidates(&need, catalog);
    let fit = all.iter().filter(|candidate| short_of(candidate, &need).is_empty());
    for candidate in fit.take(2) {
        let text = experiment(candidate, &need);
        let parsed = parse_with(&text, "plan.toml", catalog, &NoFiles);
        assert!(
            parsed.is_ok(),
            "{text}\n{}",
            parsed.map_or_else(|errors| errors.to_string(), |_| String::new())
        );
    }
}
