//! Values of canaries as bytes.
//!
//! A single value is a number of four bytes (IEEE 754). A value that stands for many is a logarithm in steps of 0.1%, so that it is right
//! to 0.05% in two bytes, from 1e-9 to 2.8e19; zero is zero. Columns of those (places, counts, medians as differences from one to the
//! next, how far the extremes are from them), low bytes before high ones, are deflated.

use ebbtide_model::monitor::Measure;

/// First byte of what is packed.
const VERSION: u8 = 1;
/// Level of deflate, 0 to 10.
const LEVEL: u8 = 6;
/// Most bytes that a row may unpack to.
const LARGEST: usize = 1 << 20;
/// Logarithm of a step.
const STEP: f64 = 0.001;
/// What the first step stands for.
const LEAST: f64 = 1e-9;
/// Columns of a cell.
const COLUMNS: usize = 5;

/// What is known of one span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Which span of its row.
    pub place: u16,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Values that it stands for; 65,535 stands for more too.
    pub count: u32,
}

/// The values of one pass; what is not finite or below 0 is left out.
pub fn singles(values: &[(Measure, f64)]) -> Vec<u8> {
    let counts = values.iter().filter(|(_, value)| value.is_finite() && *value >= 0.0);
    counts
        .flat_map(|(measure, value)| {
            let [a, b, c, d] = (*value as f32).to_le_bytes();
            [measure.number(), a, b, c, d]
        })
        .collect()
}

/// The measures of one pass by their numbers, and their values.
pub fn single(data: &[u8]) -> impl Iterator<Item = (u8, f64)> + '_ {
    data.as_chunks::<5>().0.iter().filter_map(|[measure, a, b, c, d]| {
        let value = f64::from(f32::from_le_bytes([*a, *b, *c, *d]));
        (value.is_finite() && value >= 0.0).then_some((*measure, value))
    })
}

/// The step that is nearest to `value`.
fn code(value: f64) -> u16 {
    if value > 0.0 { ((value / LEAST).ln() / STEP).round().clamp(0.0, 65_534.0) as u16 + 1 } else { 0 }
}

/// What a step stands for.
fn value(code: u16) -> f64 {
    if code == 0 { 0.0 } else { LEAST * (f64::from(code - 1) * STEP).exp() }
}

/// Small numbers of either sign as small ones, modulo 2^16.
fn zigzag(difference: u16) -> u16 {
    let signed = difference.cast_signed();
    (signed.wrapping_shl(1) ^ (signed >> 15)).cast_unsigned()
}

fn unzigzag(coded: u16) -> u16 {
    (coded >> 1) ^ 0u16.wrapping_sub(coded & 1)
}

pub fn pack(cells: &[Cell]) -> Vec<u8> {
    let mut columns: [Vec<u16>; COLUMNS] = Default::default();
    let (mut place, mut median) = (0, 0);
    for cell in cells {
        let middle = code(cell.median);
        let row = [
            cell.place.wrapping_sub(place),
            u16::try_from(cell.count).unwrap_or(u16::MAX),
            zigzag(middle.wrapping_sub(median)),
            middle.saturating_sub(code(cell.min)),
            code(cell.max).saturating_sub(middle),
        ];
        (place, median) = (cell.place, middle);
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    let bytes = columns.iter().flat_map(|column| {
        let low = column.iter().map(|value| value.to_le_bytes()[0]);
        low.chain(column.iter().map(|value| value.to_le_bytes()[1]))
    });
    let plain: Vec<u8> = bytes.collect();
    let mut packed = vec![VERSION];
    packed.extend(miniz_oxide::deflate::compress_to_vec(&plain, LEVEL));
    packed
}

/// # Errors
/// What is wrong with `packed`, which was not packed here.
pub fn unpack(packed: &[u8]) -> Result<Vec<Cell>, String> {
    let Some((&VERSION, deflated)) = packed.split_first() else {
        return Err("values of a canary are in a form that this version does not know".to_owned());
    };
    let plain = miniz_oxide::inflate::decompress_to_vec_with_limit(deflated, LARGEST)
        .map_err(|error| format!("values of a canary: {error}"))?;
    let rows = plain.len() / (2 * COLUMNS);
    if plain.len() != rows * 2 * COLUMNS {
        return Err("values of a canary end early".to_owned());
    }
    let at = |column: usize, row: usize| {
        let low = column * 2 * rows + row;
        u16::from_le_bytes([plain[low], plain[low + rows]])
    };
    let (mut place, mut median) = (0u16, 0u16);
    let cell = |row| {
        place = place.wrapping_add(at(0, row));
        median = median.wrapping_add(unzigzag(at(2, row)));
        Cell {
            place,
            count: at(1, row).into(),
            median: value(median),
            min: value(median.saturating_sub(at(3, row))),
            max: value(median.saturating_add(at(4, row))),
        }
    };
    Ok((0..rows).map(cell).collect())
}
