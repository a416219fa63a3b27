//! The stripe cache of RAID5 and RAID6, as md's `raid5.c` keeps it: writes gather here until their stripes are written.
//!
//! ```text
//!            member 0  member 1  member 2  member 3
//! line 0     page      page      page      parity     what lies at the same place of all members
//! line 1     page      page      page      parity
//! ...
//! ```
//!
//! - New pages of a line that leave nothing to be read for its parity are written at once, with the parity.
//! - Otherwise the line first reads: the old pages and the old parity (read-modify-write), or the rest of the line
//!   (reconstruct-write), whichever is fewer, of equals the rest (`handle_stripe_dirtying`).
//! - While any line reads for that, others wait, and what is written meanwhile may complete them. When none reads any more,
//!   all that wait begin (`raid5_activate_delayed`).
//! - Pages of a line stay known until newer lines take its place (`stripe_cache_size`, 256).
//! - Lines side by side that want the same of a member at the same instant are one request there.
//!
//! Reads of an array with all its members go past the cache; with a failed one they go through it, and a page of the failed
//! member is computed from all others.

use super::array::{Below, Lost, Part};
use super::record::Recorder;
use ebbtide_model::layout::Map;
use ebbtide_model::units::{Bytes, Instant, MemberOffset};
use ebbtide_model::workload::OpKind;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Bytes of every member that the cache holds: 256 pages.
const CACHED: Bytes = Bytes(256 * PAGE.0);
pub(super) const PAGE: Bytes = Bytes(4096);
/// Most members that a set has room for.
pub(super) const MEMBERS_MAX: usize = 128;

/// Members by position, one bit each.
type Members = u128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is under way.
    Idle,
    /// Until no other line reads.
    Delayed,
    /// What its parity needs, until an instant.
    Reading,
    /// New pages and parity, until an instant.
    Writing,
}

/// What lies at the same place of all members.
#[derive(Debug, Clone)]
struct Line {
    phase: Phase,
    /// Whether it counts among those that read.
    active: bool,
    /// Whether it is among those to look at.
    touched: bool,
    /// Members whose page is known, from this instant on.
    known: Members,
    known_at: Instant,
    /// Members with a new page, and those of them whose page is new as a whole.
    new: Members,
    whole: Members,
    /// Writes that wait for it.
    waiting: Vec<u32>,
    client: usize,
    /// When it was last used.
    used: u64,
}

impl Line {
    const EMPTY: Line = Line {
        phase: Phase::Idle,
        active: false,
        touched: false,
        known: 0,
        known_at: Instant::START,
        new: 0,
        whole: 0,
        waiting: Vec::new(),
        client: 0,
        used: 0,
    };
}

/// A write whose lines are not all written.
#[derive(Debug, Clone, Copy)]
struct Pending {
    lines: u32,
    end: Instant,
}

/// The cache.
#[derive(Debug, Clone)]
pub(super) struct Stripes {
    /// Bytes of one member in a line: no less than a page, and more where all operations and chunks are multiples.
    page: Bytes,
    members: usize,
    lines: HashMap<u64, Line>,
    /// Lines in order of use, with when that was.
    by_use: VecDeque<(u64, u64)>,
    clock: u64,
    touched: Vec<u64>,
    delayed: Vec<u64>,
    active: usize,
    /// Ends of what is under way.
    ends: BinaryHeap<Reverse<(Instant, u64)>>,
    pending: HashMap<u32, Pending>,
    /// When there is something to do.
    due: Instant,
}

/// What a line wants of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    write: bool,
    member: usize,
    line: u64,
}

impl Stripes {
    /// Over so many members, for operations that are multiples of `unit`.
    pub(super) fn new(members: usize, chunk: Bytes, unit: Bytes) -> Self {
        let (mut page, mut rest) = (chunk.0, unit.0);
        while rest > 0 {
            (page, rest) = (rest, page % rest);
        }
        let page = if page.is_multiple_of(PAGE.0) { Bytes(page) } else { PAGE };
        Stripes {
            page,
            members,
            lines: HashMap::new(),
            by_use: VecDeque::new(),
            clock: 0,
            touched: Vec::new(),
            delayed: Vec::new(),
            active: 0,
            ends: BinaryHeap::new(),
            pending: HashMap::new(),
            due: Instant::NEVER,
        }
    }

    /// When [`Stripes::work`] has something to do.
    #[inline]
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The lines of a part of a member, and whether each is touched as a whole.
    fn lines_of(&self, part: &Part) -> impl Iterator<Item = (u64, bool)> + use<> {
        let (page, begin, end) = (self.page.0, part.offset.0, part.offset.0 + part.length.0);
        (begin / page..end.div_ceil(page))
            .map(move |line| (line, begin <= line * page && (line + 1) * page <= end))
    }

    fn line(&mut self, number: u64) -> &mut Line {
        let line = self.lines.entry(number).or_insert(Line::EMPTY);
        self.clock += 1;
        line.used = self.clock;
        self.by_use.push_back((number, self.clock));
        line
    }

    /// Takes a write, number `id` among those that are not done: its data are these parts of members.
    pub(super) fn write(&mut self, now: Instant, id: u32, client: usize, parts: &[Part]) {
        let mut lines = 0;
        for part in parts {
            for (number, whole) in self.lines_of(part) {
                let line = self.line(number);
                let member = 1 << part.member;
                line.new |= member;
                line.whole |= if whole { member } else { 0 };
                line.client = client;
                if line.waiting.last() != Some(&id) {
                    line.waiting.push(id);
                    lines += 1;
                }
                if !line.touched {
                    line.touched = true;
                    self.touched.push(number);
                }
            }
        }
        self.pending.insert(id, Pending { lines, end: now });
        self.due = self.due.min(now);
    }

    /// Reads these parts although members have failed; says when they are there.
    ///
    /// # Errors
    /// When more members have failed than parity makes up for.
    pub(super) fn read(
        &mut self,
        now: Instant,
        client: usize,
        parts: &[Part],
        failed: Members,
        map: &Map,
        below: &mut Below,
        recorder: &mut Recorder,
    ) -> Result<Instant, Lost> {
        check(failed, map)?;
        let mut wishes = Vec::new();
        let mut last = now;
        for part in parts {
            for (number, _) in self.lines_of(part) {
                let all = self.all();
                let line = self.line(number);
                last = last.max(line.known_at);
                if line.known >> part.member & 1 == 1 {
                    continue;
                }
                let asked = 1 << part.member;
                let wanted = if failed & asked == 0 { asked } else { all & !failed & !line.known };
                line.known |= wanted | asked;
                wishes.extend(members_of(wanted).map(|member| Wish { write: false, member, line: number }));
            }
        }
        for (number, end) in self.submit(now, client, wishes, below, recorder) {
            last = last.max(end);
            if let Some(line) = self.lines.get_mut(&number) {
                line.known_at = line.known_at.max(end);
            }
        }
        self.forget();
        Ok(last)
    }

    fn all(&self) -> Members {
        if self.members >= MEMBERS_MAX { Members::MAX } else { (1 << self.members) - 1 }
    }

    /// Does what is due at `now`; adds the writes that will be done, and when.
    ///
    /// # Errors
    /// When more members have failed than parity makes up for.
    pub(super) fn work(
        &mut self,
        now: Instant,
        failed: Members,
        map: &Map,
        below: &mut Below,
        recorder: &mut Recorder,
        done: &mut Vec<(u32, Instant)>,
    ) -> Result<(), Lost> {
        check(failed, map)?;
        let mut look = std::mem::take(&mut self.touched);
        while let Some(Reverse((_, number))) = self.ends.peek().copied().filter(|end| end.0.0 <= now) {
            self.ends.pop();
            let Some(line) = self.lines.get_mut(&number) else { continue };
            if line.phase == Phase::Writing {
                line.phase = Phase::Idle;
            }
            look.push(number);
        }
        look.sort_unstable();
        look.dedup();
        loop {
            let mut wishes = Vec::new();
            let mut begun = Vec::new();
            for number in look {
                self.look_at(now, number, failed, map, &mut wishes, &mut begun);
            }
            self.begin(now, wishes, begun, below, recorder, done);
            if self.active > 0 || self.delayed.is_empty() {
                break;
            }
            look = std::mem::take(&mut self.delayed);
            look.retain(|number| self.lines.get(number).is_some_and(|line| line.phase == Phase::Delayed));
            look.sort_unstable();
            look.dedup();
            for number in &look {
                if let Some(line) = self.lines.get_mut(number) {
                    (line.phase, line.active) = (Phase::Idle, true);
                    self.active += 1;
                }
            }
        }
        self.forget();
        self.due = self.ends.peek().map_or(Instant::NEVER, |end| end.0.0);
        Ok(())
    }

    /// What one line wants next.
    fn look_at(
        &mut self,
        now: Instant,
        number: u64,
        failed: Members,
        map: &Map,
        wishes: &mut Vec<Wish>,
        begun: &mut Vec<u64>,
    ) {
        let all = self.all();
        let Some(line) = self.lines.get_mut(&number) else { return };
        line.touched = false;
        if line.phase == Phase::Reading && line.known_at <= now {
            line.phase = Phase::Idle;
        }
        if line.new == 0 || matches!(line.phase, Phase::Reading | Phase::Writing) {
            return;
        }
        let at = MemberOffset(number * self.page.0);
        let parity = map.parity_slots(at).fold(0, |set: Members, slot| set | 1 << slot);
        let modify = (line.new | parity) & !line.known;
        let reconstruct = all & !parity & !line.whole & !line.known;
        let reads = match modify == 0 || reconstruct == 0 {
            true => 0,
            false => fewer(modify, reconstruct, failed, all & !line.known),
        };
        if reads == 0 {
            let written = (line.new | parity) & !failed;
            wishes.extend(members_of(written).map(|member| Wish { write: true, member, line: number }));
            line.known |= line.new | parity;
            (line.new, line.whole) = (0, 0);
            line.phase = Phase::Writing;
            if std::mem::take(&mut line.active) {
                self.active -= 1;
            }
            begun.push(number);
        } else if line.active {
            wishes.extend(members_of(reads & !failed).map(|member| Wish { write: false, member, line: number }));
            line.known |= reads;
            line.phase = Phase::Reading;
            begun.push(number);
        } else if line.phase != Phase::Delayed {
            line.phase = Phase::Delayed;
            self.delayed.push(number);
        }
    }

    /// Begins what the lines want.
    fn begin(
        &mut self,
        now: Instant,
        wishes: Vec<Wish>,
        begun: Vec<u64>,
        below: &mut Below,
        recorder: &mut Recorder,
        done: &mut Vec<(u32, Instant)>,
    ) {
        let client = begun.first().and_then(|number| self.lines.get(number)).map_or(0, |line| line.client);
        let ends = self.submit(now, client, wishes, below, recorder);
        for number in begun {
            let Some(line) = self.lines.get_mut(&number) else { continue };
            let end = ends.get(&number).copied().unwrap_or(now);
            self.ends.push(Reverse((end, number)));
            if line.phase == Phase::Reading {
                line.known_at = line.known_at.max(end);
                continue;
            }
            for id in line.waiting.drain(..) {
                let Some(pending) = self.pending.get_mut(&id) else { continue };
                pending.lines -= 1;
                pending.end = pending.end.max(end);
                if pending.lines == 0 {
                    done.push((id, pending.end));
                    self.pending.remove(&id);
                }
            }
        }
    }

    /// Sends what is wished, neighbours as one request; says when each line has all of it.
    fn submit(
        &self,
        now: Instant,
        client: usize,
        mut wishes: Vec<Wish>,
        below: &mut Below,
        recorder: &mut Recorder,
    ) -> HashMap<u64, Instant> {
        wishes.sort_unstable();
        wishes.dedup();
        let mut ends: HashMap<u64, Instant> = HashMap::new();
        let follows = |a: &Wish, b: &Wish| (a.write, a.member, a.line + 1) == (b.write, b.member, b.line);
        for run in wishes.chunk_by(follows) {
            let Some(first) = run.first() else { continue };
            let op = if first.write { OpKind::Write } else { OpKind::Read };
            let (offset, length) = (MemberOffset(first.line * self.page.0), self.page * run.len() as u64);
            let part = Part { member: first.member, offset, length };
            let end = below.io(now, op, client, part, &mut |length, end| {
                recorder.member(part.member, op, length, now, end);
            });
            for wish in run {
                let latest = ends.entry(wish.line).or_insert(now);
                *latest = end.max(*latest);
            }
        }
        ends
    }

    /// Makes room: the lines that were used longest ago go, as far as nothing is under way in them.
    fn forget(&mut self) {
        let most = (CACHED.0 / self.page.0).max(1) as usize;
        let mut busy = Vec::new();
        while self.lines.len() - busy.len() > most {
            let Some((number, used)) = self.by_use.pop_front() else { break };
            match self.lines.get(&number) {
                Some(line) if line.used != used => {}
                Some(line) if line.new == 0 && line.phase == Phase::Idle => {
                    self.lines.remove(&number);
                }
                Some(_) => busy.push((number, used)),
                None => {}
            }
        }
        busy.into_iter().rev().for_each(|line| self.by_use.push_front(line));
        if self.by_use.len() > 8 * self.lines.len() + 64 {
            let lines = &self.lines;
            self.by_use.retain(|(number, used)| lines.get(number).is_some_and(|line| line.used == *used));
        }
    }
}

/// Whether parity makes up for these members.
fn check(failed: Members, map: &Map) -> Result<(), Lost> {
    match failed.count_ones() as usize > map.parity_slots(MemberOffset::START).count() {
        true => Err(Lost { member: failed.trailing_zeros() as usize }),
        false => Ok(()),
    }
}

/// What is read before a line can be written: the fewer of what either way needs. A way that needs a failed member's page
/// takes all that are left, since it has to be computed.
fn fewer(modify: Members, reconstruct: Members, failed: Members, unknown: Members) -> Members {
    let cost = |set: Members| (set & failed != 0, set.count_ones());
    let least = if cost(modify) < cost(reconstruct) { modify } else { reconstruct };
    if least & failed != 0 { unknown } else { least }
}

fn members_of(mut set: Members) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let member = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            member
        })
    })
}
