//! Cells in columns, however long one of them is: the formatter's own widths end at 65,535 and count characters.

use super::{one_line, width};

/// A cell that is wider than this has a longer line; the other rows do not wait for it.
const WIDEST: usize = 60;
/// Blanks between columns.
const GAP: &str = "  ";

/// `text`, and blanks up to `columns` columns of a terminal.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", blanks(text, columns))
}

/// Blanks up to `columns` columns of a terminal, and `text`.
pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", blanks(text, columns))
}

fn blanks(text: &str, columns: usize) -> String {
    " ".repeat(columns.saturating_sub(width(text)))
}

/// What a column of `cells` is wide.
pub fn column_width<'a>(cells: impl Iterator<Item = &'a str>) -> usize {
    cells.map(width).filter(|width| *width <= WIDEST).max().unwrap_or(0)
}

/// `rows` as lines that begin with `indent` blanks, each with its end. Cells are escaped.
pub fn columns<Row: AsRef<[String]>>(rows: &[Row], indent: usize) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.as_ref().iter().map(|cell| one_line(cell).into_owned()).collect())
        .collect();
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..most)
        .map(|column| column_width(rows.iter().filter_map(|row| row.get(column)).map(String::as_str)))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width)).collect();
        text.push_str(format!("{}{}", " ".repeat(indent), cells.join(GAP)).trim_end());
        text.push('\n');
    }
    text
}
