//! What changes in a text, as people read it.

/// Lines around a change.
const AROUND: usize = 3;

/// The change from `old` to `new` of the file called `name`, as `diff -u` shows it; empty where there is none. Changes that are apart are
/// shown as one with what is between them.
pub fn diff(name: &str, old: Option<&str>, new: Option<&str>) -> String {
    if old == new {
        return String::new();
    }
    let lines = |text: Option<&str>| -> Vec<String> {
        text.unwrap_or_default().split_inclusive('\n').map(str::to_owned).collect()
    };
    let (before, after) = (lines(old), lines(new));
    let same = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
    let rest = before[same..].iter().rev().zip(after[same..].iter().rev());
    let tail = rest.take_while(|(old, new)| old == new).count();
    let from = same.saturating_sub(AROUND);
    let (end_old, end_new) = (before.len() - tail, after.len() - tail);
    let last = (end_old + AROUND).min(before.len());
    let mut text = format!(
        "--- {}\n+++ {}\n@@ -{} +{} @@\n",
        if old.is_some() { name } else { "/dev/null" },
        if new.is_some() { name } else { "/dev/null" },
        range(from, last - from),
        range(from, end_new - from + last - end_old),
    );
    let mut add = |sign: char, lines: &[String]| {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    add(' ', &before[from..same]);
    add('-', &before[same..end_old]);
    add('+', &after[same..end_new]);
    add(' ', &before[end_old..last]);
    text
}

fn range(from: usize, count: usize) -> String {
    // An empty range is named by the line before it.
    format!("{},{count}", if count == 0 { from } else { from + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_what_is_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let new = "1\n2\n3\n4\nnew\n5\n6\n7\n8\n";
        assert_eq!(
            diff("/etc/f", Some(old), Some(new)),
            "--- /etc/f\n+++ /etc/f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+new\n 5\n 6\n 7\n"
        );
        assert_eq!(diff("/etc/f", None, Some("a\n")), "--- /dev/null\n+++ /etc/f\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(
            diff("/etc/f", Some("a"), None),
            "--- /etc/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"
        );
        assert_eq!(diff("/etc/f", Some("a"), Some("a")), "");
    }
}
