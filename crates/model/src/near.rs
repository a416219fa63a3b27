//! What a word that nobody knows was probably meant to be.

/// Letters of a word that are compared: more are nobody's slip, and take as many steps as both words have letters, multiplied.
const COMPARED: usize = 64;

/// The candidate that `name` was probably meant to be: at most one letter in four, and one, are wrong.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .map(|(_, candidate)| candidate)
}

/// How many letters of `name` are wrong, missing, too many or swapped (Damerau and Levenshtein), whether small or large.
pub(crate) fn distance(name: &str, candidate: &str) -> usize {
    let name: String = name.chars().take(COMPARED).collect();
    strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase())
}

/// "write `a`" when one of `choices` is near, otherwise "write one of a, b, c".
pub fn choose(name: &str, choices: &[&str]) -> String {
    match nearest(name, choices.iter().copied()) {
        Some(choice) => format!("write `{choice}`"),
        None => format!("write one of {}", choices.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_in_four_may_be_wrong_and_one_more() {
        assert_eq!(nearest("Chunk_sice", ["layout", "chunk_size"]), Some("chunk_size"));
        assert_eq!(nearest("rwa", ["raw", "rate"]), Some("raw"));
        assert_eq!(nearest("members", ["layout", "chunk"]), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), ["layout"]), None);
    }
}
