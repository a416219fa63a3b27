//! Cells in columns, however long one of them is: the formatter's own widths end at 65,535 and count characters.

use super::{one_line, width};
use std::borrow::Cow;

/// A cell that is wider than this has a longer line; the other rows do not wait for it.
const WIDEST: usize = 60;
/// What separates two columns.
const GAP: &str = "  ";

/// `rows` as lines that begin with `indent` blanks, each with its end. Cells are escaped.
pub fn columns<Row: AsRef<[String]>>(rows: &[Row], indent: usize) -> String {
    aligned(rows, indent, &[])
}

/// The same; in the columns numbered in `right`, from 0, cells stand at the right, as numbers do.
pub fn aligned<Row: AsRef<[String]>>(rows: &[Row], indent: usize, right: &[usize]) -> String {
    let rows: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.as_ref().iter().map(|cell| one_line(cell)).collect()).collect();
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| {
        let widths = rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
        widths.filter(|width| *width <= WIDEST).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..most).map(width_of).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, most))| {
            let blanks = " ".repeat(most.saturating_sub(width(cell)));
            if right.contains(&column) { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
        });
        let cells: Vec<String> = cells.collect();
        text.push_str(format!("{}{}", " ".repeat(indent), cells.join(GAP)).trim_end());
        text.push('\n');
    }
    text
}
