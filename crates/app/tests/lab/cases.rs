//! What a guest's script says of its cases: lines `CASE NAME status STATUS WORDS`, and `all` at its end.

/// Name, and status with words, of every case of a script that has come to its end.
pub fn cases(output: &str) -> Vec<(String, String)> {
    assert!(output.trim_end().ends_with("all"), "{output}");
    let case = |line: &str| {
        let (name, said) = line.strip_prefix("CASE ")?.split_once(" status ")?;
        Some((name.to_owned(), said.to_owned()))
    };
    output.lines().filter_map(case).collect()
}

/// Each of `wanted` (name, status, some of the words) is among what was told.
pub fn check(told: &[(String, String)], wanted: &[(&str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (name, status, words) in wanted {
        let said = told.iter().find(|(case, _)| case == name).map_or("nothing was said", |(_, said)| said);
        if !(said.starts_with(&format!("{status} ")) && said.contains(words)) {
            wrong.push(format!("{name}: expected {status} and {words:?}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
