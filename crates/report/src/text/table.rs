//! A table that fits: columns that do not are told below their row.

use super::wrap::paragraph;
use ebbtide_model::shown::{Paint, Styled, one_line, width};

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub(crate) fn new(text: &str, paint: Paint) -> Self {
        Cell { text: one_line(text).into_owned(), paint }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Paint::Plain)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Rows below a header. The first column is never moved.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

const INDENT: usize = 2;
const GAP: usize = 2;

impl Table {
    fn column_width(&self, column: usize) -> usize {
        self.rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| width(&cell.text))
            .chain(self.header.get(column).map(|text| width(text)))
            .max()
            .unwrap_or(0)
    }

    /// Columns that the first `columns` columns of the table take.
    fn width_of(&self, columns: usize) -> usize {
        INDENT + (0..columns).map(|c| self.column_width(c)).sum::<usize>() + GAP * columns.saturating_sub(1)
    }

    /// Whether the whole table fits.
    pub(super) fn fits(&self, columns: usize) -> bool {
        self.width_of(self.header.len()) <= columns
    }

    /// The lines of the table in at most `columns` columns, as far as its first column allows.
    pub(super) fn lines(&self, columns: usize, color: bool) -> Vec<Styled> {
        let kept = (1..=self.header.len()).rev().find(|&n| self.width_of(n) <= columns).unwrap_or(1);
        let header: Vec<Cell> =
            self.header.iter().take(kept).map(|text| Cell::new(text, Paint::Faint)).collect();
        let mut lines = vec![self.line(&header, kept, color)];
        for row in &self.rows {
            lines.push(self.line(row, kept, color));
            let told: Vec<String> = self
                .header
                .iter()
                .zip(row)
                .skip(kept)
                .filter(|(_, cell)| !cell.text.is_empty())
                .map(|(name, cell)| format!("{name}: {}", cell.text))
                .collect();
            if !told.is_empty() {
                let blanks = " ".repeat(INDENT + 2);
                lines.extend(paragraph(&told.join(", "), &blanks, 0, columns, (Paint::Plain, color)));
            }
        }
        lines
    }

    fn line(&self, cells: &[Cell], kept: usize, color: bool) -> Styled {
        let mut line = Styled::plain(&" ".repeat(INDENT));
        for (column, cell) in cells.iter().take(kept).enumerate() {
            line = line.then(&cell.paint.apply(&cell.text, color));
            if column + 1 < kept.min(cells.len()) {
                let pad = self.column_width(column).saturating_sub(width(&cell.text)) + GAP;
                line = line.then(&" ".repeat(pad).into());
            }
        }
        line.trim_end()
    }
}
