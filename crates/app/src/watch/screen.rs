//! The picture: header, one row per device with its history, outliers with their figures, keys.

use super::keys::{HELP, Mode, Screen};
use super::plain::{columns, figures, host, maybe, sentence, since_boot};
use super::{Row, Watch};
use ebbtide_model::shown::{is_control, one_line};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

/// Of each of the [`columns`]: from which width of the screen on it is shown, and its own width.
const COLUMNS: [(u16, usize); 14] = [
    (0, 6),
    (0, 6),
    (140, 6),
    (0, 7),
    (120, 6),
    (0, 6),
    (0, 6),
    (140, 6),
    (0, 7),
    (120, 6),
    (160, 6),
    (160, 6),
    (0, 6),
    (0, 5),
];

/// Those of `values`, one for each column, that a screen of `width` has room for.
fn cells(values: impl IntoIterator<Item = String>, width: u16) -> String {
    let shown = values.into_iter().zip(COLUMNS).filter(|(_, (from, _))| *from <= width);
    shown.map(|(value, (_, width))| format!(" {value:>width$}")).collect()
}

/// Narrower bars would show nothing.
const LEAST_SPARK: usize = 4;
/// On a lower screen the lines of the host are left out.
const LEAST_HEIGHT_FOR_HOST: u16 = 10;

/// Draws everything. `clock` is the time of day.
pub fn draw(frame: &mut Frame<'_>, watch: &Watch, screen: &Screen, clock: &str) {
    compose(frame, watch, screen, clock);
    // Whatever the picture is made of, no cell of it drives the terminal.
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().contains(is_control) {
            cell.set_symbol("\u{fffd}");
        }
    }
}

fn compose(frame: &mut Frame<'_>, watch: &Watch, screen: &Screen, clock: &str) {
    let area = frame.area();
    if area.height < 3 || area.width < 20 {
        frame.render_widget("too small", area);
        return;
    }
    let outliers = watch.outliers();
    let width = usize::from(area.width);
    let mut remarks: Vec<String> =
        outliers.iter().take(3).flat_map(|r| wrapped(&format!("! {}", sentence(r)), width)).collect();
    // Half of the screen is for devices.
    remarks.truncate(usize::from(area.height / 2).saturating_sub(1));
    let frozen = if screen.frozen { "  FROZEN" } else { "" };
    let over = since_boot(watch).unwrap_or_else(|| format!("every {:.3} s", watch.span.as_secs_f64()));
    let title = format!(" ebb watch  {over}  sorted by {}{frozen}", <&str>::from(watch.sort));
    let gap = width.saturating_sub(title.chars().count());
    frame.render_widget(
        Line::styled(format!("{title}{:>gap$}", format!("{clock} ")), Style::new().reversed()),
        row(area, 0),
    );
    let rows = watch.rows();
    let name_width = rows.iter().map(|r| name(r).chars().count()).max().unwrap_or(0).clamp(8, 20);
    let headers = cells(columns(watch), area.width);
    let spark = width.saturating_sub(name_width + 1 + headers.chars().count() + 1);
    // A low screen is for devices.
    let host = if area.height >= LEAST_HEIGHT_FOR_HOST { host(watch) } else { Vec::new() };
    for (at, line) in host.iter().enumerate() {
        frame.render_widget(Line::raw(format!(" {line}")), row(area, 1 + at as u16));
    }
    let top = 1 + host.len() as u16;
    let mut header = format!("{:name_width$} {headers}", "DEVICE");
    if spark >= LEAST_SPARK {
        header.push_str(&format!(" {}", truncated(watch.unit.of().0, spark)));
    }
    frame.render_widget(Line::styled(header, Style::new().add_modifier(Modifier::BOLD)), row(area, top));
    let space = usize::from(area.height.saturating_sub(2 + top)).saturating_sub(remarks.len());
    let first = screen.scroll.min(rows.len().saturating_sub(space));
    for (at, device) in rows.iter().skip(first).take(space).enumerate() {
        let outlier = outliers.iter().any(|r| r.outlier.name == device.entry.name);
        let unit = watch.unit.of().1;
        let values = device.entry.rates.as_ref().map_or([None; 14], |rates| figures(rates, unit));
        let mark = if outlier { '!' } else { ' ' };
        let mut line = format!("{:name_width$}{mark}", truncated(&name(device), name_width));
        line.push_str(&cells(values.map(maybe), area.width));
        if spark >= LEAST_SPARK {
            let history: Vec<Option<f64>> = device.entry.history.iter().copied().collect();
            line.push_str(&format!(" {}", sparkline(&history, spark)));
        }
        let style = if outlier { Style::new().fg(Color::Red) } else { Style::new() };
        frame.render_widget(Line::styled(line, style), row(area, 1 + top + at as u16));
    }
    if let Some(why) = watch.nothing_to_show().filter(|_| space > 0) {
        frame.render_widget(Line::raw(format!(" {why}")), row(area, 1 + top));
    }
    let first_remark = area.height - 1 - remarks.len() as u16;
    for (at, line) in remarks.into_iter().enumerate() {
        frame.render_widget(
            Line::styled(line, Style::new().fg(Color::Red)),
            row(area, first_remark + at as u16),
        );
    }
    frame.render_widget(footer(watch, screen, rows.len(), first, space), row(area, area.height - 1));
    if screen.mode == Mode::Help {
        help(frame, area);
    }
}

fn row(area: Rect, y: u16) -> Rect {
    Rect { x: area.x, y: area.y + y, width: area.width, height: 1 }
}

fn name(device: &Row<'_>) -> String {
    format!("{}{}", " ".repeat(device.depth), one_line(device.label))
}

fn truncated(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// The newest `width` values as bars, the newest at the right, scaled to the largest of them; a blank for no data.
pub fn sparkline(history: &[Option<f64>], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let newest = &history[history.len().saturating_sub(width)..];
    let most = newest.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |value: &Option<f64>| match value {
        Some(v) if most > 0.0 => BARS[((v / most * 7.0).round() as usize).min(7)],
        Some(_) => BARS[0],
        None => ' ',
    };
    let mut text = " ".repeat(width.saturating_sub(newest.len()));
    text.extend(newest.iter().map(bar));
    text
}

/// Lines of at most `width` characters, broken at blanks; lines after the first begin with two blanks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn footer(watch: &Watch, screen: &Screen, rows: usize, first: usize, space: usize) -> Line<'static> {
    if screen.mode == Mode::Filter {
        return Line::raw(format!(" filter: {}_   (Enter keeps it, Esc clears it)", watch.filter));
    }
    let mut text = " q quit  s sort  u unit  / filter  i idle  space freeze  ? help".to_owned();
    if !watch.filter.is_empty() {
        text.push_str(&format!("  filter: {}", watch.filter));
    }
    if rows > space {
        text.push_str(&format!("  {}-{} of {rows}", first + 1, (first + space).min(rows)));
    }
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> =
        HELP.iter().map(|(key, what)| Line::raw(format!(" {key:9} {what} "))).collect();
    let width = lines.iter().map(|l| l.width() as u16).max().unwrap_or(0) + 2;
    let height = lines.len() as u16 + 2;
    let size = area.centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, size);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), size);
}
