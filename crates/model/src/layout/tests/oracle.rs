//! The slow, obvious truth: every array dealt out sector by sector into tables, the way one would deal
//! cards, with none of the arithmetic of the fast mapping.

use crate::layout::{Arrangement, ArrayKind, LayoutNode, Role};
use std::collections::{BTreeMap, BTreeSet};

pub const SECTOR: u64 = 512;

/// A sector of a leaf: (volume, number).
pub type Cell = (usize, u64);

/// For every sector of an array, where it is.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Numbers that copies may have: 0 to one less.
    pub copies: u32,
    /// By array sector: copy number -> cell.
    pub data: Vec<BTreeMap<u32, Cell>>,
    /// By array sector: the parity that depends on it, with the array sector of its stripe's start.
    pub parity: Vec<BTreeSet<(Role, Cell, u64)>>,
}

/// What a level says of its own members: where the copies of each of its sectors are, as (member,
/// sector), and the parity sectors (role, member, sector, stripe's first array sector) that depend on it.
#[derive(Default)]
struct Deal {
    data: Vec<Vec<(usize, u64)>>,
    parity: Vec<Vec<(Role, usize, u64, u64)>>,
}

impl Deal {
    /// Appends one chunk: its sectors, given the member and the chunk's row for each copy.
    fn chunk(&mut self, sectors: u64, copies: &[(usize, u64)], parity: &[(Role, usize, u64, u64)]) {
        for i in 0..sectors {
            self.data.push(copies.iter().map(|(m, row)| (*m, row * sectors + i)).collect());
            self.parity
                .push(parity.iter().map(|(r, m, row, first)| (*r, *m, row * sectors + i, *first)).collect());
        }
    }
}

pub fn table(layout: &LayoutNode, sizes: &[u64]) -> Table {
    match layout {
        LayoutNode::Volume(v) => Table {
            copies: 1,
            data: (0..sizes[*v] / SECTOR).map(|s| BTreeMap::from([(0, (*v, s))])).collect(),
            parity: vec![BTreeSet::new(); (sizes[*v] / SECTOR) as usize],
        },
        LayoutNode::Array { kind, members } => {
            let members: Vec<Table> = members.iter().map(|m| table(m, sizes)).collect();
            let sectors: Vec<u64> = members.iter().map(|m| m.data.len() as u64).collect();
            compose(&deal(*kind, &sectors), &members)
        }
    }
}

fn compose(deal: &Deal, members: &[Table]) -> Table {
    let inner = members.iter().map(|m| m.copies).max().unwrap_or(1);
    // Where a member's sector belongs in this array, for the stripes of parity inside members.
    let mut home: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    for (at, (places, parities)) in deal.data.iter().zip(&deal.parity).enumerate() {
        for place in places {
            home.insert(*place, at as u64);
        }
        for (_, m, sector, first) in parities {
            home.insert((*m, *sector), *first);
        }
    }
    let outer = deal.data.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let mut table = Table { copies: outer * inner, ..Table::default() };
    for (places, parities) in deal.data.iter().zip(&deal.parity) {
        let mut data = BTreeMap::new();
        let mut parity = BTreeSet::new();
        for (outer, (m, sector)) in places.iter().enumerate() {
            for (copy, cell) in &members[*m].data[*sector as usize] {
                data.insert(outer as u32 * inner + copy, *cell);
            }
            for (role, cell, first) in &members[*m].parity[*sector as usize] {
                parity.insert((*role, *cell, home[&(*m, *first)]));
            }
        }
        for (role, m, sector, first) in parities {
            for cell in members[*m].data[*sector as usize].values() {
                parity.insert((*role, *cell, *first));
            }
            for (inner_role, cell, inner) in &members[*m].parity[*sector as usize] {
                parity.insert((*inner_role, *cell, home[&(*m, *inner)]));
            }
        }
        table.data.push(data);
        table.parity.push(parity);
    }
    table
}

fn deal(kind: ArrayKind, sectors: &[u64]) -> Deal {
    let n = sectors.len();
    let smallest = sectors.iter().copied().min().unwrap_or(0);
    let chunk = kind.chunk().map_or(1, |c| c.0 / SECTOR);
    let rows = smallest / chunk;
    let mut deal = Deal::default();
    match kind {
        ArrayKind::Linear => {
            for (m, size) in sectors.iter().enumerate() {
                for s in 0..*size {
                    deal.chunk(1, &[(m, s)], &[]);
                }
            }
        }
        ArrayKind::Mirror => {
            // mdadm: whole multiples of 64 KiB, 128 sectors.
            for s in 0..smallest / 128 * 128 {
                let everywhere: Vec<_> = (0..n).map(|m| (m, s)).collect();
                deal.chunk(1, &everywhere, &[]);
            }
        }
        ArrayKind::Stripe { .. } => {
            // Row by row over the members that still have a chunk in it; the number of the chunk in
            // the whole array says whose turn it is.
            let mut number = 0;
            for row in 0.. {
                let taking_part: Vec<usize> = (0..n).filter(|m| sectors[*m] / chunk > row).collect();
                if taking_part.is_empty() {
                    break;
                }
                for _ in 0..taking_part.len() {
                    deal.chunk(chunk, &[(taking_part[number % taking_part.len()], row)], &[]);
                    number += 1;
                }
            }
        }
        ArrayKind::Raid10 { copies, arrangement: Arrangement::Near, .. } => {
            // Like cards: each chunk `copies` times, to one member after the other.
            let mut cells = (0..rows).flat_map(|row| (0..n).map(move |m| (m, row)));
            loop {
                let hand: Vec<_> = cells.by_ref().take(copies as usize).collect();
                if hand.len() < copies as usize {
                    break;
                }
                deal.chunk(chunk, &hand, &[]);
            }
        }
        ArrayKind::Raid10 { copies, arrangement, .. } => {
            let copies = u64::from(copies);
            let section = rows / copies;
            for row in 0..section {
                // A row of n chunks; copy c of it is the same row turned right by c members.
                for first in 0..n {
                    let hand: Vec<_> = (0..copies)
                        .map(|c| {
                            let mut turned: Vec<usize> = (0..n).collect();
                            turned.rotate_left(c as usize);
                            let at = match arrangement {
                                Arrangement::Far => c * section + row,
                                _ => row * copies + c,
                            };
                            (turned[first], at)
                        })
                        .collect();
                    deal.chunk(chunk, &hand, &[]);
                }
            }
        }
        ArrayKind::Raid5 { .. } => deal_parity(&mut deal, n, rows, chunk, &[Role::ParityP]),
        ArrayKind::Raid6 { .. } => deal_parity(&mut deal, n, rows, chunk, &[Role::ParityP, Role::ParityQ]),
    }
    deal
}

/// Walks around the members: P on the last in row 0 and one to the left in each row after; then the
/// other parity, then the data.
fn deal_parity(deal: &mut Deal, n: usize, rows: u64, chunk: u64, roles: &[Role]) {
    let mut p = n - 1;
    for row in 0..rows {
        let around: Vec<usize> = (0..n).cycle().skip(p).take(n).collect();
        let (parity, data) = around.split_at(roles.len());
        let first = deal.data.len() as u64;
        let parity: Vec<_> = roles.iter().zip(parity).map(|(role, m)| (*role, *m, row, first)).collect();
        for m in data {
            deal.chunk(chunk, &[(*m, row)], &parity);
        }
        p = if p == 0 { n - 1 } else { p - 1 };
    }
}
