//! The picture: header, one row per device with its history, outliers with their figures, keys.

use super::keys::{HELP, Mode, Screen};
use super::plain::{host, maybe, number, sentence, since_boot};
use super::{Row, Watch};
use ebbtide_analysis::observe::rates::DiskRates;
use ebbtide_model::shown::{is_control, one_line};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

/// A column: its header, its width, and from which screen width on it is shown.
struct Column {
    header: fn(&Watch) -> String,
    width: usize,
    from: u16,
    value: fn(&DiskRates, f64) -> String,
}

const fn fixed(
    width: usize,
    from: u16,
    header: fn(&Watch) -> String,
    value: fn(&DiskRates, f64) -> String,
) -> Column {
    Column { header, width, from, value }
}

fn kib(bytes: Option<f64>) -> String {
    maybe(bytes.map(|b| b / 1024.0))
}

const COLUMNS: &[Column] = &[
    fixed(6, 0, |_| "r/s".into(), |r, _| number(r.read.per_second)),
    fixed(6, 0, |w| format!("r{}", w.unit.of().0), |r, unit| number(r.read.bytes_per_second / unit)),
    fixed(7, 0, |_| "r_await".into(), |r, _| maybe(r.read.await_ms)),
    fixed(6, 120, |_| "rareq".into(), |r, _| kib(r.read.request_bytes)),
    fixed(6, 140, |_| "rrqm/s".into(), |r, _| number(r.read.merged_per_second)),
    fixed(6, 0, |_| "w/s".into(), |r, _| number(r.write.per_second)),
    fixed(6, 0, |w| format!("w{}", w.unit.of().0), |r, unit| number(r.write.bytes_per_second / unit)),
    fixed(7, 0, |_| "w_await".into(), |r, _| maybe(r.write.await_ms)),
    fixed(6, 120, |_| "wareq".into(), |r, _| kib(r.write.request_bytes)),
    fixed(6, 140, |_| "wrqm/s".into(), |r, _| number(r.write.merged_per_second)),
    fixed(6, 160, |_| "d/s".into(), |r, _| maybe(r.discard.map(|d| d.per_second))),
    fixed(6, 160, |_| "f/s".into(), |r, _| maybe(r.flush_per_second)),
    fixed(6, 0, |_| "aqu-sz".into(), |r, _| number(r.queue)),
    fixed(5, 0, |_| "%util".into(), |r, _| number(r.util * 100.0)),
];

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
    frame.render_widget(
        Line::styled(title(watch, screen, clock, area.width), Style::new().reversed()),
        row(area, 0),
    );
    let columns: Vec<&Column> = COLUMNS.iter().filter(|c| c.from <= area.width).collect();
    let rows = watch.rows();
    let name_width = rows.iter().map(|r| name(r).chars().count()).max().unwrap_or(0).clamp(8, 20);
    let figures: usize = columns.iter().map(|c| c.width + 1).sum();
    let spark = usize::from(area.width).saturating_sub(name_width + 1 + figures + 1);
    // A low screen is for devices.
    let host = if area.height >= LEAST_HEIGHT_FOR_HOST { host(watch) } else { Vec::new() };
    for (at, line) in host.iter().enumerate() {
        frame.render_widget(Line::raw(format!(" {line}")), row(area, 1 + at as u16));
    }
    let top = 1 + host.len() as u16;
    let header = header(watch, &columns, name_width, spark);
    frame.render_widget(Line::styled(header, Style::new().add_modifier(Modifier::BOLD)), row(area, top));
    let space = usize::from(area.height.saturating_sub(2 + top)).saturating_sub(remarks.len());
    let first = screen.scroll.min(rows.len().saturating_sub(space));
    for (at, device) in rows.iter().skip(first).take(space).enumerate() {
        let outlier = outliers.iter().any(|r| r.outlier.name == device.entry.name);
        let line = device_line(watch, device, &columns, name_width, spark, outlier);
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

fn title(watch: &Watch, screen: &Screen, clock: &str, width: u16) -> String {
    let frozen = if screen.frozen { "  FROZEN" } else { "" };
    let over = since_boot(watch).unwrap_or_else(|| format!("every {:.3} s", watch.span.as_secs_f64()));
    let left = format!(" ebb watch  {over}  sorted by {}{frozen}", watch.sort.label());
    let right = format!("{clock} ");
    let gap = usize::from(width).saturating_sub(left.chars().count() + right.chars().count());
    format!("{left}{}{right}", " ".repeat(gap))
}

fn header(watch: &Watch, columns: &[&Column], name_width: usize, spark: usize) -> String {
    let mut text = format!("{:name_width$} ", "DEVICE");
    for column in columns {
        text.push_str(&format!(" {:>width$}", (column.header)(watch), width = column.width));
    }
    if spark >= 4 {
        text.push_str(&format!(" {}", truncated(watch.unit.of().0, spark)));
    }
    text
}

fn device_line(
    watch: &Watch,
    device: &Row<'_>,
    columns: &[&Column],
    name_width: usize,
    spark: usize,
    outlier: bool,
) -> String {
    let mark = if outlier { '!' } else { ' ' };
    let mut text = format!("{:name_width$}{mark}", truncated(&name(device), name_width));
    for column in columns {
        let value =
            device.entry.rates.as_ref().map_or("-".to_owned(), |r| (column.value)(r, watch.unit.of().1));
        text.push_str(&format!(" {value:>width$}", width = column.width));
    }
    if spark >= 4 {
        text.push(' ');
        let history: Vec<Option<f64>> = device.entry.history.iter().copied().collect();
        text.push_str(&sparkline(&history, spark));
    }
    text
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
    let size = Rect {
        x: area.x + area.width.saturating_sub(width) / 2,
        y: area.y + area.height.saturating_sub(height) / 2,
        width: width.min(area.width),
        height: height.min(area.height),
    };
    frame.render_widget(Clear, size);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), size);
}
