//! Which devices of a log stand on which, from their bytes alone.

use super::IostatRow;
use super::explain::Grouping;
use std::collections::{BTreeMap, BTreeSet};

/// Members' bytes agree with the array's within this: the kernel counts an array's requests when they begin and a
/// member's when they end, and iostat rounds.
const ADD_UP: f64 = 0.03;
/// Sums that agree as well as this are as good as each other: then neighbours in the log are taken.
const AS_GOOD: f64 = 0.005;
/// Members of a striped array do equal work within this.
pub(super) const EQUAL: f64 = 0.25;
/// Devices of equal work do at least this share of what the busiest of them does.
const PEER: f64 = 0.5;
/// Ways to compose an array that are weighed against those of the others, and arrays for which they are.
const MOST_WAYS: usize = 4;
const MOST_ARRAYS: usize = 6;

/// What stands on what.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Arrays with their members, as places of rows.
    pub groups: Vec<(Grouping, Vec<usize>)>,
    /// Arrays all of whose bytes are those of one disk, with it.
    pub carried: BTreeMap<String, String>,
    /// Volumes that stand on another array, with it.
    pub stands_on: BTreeMap<String, String>,
    /// Arrays that did something and of which nothing was found.
    pub without: Vec<String>,
}

/// How good a way is to compose an array: the first is the best.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Equal members, on two of which each write is.
    Copies,
    /// Equal members that add up.
    Even,
    /// One disk with all of its bytes.
    One,
    /// Each writes what it writes.
    Mirror,
    /// Members of unequal work that add up, or of different kinds.
    Uneven,
}

#[derive(Debug, Clone)]
struct Way {
    kind: Kind,
    /// Share of the array's bytes by which the sum differs.
    error: f64,
    /// Not neighbours in the log.
    apart: bool,
    members: Vec<usize>,
}

impl Way {
    /// The less, the better: a worse kind costs more than any error that is allowed.
    fn cost(&self) -> f64 {
        let kind = match self.kind {
            Kind::Copies => 0.0,
            // Where half of equal disks add up, those beside them are hardly as busy by chance.
            Kind::Even => AS_GOOD / 2.0,
            Kind::One => 1.0,
            Kind::Mirror => 2.0,
            Kind::Uneven => 3.0 + self.members.len() as f64 * ADD_UP,
        };
        let as_good = libm::floor(self.error / AS_GOOD) * AS_GOOD;
        kind + as_good + (f64::from(u8::from(self.apart)) + self.error) * AS_GOOD / 4.0
    }
}

/// Finds what the arrays among `rows` stand on; each disk is in one of them at most.
pub(super) fn find(rows: &[IostatRow]) -> Found {
    let leaves: Vec<usize> =
        (0..rows.len()).filter(|i| is_leaf(rows, *i) && rows[*i].bytes() > 0.0).collect();
    let mut arrays: Vec<usize> =
        (0..rows.len()).filter(|i| is_array(&rows[*i].device) && rows[*i].bytes() > 0.0).collect();
    // What stands on md comes after it.
    arrays.sort_by_key(|i| !is_md(&rows[*i].device));
    let ways: Vec<Vec<Way>> = arrays.iter().map(|array| ways(rows, &rows[*array], &leaves)).collect();

    let mut found = Found::default();
    let name = |index: usize| rows[index].device.clone();
    let mut open = Vec::new();
    for (array, way) in arrays.iter().zip(choose(&ways)) {
        let Some(way) = way else {
            open.push(*array);
            continue;
        };
        let mut members = way.members.clone();
        members.sort_unstable();
        match way.kind {
            Kind::One => _ = found.carried.insert(name(*array), name(members[0])),
            Kind::Mirror => found.groups.push((Grouping::Mirror(name(*array)), members)),
            Kind::Copies => found.groups.push((Grouping::Copies(name(*array)), members)),
            Kind::Even | Kind::Uneven => found.groups.push((Grouping::AddUp(name(*array)), members)),
        }
    }
    // Volumes on what is found, alone or all together.
    let below: Vec<usize> = arrays.iter().copied().filter(|array| !open.contains(array)).collect();
    let on = |of: &[usize], below: &[usize]| {
        below.iter().copied().find(|lower| off(rows, of, &rows[*lower], 1.0) <= ADD_UP)
    };
    let mut left = Vec::new();
    for array in open {
        match on(&[array], &below).filter(|_| !is_md(&rows[array].device)) {
            Some(lower) => _ = found.stands_on.insert(name(array), name(lower)),
            None => left.push(array),
        }
    }
    let under: Vec<usize> = below.into_iter().chain(leaves).collect();
    match on(&left, &under)
        .filter(|_| left.len() > 1 && !left.iter().any(|array| is_md(&rows[*array].device)))
    {
        Some(lower) => found.stands_on.extend(left.iter().map(|array| (name(*array), name(lower)))),
        None => found.without = left.into_iter().map(name).collect(),
    }
    found
}

/// The way for each array that leaves the fewest without and then adds up best.
fn choose(ways: &[Vec<Way>]) -> Vec<Option<&Way>> {
    let mut taken = BTreeSet::new();
    let (first, others) = ways.split_at(ways.len().min(MOST_ARRAYS));
    let mut chosen = weigh(first, &mut taken).1;
    chosen.reverse();
    chosen.iter().flatten().for_each(|way| taken.extend(way.members.iter().copied()));
    for own in others {
        let way = own.iter().find(|way| !way.members.iter().any(|member| taken.contains(member)));
        way.iter().for_each(|way| taken.extend(way.members.iter().copied()));
        chosen.push(way);
    }
    chosen
}

/// How many arrays are without a way at the least, what the ways cost, and these, the last first.
fn weigh<'a>(ways: &'a [Vec<Way>], taken: &mut BTreeSet<usize>) -> ((usize, f64), Vec<Option<&'a Way>>) {
    let Some((own, others)) = ways.split_first() else { return ((0, 0.0), Vec::new()) };
    let mut best = None;
    let free: Vec<&Way> =
        own.iter().filter(|way| !way.members.iter().any(|member| taken.contains(member))).collect();
    for way in free.into_iter().take(MOST_WAYS).map(Some).chain([None]) {
        let members = way.map_or(&[][..], |way| &way.members);
        taken.extend(members);
        let ((without, cost), mut chosen) = weigh(others, taken);
        members.iter().for_each(|member| _ = taken.remove(member));
        let cost = (without + usize::from(way.is_none()), cost + way.map_or(0.0, Way::cost));
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            chosen.push(way);
            best = Some((cost, chosen));
        }
    }
    best.unwrap_or_default()
}

/// By how much the bytes of `members` together differ from the array's, reads and `copies` of writes each, as a share of these.
fn off(rows: &[IostatRow], members: &[usize], array: &IostatRow, copies: f64) -> f64 {
    let differs = |of: fn(&IostatRow) -> Option<f64>, copies: f64| {
        (members.iter().filter_map(|i| of(&rows[*i])).sum::<f64>() - copies * of(array).unwrap_or(0.0)).abs()
    };
    (differs(|r| r.read_bytes, 1.0) + differs(|r| r.write_bytes, copies))
        / with_copies(array, copies).max(1.0)
}

/// Bytes of an array whose writes are on this many of its members.
fn with_copies(array: &IostatRow, copies: f64) -> f64 {
    array.read_bytes.unwrap_or(0.0) + copies * array.write_bytes.unwrap_or(0.0)
}

/// The ways to compose an array of these leaves, the best first.
fn ways(rows: &[IostatRow], array: &IostatRow, leaves: &[usize]) -> Vec<Way> {
    let mut found = Vec::new();
    let mut by_bytes = leaves.to_vec();
    by_bytes.sort_by(|a, b| rows[*b].bytes().total_cmp(&rows[*a].bytes()));
    let twice = array.write_bytes.unwrap_or(0.0) > ADD_UP * array.bytes();
    let orders = [(leaves, false), (&by_bytes[..], true)];
    let copies = [1.0, 2.0].into_iter().take(1 + usize::from(twice));
    for (copies, (order, apart)) in copies.flat_map(|copies| orders.map(|order| (copies, order))) {
        let all = with_copies(array, copies);
        for begin in 0..order.len() {
            let mut bytes = 0.0;
            let fit = |member: &&usize| {
                bytes += rows[**member].bytes();
                bytes <= all * (1.0 + ADD_UP)
            };
            let longest = order[begin..].iter().take_while(fit).count();
            // Sums only grow: those that add up are at the end.
            for count in (2..=longest).rev() {
                let members = &order[begin..begin + count];
                let error = off(rows, members, array, copies);
                if error > ADD_UP {
                    if members.iter().map(|i| rows[*i].bytes()).sum::<f64>() < all * (1.0 - ADD_UP) {
                        break;
                    }
                    continue;
                }
                let kind = match (copies > 1.0, are_peers(rows, members)) {
                    (false, true) => Kind::Even,
                    (false, false) => Kind::Uneven,
                    // Two are a mirror.
                    (true, true) if count > 2 => Kind::Copies,
                    (true, _) => continue,
                };
                found.push(Way { kind, error, apart, members: members.to_vec() });
            }
        }
    }
    let mut alone = leaves.iter().filter(|i| off(rows, &[**i], array, 1.0) <= ADD_UP);
    if let (Some(one), None) = (alone.next(), alone.next()) {
        found.push(Way {
            kind: Kind::One,
            error: off(rows, &[*one], array, 1.0),
            apart: false,
            members: vec![*one],
        });
    }
    if let Some(writes) = array.write_bytes.filter(|writes| *writes > 0.0) {
        let differs = |i: usize| (rows[i].write_bytes.unwrap_or(0.0) - writes).abs() / writes;
        let members: Vec<usize> = leaves.iter().copied().filter(|i| differs(*i) <= ADD_UP).collect();
        let error = members.iter().map(|i| differs(*i)).fold(0.0, f64::max);
        if members.len() > 1 {
            found.push(Way { kind: Kind::Mirror, error, apart: false, members });
        }
    }
    found.sort_by(|a, b| a.cost().total_cmp(&b.cost()));
    found
}

/// Whether these are of one kind and do about the same.
fn are_peers(rows: &[IostatRow], members: &[usize]) -> bool {
    let bytes = || members.iter().map(|i| rows[*i].bytes());
    let alike =
        members.windows(2).all(|pair| kind_of(&rows[pair[0]].device) == kind_of(&rows[pair[1]].device));
    alike && bytes().fold(f64::INFINITY, f64::min) >= PEER * bytes().fold(0.0, f64::max)
}

/// The most of `candidates` that do equal work, of one kind: unrelated disks are seldom equally busy.
pub(super) fn alike(rows: &[IostatRow], candidates: &[usize]) -> Option<Vec<usize>> {
    let most = candidates.iter().map(|i| rows[*i].bytes()).fold(0.0, f64::max);
    let near = |value: f64, of: f64| (value - of).abs() <= of * EQUAL;
    let equal_to = |centre: &usize| -> Vec<usize> {
        let centre = &rows[*centre];
        let equal = |row: &IostatRow| {
            kind_of(&row.device) == kind_of(&centre.device)
                && near(row.bytes(), centre.bytes())
                && near(row.requests(), centre.requests())
        };
        candidates.iter().copied().filter(|i| equal(&rows[*i])).collect()
    };
    // Another disk may happen to move as many bytes: the most that are alike count.
    let centres = candidates.iter().filter(|i| rows[**i].bytes() >= PEER * most);
    centres.map(equal_to).max_by_key(Vec::len).filter(|equal| equal.len() > 1)
}

/// What disks are called, by Linux' drivers.
const DISKS: [&str; 18] = [
    "sd", "vd", "xvd", "nvme", "hd", "mmcblk", "dasd", "nbd", "rbd", "pmem", "ubd", "cciss", "loop", "zram",
    "ram", "scd", "sr", "fd",
];

/// The driver whose name a disk has: a loop device and the disk below it are no two of one kind.
fn kind_of(name: &str) -> &str {
    let of_disk = |kind: &&&str| {
        name.strip_prefix(**kind).is_some_and(|rest| {
            let lettered = kind.ends_with('d') && kind.len() < 4;
            rest.starts_with(|c: char| c.is_ascii_digit() || c == '/' || lettered && c.is_ascii_lowercase())
                && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'/')
        })
    };
    DISKS.iter().find(of_disk).copied().unwrap_or_else(|| match name.split_once('-') {
        // sar's names: `dev8-16`.
        Some((major, _)) if is_sar(major) => major,
        _ => "",
    })
}

fn is_sar(major: &str) -> bool {
    major
        .strip_prefix("dev")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// sar's names of arrays of md and, by the number that most kernels give it, of the device mapper.
fn is_md(name: &str) -> bool {
    name.starts_with("dev9-")
        || name
            .strip_prefix("md")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'))
}

/// Whether it stands on others: md, DRBD, or the device mapper, whose devices have whatever name (`-N`).
pub(super) fn is_array(name: &str) -> bool {
    is_md(name)
        || ["dev252-", "dev253-", "dev254-"].iter().any(|prefix| name.starts_with(prefix))
        || kind_of(name).is_empty()
}

/// Not an array, and not a whole disk whose partitions are in the log too.
pub(super) fn is_leaf(rows: &[IostatRow], index: usize) -> bool {
    let Some(row) = rows.get(index).filter(|r| !is_array(&r.device)) else { return false };
    let is_partition_of = |part: &str| {
        let rest = part.strip_prefix(row.device.as_str()).map(|r| r.strip_prefix('p').unwrap_or(r));
        // `sdi1` and `sdi2` are no partitions of each other; nvme1n1 is none of nvme1.
        rest.is_some_and(|r| !r.is_empty() && r.bytes().all(|b| b.is_ascii_digit()))
            && (part[row.device.len()..].starts_with('p')
                || !row.device.ends_with(|c: char| c.is_ascii_digit()))
    };
    !rows.iter().any(|r| is_partition_of(&r.device))
}
