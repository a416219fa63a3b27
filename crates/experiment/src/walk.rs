//! The walk through the tree of a design's arrays, which finds what cannot be built.

use super::array::{RawArray, RawMember, RawSwap};
use super::error::{Mistake, Problem};
use super::layouts::DesignLayout;
use super::members::resolve_names;
use super::read::{At, Given, required, valid};
use super::stack;
use super::volumes::{Volumes, multiple_of_block};
use crate::problems::{Problems, Span};
use ebbtide_model::layout::{Arrangement, Chunks, LayoutError, LayoutName, LayoutNode, Map};
use ebbtide_model::stack::{ArrayBacking, Backing, Cache, CacheKind, CacheMode, Swap};
use ebbtide_model::units::Bytes;

/// Default chunk of mdadm(8) for new arrays.
const CHUNK_DEFAULT: Bytes = Bytes(512 * Bytes::KIB);

/// Size that stands for one that the file does not say while geometry is checked.
pub(super) const STAND_IN: Bytes = Bytes(1 << 40);

/// The walk through one design's tree.
pub(super) struct Walk<'a> {
    design: &'a str,
    pub(super) volumes: &'a Volumes,
    /// Where each volume has been used already.
    used: Vec<Option<Span>>,
    /// How each array is built, an array before those among its members.
    pub(super) arrays: Vec<ArrayBacking>,
    pub(super) problems: &'a mut Problems,
}

impl<'a> Walk<'a> {
    /// Through the design that messages call `design`.
    pub(super) fn new(design: &'a str, volumes: &'a Volumes, problems: &'a mut Problems) -> Walk<'a> {
        Walk { design, volumes, used: vec![None; volumes.list.len()], arrays: Vec::new(), problems }
    }

    /// The array, when it can be built.
    pub(super) fn array(&mut self, raw: &RawArray, what: &str, place: &Span) -> Option<LayoutNode> {
        let section = (what, place);
        let number = self.arrays.len();
        self.arrays.push(ArrayBacking::default());
        let layout = required(&raw.layout, "layout", "layout = \"stripe\"", section, self.problems)
            .map(|(layout, span)| (layout.0, span));
        if let Some((DesignLayout::Replicated, span)) = layout {
            self.arrays.pop();
            return match number {
                0 => self.replicated(raw, section),
                _ => {
                    let what = "a replicated layout is that of a whole design".to_owned();
                    let remedy =
                        "write it directly below `[designs.NAME]`, or name the arrays of copies one by one";
                    self.problems.report(span, Mistake::Geometry(what), remedy);
                    None
                }
            };
        }
        let layout = layout.and_then(|(layout, _)| layout.plain());
        let only = ("a layout of its own has it", "remove it, or write `layout = \"replicated\"`");
        stack::pointless(&raw.over, "over", layout.is_some(), only.0, only.1, self.problems);
        let chunk = self.chunk(raw, layout);
        let copies = self.raid10_only(&raw.copies, "copies", layout).copied();
        let arrangement = self.raid10_only(&raw.arrangement, "arrangement", layout);
        let arrangement = arrangement.map_or(Arrangement::Near, |arrangement| arrangement.0);
        let example = "members = [\"vol[0..7]\"]";
        let members = required(&raw.members, "members", example, section, self.problems);
        let (members, span) = members.map(|(members, span)| (self.members(members), span))?;
        // The counts below are about what the members say, and pointless while one of them is wrong.
        let members = members?;
        let layout = layout?;
        self.enough_members(layout, members.len(), span)?;
        if let (Some(copies), Some(at)) = (copies, &raw.copies) {
            self.copies_fit(copies, members.len(), &at.span)?;
        }
        let chunk = chunk?;
        if layout.facts().chunks != Chunks::None {
            self.room_for_a_chunk(&members, chunk, span)?;
        }
        if raw.arrangement.as_ref().is_some_and(|given| given.value.is_none()) {
            return None;
        }
        let kind = layout.array(chunk, copies.unwrap_or(2), arrangement);
        let node = LayoutNode::Array { kind, members };
        let sizes: Vec<Bytes> = self.volumes.sizes.iter().map(|size| size.unwrap_or(STAND_IN)).collect();
        if let Err(error) = Map::new(&node, &sizes) {
            let span = match (&error, &raw.chunk) {
                (LayoutError::Chunk { .. }, Some(chunk)) => &chunk.span,
                _ => span,
            };
            self.problems.add(span, impossible(&error));
            return None;
        }
        if let LayoutNode::Array { members, .. } = &node {
            self.arrays[number] = stack::backing(raw, kind, members, self.volumes, self.problems);
        }
        Some(node)
    }

    /// The cache; nothing where something is wrong with it.
    pub(super) fn cache(&mut self, array: &RawArray) -> Option<Cache> {
        let (raw, place) = valid(&array.cache)?;
        if stack::chosen(&array.backing) != Some(Backing::Lvm) {
            let why = "it is LVM's, and the array is md's";
            self.problems.pointless(place, "cache", why, "write also `backing = \"lvm\"`, or remove it");
        }
        let (section, example) = (("`cache`", place), "members = [\"fast0\"]");
        let kind = required(&raw.kind, "kind", "kind = \"cache\"", section, self.problems);
        let kind = kind.map(|(kind, _)| kind.0);
        let (why, remedy) = ("a writecache always writes back", "remove it, or write `kind = \"cache\"`");
        let is_writecache = kind == Some(CacheKind::Writecache);
        stack::pointless(&raw.mode, "mode", is_writecache, why, remedy, self.problems);
        let (members, span) = required(&raw.members, "members", example, section, self.problems)?;
        let nodes = self.members(members)?;
        if nodes.is_empty() {
            let what = "a cache has no members".to_owned();
            self.problems.report(span, Mistake::Nothing(what), format!("write for example `{example}`"));
            return None;
        }
        let volume = |node: &LayoutNode| match node {
            LayoutNode::Volume(volume) => Some(*volume),
            LayoutNode::Array { .. } => None,
        };
        let Some(members) = nodes.iter().map(volume).collect() else {
            let what = "the members of a cache are volumes".to_owned();
            self.problems.report(
                span,
                Mistake::Geometry(what),
                "name the volumes: LVM takes several for one",
            );
            return None;
        };
        let default = if is_writecache { CacheMode::Writeback } else { CacheMode::Writethrough };
        Some(Cache { members, kind: kind?, mode: stack::chosen(&raw.mode).unwrap_or(default) })
    }

    /// The swap spaces; a group in which something is wrong is left out.
    pub(super) fn swap(&mut self, raw: &Given<Vec<At<RawSwap>>>) -> Vec<Swap> {
        let mut groups = Vec::new();
        for at in valid(raw).map_or(&[][..], |(groups, _)| groups) {
            let Some(raw) = &at.value else { continue };
            let (section, example) = (("a swap space", &at.span), "members = [\"vol0\"]");
            let members = required(&raw.members, "members", example, section, self.problems);
            let Some((members, span)) = members.map(|(members, span)| (self.members(members), span)) else {
                continue;
            };
            if members.as_ref().is_some_and(Vec::is_empty) {
                let what = "a swap space has no members".to_owned();
                let remedy = format!("write for example `{example}`, or remove it");
                self.problems.report(span, Mistake::Nothing(what), remedy);
            }
            let priority = stack::priority(&raw.priority, self.problems);
            groups.extend(members.map(|members| Swap { members, priority }));
        }
        groups
    }

    pub(super) fn chunk(&mut self, raw: &RawArray, layout: Option<LayoutName>) -> Option<Bytes> {
        let Some(at) = &raw.chunk else { return Some(CHUNK_DEFAULT) };
        if let Some(layout) = layout.filter(|layout| layout.facts().chunks == Chunks::None) {
            let why = format!("a {} array has no chunks", layout.name());
            self.problems.pointless(&at.span, "chunk", why, "remove it, or write `layout = \"stripe\"`");
        }
        let chunk = at.value?;
        multiple_of_block("chunk", chunk, &at.span, self.problems).then_some(chunk)
    }

    /// A key that only raid10 has.
    fn raid10_only<'r, T>(
        &mut self,
        given: &'r Given<T>,
        key: &'static str,
        layout: Option<LayoutName>,
    ) -> Option<&'r T> {
        let at = given.as_ref()?;
        if let Some(layout) = layout.filter(|layout| *layout != LayoutName::Raid10) {
            let why = format!("a {} array does not have it", layout.name());
            self.problems.pointless(&at.span, key, why, "remove it, or write `layout = \"raid10\"`");
        }
        at.value.as_ref()
    }

    /// The members; nothing when one of them is wrong.
    pub(super) fn members(&mut self, raw: &[At<RawMember>]) -> Option<Vec<LayoutNode>> {
        let mut nodes = Vec::new();
        let mut complete = true;
        for at in raw {
            match &at.value {
                None => complete = false,
                Some(RawMember::Array(array)) => {
                    stack::refuse_nested(array, self.problems);
                    match self.array(array, "a nested array", &at.span) {
                        Some(node) => nodes.push(node),
                        None => complete = false,
                    }
                }
                Some(RawMember::Names(text)) => match resolve_names(text, self.volumes) {
                    Ok(indices) => {
                        for index in indices {
                            complete &= self.use_once(index, &at.span);
                            nodes.push(LayoutNode::Volume(index));
                        }
                    }
                    Err(problem) => {
                        complete = false;
                        if let Some(problem) = problem {
                            self.problems.add(&at.span, problem);
                        }
                    }
                },
            }
        }
        complete.then_some(nodes)
    }

    fn use_once(&mut self, index: usize, span: &Span) -> bool {
        let name = &self.volumes.list[index].name;
        if self.used[index].replace(span.clone()).is_some() {
            let what = format!("volume `{name}` is used twice in design `{}`", self.design);
            let remedy = "use each volume once: two members on the same bytes would overwrite each other";
            self.problems.report(span, Mistake::Geometry(what), remedy);
            return false;
        }
        true
    }

    /// Reports a volume that is smaller than one chunk, which would hold nothing.
    pub(super) fn room_for_a_chunk(
        &mut self,
        members: &[LayoutNode],
        chunk: Bytes,
        span: &Span,
    ) -> Option<()> {
        for member in members {
            let LayoutNode::Volume(index) = member else { continue };
            if let Some(size) = self.volumes.sizes[*index].filter(|size| *size < chunk) {
                let name = &self.volumes.list[*index].name;
                let what = format!("volume `{name}` of {size} is smaller than one chunk of {chunk}");
                let remedy = "make the volume larger or the chunk smaller";
                self.problems.report(span, Mistake::Geometry(what), remedy);
                return None;
            }
        }
        Some(())
    }

    fn enough_members(&mut self, layout: LayoutName, found: usize, span: &Span) -> Option<()> {
        let least = layout.facts().least_members;
        if found >= least {
            return Some(());
        }
        let s = if least == 1 { "" } else { "s" };
        let what = format!("{} needs at least {least} member{s}, and has {found}", layout.name());
        let remedy = match (layout, found) {
            (_, 0) => "write for example `members = [\"vol[0..7]\"]`".to_owned(),
            (LayoutName::Stripe | LayoutName::Mirror, 1) => {
                "add members, or write `layout = \"linear\"` for a single volume".to_owned()
            }
            _ => format!("add {} more", least - found),
        };
        self.problems.report(span, Mistake::Geometry(what), remedy);
        None
    }

    pub(super) fn copies_fit(&mut self, copies: u32, members: usize, span: &Span) -> Option<()> {
        let most = u32::try_from(members).unwrap_or(u32::MAX);
        if (2..=most).contains(&copies) {
            return Some(());
        }
        let remedy = match copies < 2 {
            true => "write 2 or more, or `layout = \"stripe\"` for a single copy".to_owned(),
            false => format!("write at most {most}, or add members"),
        };
        let range = format!("from 2 to the number of members, {members}");
        self.problems.out_of_range(span, "copies", copies, range, remedy);
        None
    }
}

/// A mistake that only the layout's arithmetic sees.
pub(super) fn impossible(error: &LayoutError) -> Problem {
    let (what, remedy) = match error {
        LayoutError::Chunk { layout, chunk, wanted } => {
            (format!("{layout} cannot have a chunk of {chunk}"), format!("write {wanted}"))
        }
        LayoutError::MemberTooSmall { layout, member, size, least } => (
            format!(
                "member {member} of the {layout} holds {size}, less than the {least} that it needs of each"
            ),
            "make the member larger or the chunk smaller".to_owned(),
        ),
        LayoutError::TooLarge { layout } => (
            format!("the {layout} would hold more than 2^63 - 1 bytes, the most that an offset can count"),
            "use smaller or fewer members".to_owned(),
        ),
        LayoutError::TooDeep { most } => {
            (format!("arrays are nested more than {most} deep"), "flatten the layout".to_owned())
        }
        other => (other.to_string(), "change the layout or its members".to_owned()),
    };
    Mistake::Geometry(what).with(remedy)
}
