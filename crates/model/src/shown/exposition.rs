//! Figures for Prometheus and what reads the same.
//!
//! Gauges alone are the same in both of its formats, the one that node_exporter's textfile collector and `promtool check metrics` read
//! (text format 0.0.4) and OpenMetrics 1.0, which ends with `# EOF`, a comment in the other.

use std::fmt::Write;

/// A sample's labels, the names as Prometheus has them, and its value.
pub type Sample<'a> = (&'a [(&'a str, &'a str)], f64);

/// A text of gauges.
#[derive(Debug, Clone, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Adds the gauge `name`, which ends with its unit; nothing where there are no samples.
    pub fn gauge<'a>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample<'a>>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            let _ = write!(self.0, "# HELP {name} {}\n# TYPE {name} gauge\n", escaped(help));
        }
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", quoted(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{labels} {}", number(value));
        }
    }

    /// The whole text of the exposition.
    pub fn finish(self) -> String {
        self.0 + "# EOF\n"
    }
}

/// A value, as both formats have those that are no numbers.
fn number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

/// A label's value: backslash, quote and line feed are escaped (OpenMetrics 1.0, 3.2).
fn quoted(value: &str) -> String {
    escaped(value).replace('"', "\\\"")
}

/// A help text: backslash and line feed are.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gauges_are_written_line_by_line() {
        let mut text = Exposition::default();
        text.gauge("a_seconds", "Of \\ all\nkinds.", [(&[("volume", "a\"b\\c\nd"), ("x", "")][..], 0.25)]);
        text.gauge("b", "One.", [(&[][..], f64::INFINITY)]);
        text.gauge("none", "Nothing.", []);
        let expected = "# HELP a_seconds Of \\\\ all\\nkinds.\n# TYPE a_seconds gauge\n\
             a_seconds{volume=\"a\\\"b\\\\c\\nd\",x=\"\"} 0.25\n# HELP b One.\n# TYPE b gauge\nb +Inf\n# EOF\n";
        assert_eq!(text.finish(), expected);
    }

    /// The value that a label in quotes stands for, sign by sign.
    fn read(quoted: &str) -> String {
        let mut signs = quoted.chars();
        let mut value = String::new();
        while let Some(sign) = signs.next() {
            value.push(match sign {
                '\\' => match signs.next() {
                    Some('n') => '\n',
                    Some(other) => other,
                    None => panic!("ends with a backslash"),
                },
                '"' | '\n' => panic!("{sign:?} stands alone"),
                other => other,
            });
        }
        value
    }

    proptest! {
        #[test]
        fn labels_read_back(value in "[a\\\\\"\n n{},=é]{0,12}") {
            prop_assert_eq!(read(&quoted(&value)), value);
        }
    }
}
