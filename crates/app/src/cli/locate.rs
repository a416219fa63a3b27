//! `ebb where`: which bytes of which members hold an extent of an array, and the reverse.

use super::geometry::{ArrayArgs, MemberArgs};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file;
use crate::views;
use clap::Args;
use ebbtide_model::layout::{Extent, LayoutNode, Map, Role};
use ebbtide_model::shown::Shown;
use ebbtide_model::shown::columns;
use ebbtide_model::units::Bytes;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Most chunks of one answer; what is longer is a mistake or a job for arithmetic.
const CHUNKS_MAX: u64 = 100_000;

/// Which bytes of which members hold this extent of the array; and the reverse.
///
/// The array comes from options, or from a design of an experiment file. Offsets on members count from
/// the start of their data area: md's and LVM's metadata are not included.
#[derive(Debug, Args)]
pub struct WhereArgs {
    #[command(flatten)]
    array: ArrayArgs,
    #[command(flatten)]
    members: MemberArgs,
    /// Experiment file (TOML) with the design
    #[arg(long, requires = "design", conflicts_with_all = ["layout", "members"], value_name = "FILE")]
    file: Option<PathBuf>,
    /// Name of the design in the experiment file
    #[arg(long, requires = "file", value_name = "NAME")]
    design: Option<String>,
    /// First byte of the extent in the array [default: 0]
    #[arg(long, conflicts_with = "member", value_name = "SIZE")]
    offset: Option<Bytes>,
    /// Bytes of the extent
    #[arg(long, default_value = "4KiB", conflicts_with = "member", value_name = "SIZE")]
    length: Bytes,
    /// Reverse: the member, by its number from 0 or (with --file) its name
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
        (Some(member), Some(offset)) => reverse(&subject, subject.member(member)?, offset)?,
        _ => forward(&subject, args.offset.unwrap_or_default(), args.length)?,
    };
    if globals.json {
        views::print_json_line(&value)?
    } else {
        views::print(&text)?
    }
    Ok(ExitCode::SUCCESS)
}

fn usage(error: impl std::fmt::Display) -> CliError {
    CliError::Usage(error.to_string())
}

fn subject(args: &WhereArgs, globals: &Globals) -> Result<Subject, CliError> {
    let (Some(file), Some(design)) = (&args.file, &args.design) else {
        let sizes =
            if args.array.given() || args.members.given() { args.members.sizes()? } else { Vec::new() };
        let layout = args.array.layout(sizes.len())?;
        let map = Map::new(&layout, &sizes).map_err(usage)?;
        return Ok(Subject { layout, map, names: None });
    };
    let shown = file.shown();
    let (_, experiment) = experiment_file::load(file, &super::catalog::load(globals)?)?;
    let names: Vec<&str> = experiment.designs.iter().map(|d| d.name.as_str()).collect();
    let design = experiment.designs.iter().find(|d| d.name == *design).ok_or_else(|| {
        CliError::Usage(format!("{shown} has no design `{design}`; it has {}", names.join(", ")))
    })?;
    let mut unknown: Vec<&str> = Vec::new();
    let leaves = design.layout.volumes();
    let sizes: Vec<u64> = experiment
        .volumes
        .iter()
        .enumerate()
        .map(|(i, volume)| {
            if volume.size.is_none() && leaves.contains(&i) {
                unknown.push(&volume.name);
            }
            volume.size.map_or(0, |s| s.0)
        })
        .collect();
    if !unknown.is_empty() {
        return Err(CliError::Usage(format!(
            "{shown} gives no size for {}; add `size = \"...\"` there, or describe the array with --layout, \
             --members and --member-size",
            unknown.join(", ")
        )));
    }
    let map = Map::new(&design.layout, &sizes).map_err(usage)?;
    let names = experiment.volumes.into_iter().map(|v| v.name).collect();
    Ok(Subject { layout: design.layout.clone(), map, names: Some(names) })
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

    /// "stripe of 4, chunk 256KiB, 4GiB".
    fn title(&self) -> String {
        let capacity = Bytes(self.map.capacity());
        format!("{}, {capacity}\n", self.layout)
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
        return Err(CliError::Usage("an extent of length 0 is nowhere; write --length 1 or more".to_owned()));
    }
    if length.0 / chunk > CHUNKS_MAX {
        let most = Bytes(CHUNKS_MAX.saturating_mul(chunk));
        let text = format!("--length {length} is {} chunks; write at most {most}", length.0 / chunk);
        return Err(CliError::Usage(text));
    }
    let extents = map.locate(offset.0, length.0).map_err(|_| {
        let capacity = map.capacity();
        CliError::Usage(format!(
            "{length} at offset {offset} reach beyond the end of the array, which holds {} ({capacity} bytes); \
             write an --offset and a --length whose sum is at most that",
            Bytes(capacity)
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
        let at = Bytes(e.array_offset).to_string();
        let length = Bytes(e.length).to_string();
        [at, length, subject.name(e.member), Bytes(e.offset).to_string(), holds(e.role, map.copies())]
    }));
    let text = format!("{}\n{}{}", subject.title(), columns(&rows, 2), picture(subject, &extents));
    Ok((json!({ "extents": records }), text))
}

fn reverse(subject: &Subject, member: usize, offset: Bytes) -> Result<(Value, String), CliError> {
    let name = subject.name(member);
    let title = subject.title();
    let Some(found) = subject.map.reverse(member, offset.0) else {
        let value = json!({ "member": member, "member_offset": offset.0, "used": false });
        return Ok((value, format!("{title}\nThe array does not use byte {offset} of member {name}.\n")));
    };
    let (key, role) = role_fields(found.role);
    let value = json!({ "member": member, "member_offset": offset.0, "used": true,
        "array_offset": found.array_offset, key: role });
    let at = Bytes(found.array_offset);
    let what = match found.role {
        Role::Data { .. } => format!("holds array byte {at}, {}", holds(found.role, subject.map.copies())),
        parity => format!("holds {} of the stripe that begins at array byte {at}", holds(parity, 1)),
    };
    Ok((value, format!("{title}\nByte {offset} of member {name} {what}.\n")))
}

/// The rows of chunks around the extent, as they lie on the members; only for one level of chunks on few
/// members.
fn picture(subject: &Subject, extents: &[Extent]) -> String {
    const ROWS: u64 = 6;
    const MEMBERS: usize = 12;
    let LayoutNode::Array { kind, members } = &subject.layout else { return String::new() };
    let flat = members.iter().all(|m| matches!(m, LayoutNode::Volume(_))) && members.len() <= MEMBERS;
    let (Some(chunk), Some(first)) = (kind.chunk(), extents.first()) else { return String::new() };
    if !flat {
        return String::new();
    }
    let chunk = chunk.0;
    let last_row = extents.iter().map(|e| (e.offset + e.length - 1) / chunk).max().unwrap_or(0);
    let first_row = (first.offset / chunk).saturating_sub(1);
    let leaves = subject.map.leaves();
    let cell = |row: u64, member: usize| {
        let from = row * chunk;
        let asked = extents
            .iter()
            .any(|e| e.member == member && e.offset < from + chunk && from < e.offset + e.length);
        let name = match subject.map.reverse(member, from) {
            None => "-".to_owned(),
            Some(found) => match found.role {
                Role::Data { .. } => format!("c{}", found.array_offset / chunk),
                Role::ParityP => "P".to_owned(),
                Role::ParityQ => "Q".to_owned(),
            },
        };
        if asked { format!("[{name}]") } else { format!(" {name}") }
    };
    let mut text = "\n  chunks by number, those of the extent in brackets:\n".to_owned();
    let mut lines = vec![
        std::iter::once("row".to_owned())
            .chain(leaves.iter().map(|m| format!(" {}", subject.name(*m))))
            .collect::<Vec<_>>(),
    ];
    for row in first_row..=last_row.min(first_row + ROWS - 1) {
        lines.push(std::iter::once(row.to_string()).chain(leaves.iter().map(|m| cell(row, *m))).collect());
    }
    text.push_str(&columns(&lines, 2));
    text
}
