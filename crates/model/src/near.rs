//! What a word that nobody knows was probably meant to be.

/// The candidate that `name` was probably meant to be: at most one letter in four, and one, are wrong.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let near = |candidate: &'a str| {
        let most = 1 + candidate.chars().count() / 4;
        Some((distance(&lower, &candidate.to_lowercase(), most)?, candidate))
    };
    candidates
        .into_iter()
        .filter_map(near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters of two words differ (Damerau and Levenshtein); nothing where more than `most` do. Words of very different lengths are not
/// compared, which would take as many steps as the product of their lengths.
pub(crate) fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    if one.chars().count().abs_diff(other.chars().count()) > most {
        return None;
    }
    Some(strsim::damerau_levenshtein(one, other)).filter(|distance| *distance <= most)
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
