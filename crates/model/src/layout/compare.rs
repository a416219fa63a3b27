//! The levels side by side for given members, every figure found by asking [`Map`].

use super::mirror::ROUNDING;
use super::{
    Arrangement, ArrayKind, Balance, Choice, Extent, LayoutError, LayoutName, LayoutNode, Map, Place, Reads,
    Role, Standing,
};
use crate::units::{ArrayOffset, Bytes, MemberOffset};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Most members that are compared: every subset of them is tried as lost.
pub const MEMBERS_MAX: usize = 16;

/// The small write whose cost is counted: one page.
const SMALL_WRITE: Bytes = Bytes(4096);

/// One level over the given members.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the layout.
    pub layout: &'static str,
    /// Copies of each chunk; RAID10 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// Arrangement of the copies; RAID10 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrangement: Option<Arrangement>,
    /// Least members of this level.
    pub least_members: usize,
    /// What it is like over the given members; absent when it cannot be built of them.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why it cannot be built of the given members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
}

/// A level's figures over the given members.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Bytes of the array.
    pub capacity: Bytes,
    /// Members whose loss it survives whichever they are.
    pub losses_guaranteed: u32,
    /// Members whose loss it survives when they are the right ones.
    pub losses_best: u32,
    /// Members that one sequential reader works that has (members squared) chunks in flight: a few stripes.
    pub read_fan_out: usize,
    /// Members that one sequential writer of as many chunks writes to.
    pub write_fan_out: usize,
    /// Reads that a write of 4 KiB needs first: old data and parity, or the rest of the stripe,
    /// whichever is less (Linux `raid5.c`, handle_stripe_dirtying).
    pub small_write_reads: u64,
    /// Writes that a write of 4 KiB becomes.
    pub small_write_writes: u64,
}

/// What is needed to read one part of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    /// Members that hold it, one bit each.
    members: u32,
    /// How many of them must be there.
    needed: u32,
}

/// The levels over members of these sizes, with this chunk where there are chunks.
///
/// # Errors
/// More than [`MEMBERS_MAX`] members, as the number given.
pub fn compare(sizes: &[Bytes], chunk: Bytes) -> Result<Vec<Row>, usize> {
    if sizes.len() > MEMBERS_MAX {
        return Err(sizes.len());
    }
    let mut kinds = Vec::new();
    for layout in LayoutName::ALL {
        let plain = layout.array(chunk, 2, Arrangement::Near);
        if plain.copies().is_none() {
            kinds.push(plain);
            continue;
        }
        let copies = (2..=3).filter(|copies| *copies == 2 || sizes.len() >= 3);
        kinds.extend(copies.flat_map(|copies| {
            Arrangement::ALL.iter().map(move |arrangement| layout.array(chunk, copies, *arrangement))
        }));
    }
    Ok(kinds.into_iter().map(|kind| row(kind, sizes, chunk)).collect())
}

fn row(kind: ArrayKind, sizes: &[Bytes], chunk: Bytes) -> Row {
    let (copies, arrangement) = kind.copies().unzip();
    let (figures, impossible) = match figures(kind, sizes, chunk) {
        Ok(figures) => (Some(figures), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let least_members = least_members(kind);
    Row { layout: kind.name(), copies, arrangement, least_members, figures, impossible }
}

fn build(kind: ArrayKind, sizes: &[Bytes]) -> Result<Map, LayoutError> {
    let (layout, least, given) = (kind.name(), kind.facts().least_members, sizes.len());
    if given < least {
        return Err(LayoutError::TooFewMembers { layout, least, given });
    }
    let members = (0..sizes.len()).map(LayoutNode::Volume).collect();
    Map::new(&LayoutNode::Array { kind, members }, sizes)
}

/// Tries 1, 2, 3... ample members. (None of the compared levels needs more than 4.)
fn least_members(kind: ArrayKind) -> usize {
    let ample = Bytes(kind.chunk().map_or(1 << 20, |chunk| chunk.0.saturating_mul(16)));
    (1..=MEMBERS_MAX).find(|n| build(kind, &vec![ample; *n]).is_ok()).unwrap_or(MEMBERS_MAX)
}

fn figures(kind: ArrayKind, sizes: &[Bytes], chunk: Bytes) -> Result<Figures, LayoutError> {
    let map = build(kind, sizes)?;
    let units = units(&build(with_chunk(kind, MODEL_CHUNK), &few_rows(sizes, chunk))?);
    let (losses_guaranteed, losses_best) = losses(&units, sizes.len() as u32);
    let chunks = (sizes.len() * sizes.len()) as u64;
    let run = map.capacity().min(Bytes(chunk.0.saturating_mul(chunks)));
    let mut deep = Deep { balance: Balance::default(), pending: vec![0; sizes.len()] };
    let _in_range = map.read_chosen(ArrayOffset::START, run, &mut deep);
    let located = |length| map.locate(ArrayOffset::START, length).unwrap_or_default();
    let writers: BTreeSet<usize> = located(run).iter().map(|e| e.member).collect();
    let small = located(SMALL_WRITE.min(map.capacity()));
    let parity = small.iter().filter(|e| !matches!(e.role, Role::Data { .. })).count() as u64;
    let writes = small.len() as u64;
    let others = units.first().map_or(0, |u| u64::from(u.needed).saturating_sub(1));
    Ok(Figures {
        capacity: map.capacity(),
        losses_guaranteed,
        losses_best,
        read_fan_out: deep.pending.iter().filter(|pending| **pending > 0).count(),
        write_fan_out: writers.len(),
        small_write_reads: if parity == 0 { 0 } else { writes.min(others) },
        small_write_writes: writes,
    })
}

/// A reader of members without arms, none of which has answered yet.
struct Deep {
    balance: Balance,
    /// Requests of each member.
    pending: Vec<usize>,
}

impl Reads for Deep {
    fn choose(&mut self, choice: &Choice<'_>) -> u32 {
        let head = MemberOffset::START;
        self.balance.choose(choice, |place| match place {
            Place::Volume(member) => Some(Standing { pending: self.pending[member], head, rotates: false }),
            Place::Array(_) => None,
        })
    }

    fn read(&mut self, extent: Extent) {
        self.pending[extent.member] += 1;
    }
}

/// The chunk of the small arrays in which every chunk is looked at.
const MODEL_CHUNK: Bytes = Bytes(4096);

fn with_chunk(kind: ArrayKind, chunk: Bytes) -> ArrayKind {
    let (copies, arrangement) = kind.copies().unwrap_or_default();
    kind.layout().array(chunk, copies, arrangement)
}

/// Sizes in the same order of size, with so few chunks that every one can be looked at: which members
/// hold a chunk repeats after at most members * copies rows of each zone. A mirror takes whole
/// [`ROUNDING`]s only.
fn few_rows(sizes: &[Bytes], chunk: Bytes) -> Vec<Bytes> {
    let period = MODEL_CHUNK * (sizes.len() * sizes.len()).max(4) as u64;
    let period = Bytes(period.0.next_multiple_of(ROUNDING.0));
    let whole: Vec<u64> = sizes.iter().map(|size| size.0 / chunk.0.max(1)).collect();
    let distinct: BTreeSet<u64> = whole.iter().copied().collect();
    whole.iter().map(|s| period * (distinct.iter().position(|d| d == s).unwrap_or(0) as u64 + 1)).collect()
}

/// The distinct units of the whole array: chunks and their copies, stripes and their parity.
fn units(map: &Map) -> Vec<Unit> {
    let mut units = BTreeSet::new();
    let mut stripes: BTreeMap<ArrayOffset, Unit> = BTreeMap::new();
    let (mut at, end) = (ArrayOffset::START, ArrayOffset::START + map.capacity());
    while at < end {
        let extents = map.locate(at, MODEL_CHUNK.min(end - at)).unwrap_or_default();
        let members = extents.iter().fold(0, |mask, e| mask | 1 << e.member);
        match extents.iter().find(|e| e.role == Role::ParityP) {
            None => {
                units.insert(Unit { members, needed: 1 });
            }
            Some(parity) => {
                let stripe = stripes.entry(parity.array_offset).or_insert(Unit { members: 0, needed: 0 });
                stripe.members |= members;
                stripe.needed += 1;
            }
        }
        at += MODEL_CHUNK;
    }
    units.extend(stripes.into_values());
    units.into_iter().collect()
}

/// Tries every set of lost members: the most that may always, and that may at best, be lost.
fn losses(units: &[Unit], members: u32) -> (u32, u32) {
    let mut best = 0;
    let mut fatal = members + 1;
    for lost in 0..1u32 << members {
        let count = lost.count_ones();
        if units.iter().all(|u| (u.members & !lost).count_ones() >= u.needed) {
            best = best.max(count);
        } else {
            fatal = fatal.min(count);
        }
    }
    (fatal - 1, best)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn named(rows: &[Row], layout: &str, copies: Option<u32>, arrangement: Option<Arrangement>) -> Row {
        let row = rows.iter().find(|r| (r.layout, r.copies, r.arrangement) == (layout, copies, arrangement));
        row.unwrap().clone()
    }

    fn short(row: &Row) -> (u64, u32, u32, usize, usize, u64, u64) {
        let f = row.figures.as_ref().unwrap();
        (
            f.capacity.0 / Bytes::GIB,
            f.losses_guaranteed,
            f.losses_best,
            f.read_fan_out,
            f.write_fan_out,
            f.small_write_reads,
            f.small_write_writes,
        )
    }

    #[test]
    fn four_equal_members() {
        let rows = compare(&[Bytes(Bytes::GIB); 4], Bytes(512 * Bytes::KIB)).unwrap();
        let of = |layout, copies, arrangement| short(&named(&rows, layout, copies, arrangement));
        assert_eq!(of("linear", None, None), (4, 0, 0, 1, 1, 0, 1));
        assert_eq!(of("stripe", None, None), (4, 0, 0, 4, 4, 0, 1));
        assert_eq!(of("mirror", None, None), (1, 3, 3, 1, 4, 0, 4));
        assert_eq!(of("raid10", Some(2), Some(Arrangement::Near)), (2, 1, 2, 4, 4, 0, 2));
        assert_eq!(of("raid10", Some(2), Some(Arrangement::Far)), (2, 1, 2, 4, 4, 0, 2));
        assert_eq!(of("raid10", Some(2), Some(Arrangement::Offset)), (2, 1, 2, 4, 4, 0, 2));
        assert_eq!(of("raid5", None, None), (3, 1, 1, 4, 4, 2, 2));
        assert_eq!(of("raid6", None, None), (2, 2, 2, 4, 4, 1, 3));
        let least: Vec<usize> = rows.iter().map(|r| r.least_members).collect();
        assert_eq!(least, [1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4]);
    }

    #[test]
    fn eight_members_make_read_modify_write_the_cheaper() {
        let rows = compare(&[Bytes(Bytes::GIB); 8], Bytes(64 * Bytes::KIB)).unwrap();
        assert_eq!(short(&named(&rows, "raid5", None, None)), (7, 1, 1, 8, 8, 2, 2));
        assert_eq!(short(&named(&rows, "raid6", None, None)), (6, 2, 2, 8, 8, 3, 3));
        assert_eq!(short(&named(&rows, "raid10", Some(2), Some(Arrangement::Near))).2, 4);
    }

    /// Two and three members are few: the small arrays that are tried instead of them must still be possible.
    #[test]
    fn what_can_be_built_has_figures_whatever_the_members() {
        for members in 0..=MEMBERS_MAX.min(9) {
            for size in [64 * Bytes::KIB, Bytes::MIB, 100 * Bytes::GIB + 4096] {
                for row in compare(&vec![Bytes(size); members], Bytes(64 * Bytes::KIB)).unwrap() {
                    let enough = members >= row.least_members;
                    // RAID10's far halves need two chunks of each member.
                    let large = size >= Bytes::MIB || row.arrangement.is_none();
                    let why = (members, size, &row);
                    assert!(row.figures.is_some() || !enough || !large, "{why:?}");
                    assert!(row.figures.is_none() || enough, "{why:?}");
                }
            }
        }
        let rows = compare(&[Bytes(100 * Bytes::GIB); 2], Bytes(512 * Bytes::KIB)).unwrap();
        assert_eq!(short(&named(&rows, "mirror", None, None)), (100, 1, 1, 1, 2, 0, 2));
        let rows = compare(&[Bytes(100 * Bytes::GIB); 3], Bytes(512 * Bytes::KIB)).unwrap();
        assert_eq!(short(&named(&rows, "mirror", None, None)), (100, 2, 2, 1, 3, 0, 3));
    }

    #[test]
    fn what_cannot_be_built_says_why() {
        let rows = compare(&[Bytes(Bytes::GIB); 2], Bytes(64 * Bytes::KIB)).unwrap();
        let raid6 = named(&rows, "raid6", None, None);
        assert_eq!(raid6.figures, None);
        assert!(raid6.impossible.unwrap().contains("at least 4 members"));
        assert_eq!(compare(&[Bytes(Bytes::GIB); 17], Bytes(4096)), Err(17));
        let none = compare(&[], Bytes(0)).unwrap();
        assert!(none.iter().all(|r| r.figures.is_none()));
    }

    #[test]
    fn unequal_members_are_compared_by_what_they_give() {
        let sizes = [1, 2, 4].map(|gib| Bytes(gib * Bytes::GIB));
        let rows = compare(&sizes, Bytes(64 * Bytes::KIB)).unwrap();
        assert_eq!(short(&named(&rows, "stripe", None, None)), (7, 0, 0, 3, 3, 0, 1));
        assert_eq!(short(&named(&rows, "raid5", None, None)).0, 2);
        let near = named(&rows, "raid10", Some(2), Some(Arrangement::Near)).figures.unwrap();
        assert_eq!(
            (near.capacity, near.losses_guaranteed, near.losses_best),
            (Bytes(3 * Bytes::GIB / 2), 1, 1)
        );
    }

    #[test]
    fn arrays_of_arrays_survive_what_every_set_of_lost_volumes_says() {
        let array = |name: &str, members: Vec<LayoutNode>| {
            let layout = LayoutName::ALL.iter().find(|layout| layout.name() == name).unwrap();
            LayoutNode::Array { kind: layout.array(MODEL_CHUNK, 2, Arrangement::Near), members }
        };
        let leaves = |range: std::ops::Range<usize>| range.map(LayoutNode::Volume).collect::<Vec<_>>();
        let nested = [
            ("stripe", "mirror", 2),
            ("mirror", "stripe", 2),
            ("mirror", "mirror", 8),
            ("raid5", "mirror", 5),
            ("mirror", "raid5", 5),
            ("raid10", "raid5", 3),
            ("raid5", "stripe", 1),
            ("linear", "raid6", 2),
        ];
        for (outer, inner, expected) in nested {
            let each = if inner == "raid6" { 4 } else { 3 };
            let members = (0..3).map(|i| array(inner, leaves(i * each..(i + 1) * each))).collect();
            let tree = array(outer, members);
            let map = Map::new(&tree, &few_rows(&vec![Bytes(Bytes::GIB); 3 * each], MODEL_CHUNK)).unwrap();
            assert_eq!(tree.survives(), expected.min(3 * each), "{outer} of {inner}");
            // Which chunks stand or fall together is known of one level with parity only.
            if !tree.to_string().contains("RAID") || outer == "linear" {
                assert_eq!(
                    losses(&units(&map), 3 * each as u32).0 as usize,
                    tree.survives(),
                    "{outer} of {inner}"
                );
            }
        }
        for row in compare(&[Bytes(Bytes::GIB); 5], Bytes(65536)).unwrap() {
            let kind = LayoutName::ALL.iter().find(|layout| layout.name() == row.layout).unwrap();
            let (copies, arrangement) =
                (row.copies.unwrap_or(2), row.arrangement.unwrap_or(Arrangement::Near));
            let flat = LayoutNode::Array {
                kind: kind.array(MODEL_CHUNK, copies, arrangement),
                members: leaves(0..5),
            };
            assert_eq!(flat.survives(), row.figures.unwrap().losses_guaranteed as usize, "{}", row.layout);
        }
    }
}
