//! What is printed: whatever the text, nothing of it drives a terminal, and JSON stays the same value.
use ebbtide_experiment::{Summary, parse};
use ebbtide_model::shown::{Paint, Styled, columns, escape, is_control, json, one_line};

fn driven(text: &str) -> bool {
    text.replace(['\n', '\t'], "").contains(is_control)
}

pub(crate) fn target(text: &str) {
    assert!(!driven(&escape(text)) && !one_line(text).contains(is_control));
    let value = serde_json::json!({ text: [text] });
    assert!(!driven(&json(&value)));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json(&value)).ok(), Some(value));
    let cells: Vec<String> = text.split(',').map(str::to_owned).collect();
    assert_eq!(columns(&[&cells, &cells], 2).lines().count(), 2);
    let styled = Paint::Bad.apply(text, true).then(&Styled::plain(text)).into_string();
    assert!(!driven(&styled.replace("\u{1b}[31m", "").replace("\u{1b}[0m", "")));
    match parse(text, text) {
        Ok(experiment) => assert!(!driven(&escape(&Summary::new(&experiment).to_string()))),
        Err(errors) => assert!(!driven(&escape(&errors.to_string()))),
    }
}
