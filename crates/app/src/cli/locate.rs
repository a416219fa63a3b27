//! `ebb layout where`: which bytes of which members hold an extent of an array, and the reverse.

use super::geometry::{ArrayArgs, MemberArgs};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file::{DesignName, NamedDesign, wrong};
use crate::views;
use clap::{Args, ValueHint};
use ebbtide_model::layout::{Extent, LayoutNode, Map, Role};
use ebbtide_model::shown::columns;
use ebbtide_model::units::{ArrayOffset, Bytes, MemberOffset};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Most chunks of one answer; what is longer is a mistake or a job for arithmetic.
const CHUNKS_MAX: u64 = 100_000;

/// Show which bytes of which members hold an extent of an array, or the reverse
///
/// The array is described by options, or is a design of an experiment file. Offsets on members count from the start of
/// their data area, after md's or LVM's metadata.
#[derive(Debug, Args)]
pub struct WhereArgs {
    #[command(flatten)]
    array: ArrayArgs,
    #[command(flatten)]
    members: MemberArgs,
    /// Experiment file (TOML) and its design; FILE alone where it has one
    #[arg(conflicts_with_all = ["layout", "members"], value_name = "FILE:DESIGN", value_hint = ValueHint::FilePath)]
    design: Option<DesignName>,
    /// First byte of the extent in the array [default: 0]
    #[arg(long, conflicts_with = "member", value_name = "SIZE")]
    offset: Option<Bytes>,
    /// Bytes of the extent
    #[arg(long, default_value = "4KiB", conflicts_with = "member", value_name = "SIZE")]
    length: Bytes,
    /// Reverse: the member, by its number from 0 or (with FILE:DESIGN) its name
    #[arg(long, requires = "member_offset", value_name = "M")]
    member: Option<String>,
    /// Reverse: the byte on that member
    #[arg(long, requires = "member", value_name = "SIZE")]
    member_offset: Option<Bytes>,
}

/// An array whose members have names.
struct Subject {
    layout: LayoutNode,
    map: Map,
    names: Option<Vec<String>>,
}

/// Answers the question.
///
/// # Errors
/// An array that cannot be, or an extent outside it: status 2 with what to write instead.
pub fn run(args: &WhereArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let subject = subject(args, globals)?;
    let (value, text) = match (&args.member, args.member_offset) {
        (Some(member), Some(offset)) => reverse(&subject, subject.member(member)?, offset),
        _ => forward(&subject, args.offset.unwrap_or_default(), args.length)?,
    };
    views::answer(globals.json(), &value, &text)
}

fn subject(args: &WhereArgs, globals: &Globals) -> Result<Subject, CliError> {
    let Some(named) = &args.design else {
        let sizes =
            if args.array.given() || args.members.given() { args.members.sizes()? } else { Vec::new() };
        let layout = args.array.layout(sizes.len())?;
        let map = Map::new(&layout, &sizes).map_err(CliError::usage)?;
        return Ok(Subject { layout, map, names: None });
    };
    let NamedDesign { file, experiment, design, .. } = named.load(&super::catalog::load(globals)?)?;
    let layout = experiment.designs[design].layout.clone();
    let volumes = || experiment.volumes.iter().enumerate();
    let used = layout.volumes();
    let unknown = volumes().filter(|(index, volume)| volume.size.is_none() && used.contains(index));
    let unknown: Vec<&str> = unknown.map(|(_, volume)| volume.name.as_str()).collect();
    if !unknown.is_empty() {
        let what = format!(
            "it gives no size for {}; add `size = \"...\"` there, or describe the array with --layout, --members and \
             --member-size",
            unknown.join(", ")
        );
        return Err(wrong(&file, what));
    }
    let sizes: Vec<Bytes> = volumes().map(|(_, volume)| volume.size.unwrap_or_default()).collect();
    let map = Map::new(&layout, &sizes).map_err(CliError::usage)?;
    Ok(Subject { layout, map, names: Some(experiment.volumes.into_iter().map(|v| v.name).collect()) })
}

impl Subject {
    fn name(&self, member: usize) -> String {
        self.names.as_ref().and_then(|n| n.get(member)).cloned().unwrap_or_else(|| member.to_string())
    }

    /// The member that `text` names.
    fn member(&self, text: &str) -> Result<usize, CliError> {
        let by_name = self.names.as_ref().and_then(|n| n.iter().position(|name| name == text));
        let member = by_name.or_else(|| text.parse().ok()).filter(|m| self.map.leaves().contains(m));
        member.ok_or_else(|| {
            let members: Vec<String> = self.map.leaves().iter().map(|m| self.name(*m)).collect();
            CliError::Usage(format!("the array has no member `{text}`; write one of {}", members.join(", ")))
        })
    }

    /// `stripe of 4, chunk 256KiB, 4GiB`, and `text` below it.
    fn titled(&self, text: &str) -> String {
        format!("{}, {}\n\n{text}", self.layout, self.map.capacity().short())
    }
}

fn holds(role: Role, copies: u32) -> String {
    match role {
        Role::Data { .. } if copies == 1 => "data".to_owned(),
        Role::Data { copy } => format!("copy {copy}"),
        Role::ParityP => "parity P".to_owned(),
        Role::ParityQ => "parity Q".to_owned(),
    }
}

fn role_fields(role: Role) -> (&'static str, Value) {
    match role {
        Role::Data { copy } => ("copy", copy.into()),
        Role::ParityP => ("role", "parity-p".into()),
        Role::ParityQ => ("role", "parity-q".into()),
    }
}

fn forward(subject: &Subject, offset: Bytes, length: Bytes) -> Result<(Value, String), CliError> {
    let map = &subject.map;
    let chunk = subject.layout.smallest_chunk().map_or(u64::MAX, |chunk| chunk.0);
    if length.0 == 0 {
        return Err(CliError::Usage(
            "an extent of length 0 holds nothing; write --length 1 or more".to_owned(),
        ));
    }
    if length.0 / chunk > CHUNKS_MAX {
        let most = Bytes(CHUNKS_MAX.saturating_mul(chunk));
        let text = format!("--length {length} is {} chunks; write at most {most}", length.0 / chunk);
        return Err(CliError::Usage(text));
    }
    let extents = map.locate(ArrayOffset(offset.0), length).map_err(|_| {
        let capacity = map.capacity();
        CliError::Usage(format!(
            "{length} at offset {offset} reach beyond the end of the array, which holds {capacity} ({} bytes); \
             write an --offset and a --length whose sum is at most that",
            capacity.0
        ))
    })?;
    let records: Vec<Value> = extents
        .iter()
        .map(|e| {
            let (key, role) = role_fields(e.role);
            let mut record = json!({ "member": e.member, "offset": e.offset, "length": e.length, key: role,
                "array_offset": e.array_offset });
            if subject.names.is_some() {
                record["name"] = subject.name(e.member).into();
            }
            record
        })
        .collect();
    let mut rows = vec![["array offset", "length", "member", "member offset", "holds"].map(str::to_owned)];
    rows.extend(extents.iter().map(|e| {
        let (at, on_member) = (Bytes(e.array_offset.0).to_string(), Bytes(e.offset.0).to_string());
        [at, e.length.to_string(), subject.name(e.member), on_member, holds(e.role, map.copies())]
    }));
    let text = subject.titled(&(columns(&rows, 2) + &picture(subject, &extents)));
    Ok((json!({ "extents": records }), text))
}

fn reverse(subject: &Subject, member: usize, offset: Bytes) -> (Value, String) {
    let name = subject.name(member);
    let mut value = json!({ "member": member, "member_offset": offset.0, "used": false });
    let Some(found) = subject.map.reverse(member, MemberOffset(offset.0)) else {
        let text = format!("The array does not use byte {offset} of member {name}.\n");
        return (value, subject.titled(&text));
    };
    let (key, role) = role_fields(found.role);
    value["used"] = true.into();
    value["array_offset"] = found.array_offset.0.into();
    value[key] = role;
    let at = Bytes(found.array_offset.0);
    let what = match found.role {
        Role::Data { .. } => format!("array byte {at}, {}", holds(found.role, subject.map.copies())),
        parity => format!("{} of the stripe that begins at array byte {at}", holds(parity, 1)),
    };
    (value, subject.titled(&format!("Byte {offset} of member {name} holds {what}.\n")))
}

/// The rows of chunks around the extent, as they lie on the members; only for one level of chunks on few
/// members.
fn picture(subject: &Subject, extents: &[Extent]) -> String {
    const ROWS: u64 = 6;
    const MEMBERS: usize = 12;
    let LayoutNode::Array { kind, members } = &subject.layout else { return String::new() };
    let flat = members.iter().all(|m| matches!(m, LayoutNode::Volume(_))) && members.len() <= MEMBERS;
    let (Some(chunk), Some(first), true) = (kind.chunk(), extents.first(), flat) else {
        return String::new();
    };
    let last_row = extents.iter().map(|e| (e.offset + e.length - Bytes(1)).0 / chunk.0).max().unwrap_or(0);
    let first_row = (first.offset.0 / chunk.0).saturating_sub(1);
    let leaves = subject.map.leaves();
    let cell = |row: u64, member: usize| {
        let from = MemberOffset::START + chunk * row;
        let asked = extents
            .iter()
            .any(|e| e.member == member && e.offset < from + chunk && from < e.offset + e.length);
        let name = match subject.map.reverse(member, from).map(|found| (found.role, found.array_offset)) {
            None => "-".to_owned(),
            Some((Role::Data { .. }, offset)) => format!("c{}", offset.0 / chunk.0),
            Some((Role::ParityP, _)) => "P".to_owned(),
            Some((Role::ParityQ, _)) => "Q".to_owned(),
        };
        if asked { format!("[{name}]") } else { format!(" {name}") }
    };
    let line = |name: String, cell: &dyn Fn(usize) -> String| -> Vec<String> {
        std::iter::once(name).chain(leaves.iter().map(|member| cell(*member))).collect()
    };
    let mut lines = vec![line("row".to_owned(), &|member| format!(" {}", subject.name(member)))];
    let rows = first_row..=last_row.min(first_row + ROWS - 1);
    lines.extend(rows.map(|row| line(row.to_string(), &|member| cell(row, member))));
    format!("\n  chunks by number, those of the extent in brackets:\n{}", columns(&lines, 2))
}
