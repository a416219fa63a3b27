//! What a word that nobody knows was probably meant to be.

/// The candidate that `name` was probably meant to be: at most one letter in four, and one, are wrong.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .map(|(_, candidate)| candidate)
}

/// "write `a`" when one of `choices` is near, otherwise "write one of a, b, c".
pub fn choose(name: &str, choices: &[&str]) -> String {
    match nearest(name, choices.iter().copied()) {
        Some(choice) => format!("write `{choice}`"),
        None => format!("write one of {}", choices.join(", ")),
    }
}
