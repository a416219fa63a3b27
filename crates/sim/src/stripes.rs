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
//! - The cache has so many lines; writes for which none is free wait until a quarter is.
//! - Pages of a line stay known until newer lines take its place.
//! - Lines are served in order, and of each line its members from the last to the first. Lines side by side in one chunk that
//!   are written as a whole are served member by member (`stripe_add_to_batch_list`).
//! - A page continues a request of its member that is not sent yet (`blk_attempt_plug_merge` of Linux 6.13 and later). That is
//!   the newest of all, if it is that member's. Else it is the member's oldest, and no other.
//!
//! Reads of an array with all its members go past the cache; with a failed one they wait for lines as writes do, and a page of
//! the failed member is computed from all others.

use super::array::{Below, Lost, Part};
use super::record::Recorder;
use ebbtide_model::layout::Map;
use ebbtide_model::units::{Bytes, Instant, MemberOffset};
use ebbtide_model::workload::OpKind;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// Lines that the cache has (`stripe_cache_size`).
const LINES: usize = 256;
/// Lines in use below which writes go on that found none free.
const LINES_RESUMED: usize = LINES * 3 / 4;
const PAGE: Bytes = Bytes(4096);
/// Requests that the block layer gathers of a thread before it sends them (twice `BLK_MAX_REQUEST_COUNT`: for several disks),
/// and the length of the first one after which it does, too (`BLK_PLUG_FLUSH_SIZE`).
const PLUG: usize = 64;
const PLUG_BYTES: Bytes = Bytes(128 << 10);
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
    /// Members whose page is known, from this instant on.
    known: Members,
    known_at: Instant,
    /// Members with a new page, and those of them whose page is new as a whole.
    new: Members,
    whole: Members,
    /// Writes that wait for it.
    waiting: Vec<u32>,
    /// Members whose pages are read for somebody, and who that is.
    asked: Members,
    readers: Vec<u32>,
    client: usize,
    /// When it was last used.
    used: u64,
}

impl Line {
    fn is_in_use(&self) -> bool {
        self.new != 0 || self.asked != 0 || self.phase != Phase::Idle
    }

    const EMPTY: Line = Line {
        phase: Phase::Idle,
        active: false,
        known: 0,
        known_at: Instant::START,
        new: 0,
        whole: 0,
        waiting: Vec::new(),
        asked: 0,
        readers: Vec::new(),
        client: 0,
        used: 0,
    };
}

/// An operation whose lines are not all done.
#[derive(Debug, Clone, Copy)]
struct Pending {
    lines: usize,
    end: Instant,
}

/// Pages of one line, of an operation that waits for its turn.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    op: OpKind,
    line: u64,
    pages: Members,
    whole: Members,
    id: u32,
    client: usize,
}

/// The cache.
#[derive(Debug, Clone)]
pub(super) struct Stripes {
    members: usize,
    /// Lines of a chunk.
    chunk: u64,
    lines: HashMap<u64, Line>,
    /// Lines in order of use, with when that was.
    by_use: VecDeque<(u64, u64)>,
    clock: u64,
    /// What has not come to its lines yet, and whether it waits for lines to be free.
    arrivals: VecDeque<Arrival>,
    full: bool,
    /// Lines that somebody waits for.
    in_use: usize,
    delayed: Vec<u64>,
    active: usize,
    /// Ends of what is under way.
    ends: BinaryHeap<Reverse<(Instant, u64)>>,
    pending: HashMap<u32, Pending>,
    /// When there is something to do.
    due: Instant,
}

/// What a line wants of a member.
#[derive(Debug, Clone, Copy)]
struct Wish {
    write: bool,
    member: usize,
    line: u64,
    /// Of a line that is written as a whole.
    full: bool,
}

impl Wish {
    /// To read the pages of these members in `line`.
    fn reads(members: Members, line: u64) -> impl Iterator<Item = Wish> {
        members_of(members).map(move |member| Wish { write: false, member, line, full: false })
    }
}

/// A request to a member: lines from `begin` up to `end`.
#[derive(Debug, Clone, Copy)]
struct Run {
    write: bool,
    member: usize,
    begin: u64,
    end: u64,
}

impl Run {
    fn length(&self) -> Bytes {
        PAGE * (self.end - self.begin)
    }

    /// Makes a neighbour part of it.
    fn take(&mut self, wish: &Wish) -> bool {
        let is_neighbour = wish.line == self.end || wish.line + 1 == self.begin;
        if (self.write, self.member) != (wish.write, wish.member) || !is_neighbour {
            return false;
        }
        (self.begin, self.end) = (self.begin.min(wish.line), self.end.max(wish.line + 1));
        true
    }
}

impl Stripes {
    /// Over so many members.
    pub(super) fn new(members: usize, chunk: Bytes) -> Self {
        Stripes {
            members,
            chunk: (chunk.0 / PAGE.0).max(1),
            lines: HashMap::new(),
            by_use: VecDeque::new(),
            clock: 0,
            arrivals: VecDeque::new(),
            full: false,
            in_use: 0,
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
    fn lines_of(part: &Part) -> impl Iterator<Item = (u64, bool)> + use<> {
        let (page, begin, end) = (PAGE.0, part.offset.0, part.offset.0 + part.length.0);
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

    /// Takes an operation, number `id` among those that are not done: its data are these parts of members.
    pub(super) fn take(&mut self, now: Instant, op: OpKind, id: u32, client: usize, parts: &[Part]) {
        let mut lines: BTreeMap<u64, (Members, Members)> = BTreeMap::new();
        for part in parts {
            for (number, whole) in Self::lines_of(part) {
                let (pages, all_whole) = lines.entry(number).or_default();
                *pages |= 1 << part.member;
                *all_whole |= if whole { 1 << part.member } else { 0 };
            }
        }
        self.pending.insert(id, Pending { lines: lines.len(), end: now });
        let arrival = |(line, (pages, whole))| Arrival { op, line, pages, whole, id, client };
        self.arrivals.extend(lines.into_iter().map(arrival));
        if !self.full {
            self.due = self.due.min(now);
        }
    }

    /// Lets the pages of the next operation come to their lines, as far as lines are free.
    fn admit(&mut self) -> Vec<u64> {
        let mut lines = Vec::new();
        // Who waited goes on without a pause: the pages of several come at once.
        let several = self.full;
        self.full &= self.in_use >= LINES_RESUMED;
        let next = self.arrivals.front().map(|arrival| arrival.id);
        let comes = |arrival: &Arrival| several || Some(arrival.id) == next;
        while let Some(arrival) = self.arrivals.front().copied().filter(comes) {
            let in_use = self.lines.get(&arrival.line).is_some_and(Line::is_in_use);
            self.full |= !in_use && self.in_use >= LINES;
            if self.full {
                break;
            }
            self.arrivals.pop_front();
            self.in_use += usize::from(!in_use);
            let line = self.line(arrival.line);
            line.client = arrival.client;
            match arrival.op {
                OpKind::Read => {
                    line.asked |= arrival.pages;
                    line.readers.push(arrival.id);
                }
                OpKind::Write => {
                    line.new |= arrival.pages;
                    line.whole |= arrival.whole;
                    line.waiting.push(arrival.id);
                }
            }
            lines.push(arrival.line);
        }
        lines
    }

    /// Reads these parts although members have failed, past all that waits; says when they are there.
    ///
    /// # Errors
    /// When more members have failed than parity makes up for.
    pub(super) fn read(
        &mut self,
        now: Instant,
        (client, parts): (usize, &[Part]),
        failed: Members,
        map: &Map,
        below: &mut Below,
        recorder: &mut Recorder,
    ) -> Result<Instant, Lost> {
        check(failed, map)?;
        let mut wishes = Vec::new();
        let mut last = now;
        for part in parts {
            for (number, _) in Self::lines_of(part) {
                let all = self.all();
                let line = self.line(number);
                last = last.max(line.known_at);
                if line.known >> part.member & 1 == 1 {
                    continue;
                }
                let asked = 1 << part.member;
                let wanted = wanted(asked, failed, all & !line.known);
                line.known |= wanted | asked;
                wishes.extend(Wish::reads(wanted, number));
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

    /// Does what is due at `now`; adds the operations that will be done, and when.
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
        let mut look = Vec::new();
        while let Some(Reverse((_, number))) = self.ends.peek().copied().filter(|end| end.0.0 <= now) {
            self.ends.pop();
            let Some(line) = self.lines.get_mut(&number) else { continue };
            match line.phase {
                // Somebody else reads more of it.
                Phase::Reading if line.known_at > now => {
                    self.ends.push(Reverse((line.known_at, number)));
                    continue;
                }
                Phase::Reading => line.phase = Phase::Idle,
                Phase::Writing => {
                    line.phase = Phase::Idle;
                    self.in_use -= usize::from(!line.is_in_use());
                }
                Phase::Idle | Phase::Delayed => {}
            }
            look.push(number);
        }
        look.sort_unstable();
        look.dedup();
        loop {
            let (mut wishes, mut begun) = (Vec::new(), Vec::new());
            while !look.is_empty() {
                for number in std::mem::take(&mut look) {
                    for id in self.serve(now, number, failed, &mut wishes, &mut begun) {
                        self.one_less(id, now, done);
                    }
                    self.look_at(now, number, failed, map, &mut wishes, &mut begun);
                }
                if self.active == 0 {
                    look = self.activate();
                }
            }
            self.begin(now, wishes, begun, below, recorder, done);
            look = self.admit();
            if look.is_empty() {
                break;
            }
        }
        self.forget();
        self.due = self.ends.peek().map_or(Instant::NEVER, |end| end.0.0);
        Ok(())
    }

    /// Lets the lines begin that wait.
    fn activate(&mut self) -> Vec<u64> {
        let mut begin = std::mem::take(&mut self.delayed);
        begin.retain(|number| match self.lines.get_mut(number) {
            Some(line) if line.phase == Phase::Delayed && !line.active => {
                (line.phase, line.active) = (Phase::Idle, true);
                self.active += 1;
                true
            }
            _ => false,
        });
        begin
    }

    /// Reads what is asked of one line; says whose reads of it are done.
    fn serve(
        &mut self,
        now: Instant,
        number: u64,
        failed: Members,
        wishes: &mut Vec<Wish>,
        begun: &mut Vec<u64>,
    ) -> Vec<u32> {
        let all = self.all();
        let Some(line) = self.lines.get_mut(&number) else { return Vec::new() };
        let is_busy = matches!(line.phase, Phase::Reading | Phase::Writing) || line.known_at > now;
        if line.asked == 0 || is_busy {
            return Vec::new();
        }
        let missing = line.asked & !line.known;
        if missing != 0 {
            let wanted = wanted(missing, failed, all & !line.known);
            wishes.extend(Wish::reads(wanted, number));
            line.known |= wanted | missing;
            line.phase = Phase::Reading;
            begun.push(number);
            return Vec::new();
        }
        line.asked = 0;
        self.in_use -= usize::from(!line.is_in_use());
        std::mem::take(&mut line.readers)
    }

    /// A line of this operation is done at `end`.
    fn one_less(&mut self, id: u32, end: Instant, done: &mut Vec<(u32, Instant)>) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.lines -= 1;
        pending.end = pending.end.max(end);
        if pending.lines == 0 {
            done.push((id, pending.end));
            self.pending.remove(&id);
        }
    }

    /// What one line wants next to be written.
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
        if line.new | line.asked == 0 || matches!(line.phase, Phase::Reading | Phase::Writing) {
            return;
        }
        if line.known_at > now {
            line.phase = Phase::Reading;
            self.ends.push(Reverse((line.known_at, number)));
            return;
        }
        let at = MemberOffset(number * PAGE.0);
        let parity = map.parity_slots(at).fold(0, |set: Members, slot| set | 1 << slot);
        let modify = (line.new | parity) & !line.known;
        let reconstruct = all & !parity & !line.whole & !line.known;
        let reads = match modify == 0 || reconstruct == 0 {
            true => 0,
            false => fewer(modify, reconstruct, failed, all & !line.known),
        };
        if reads == 0 {
            let written = (line.new | parity) & !failed;
            let full = line.whole == all & !parity;
            wishes.extend(members_of(written).map(|member| Wish { write: true, member, line: number, full }));
            line.known |= line.new | parity;
            (line.new, line.whole) = (0, 0);
            line.phase = Phase::Writing;
            if std::mem::take(&mut line.active) {
                self.active -= 1;
            }
            begun.push(number);
        } else if line.active {
            wishes.extend(Wish::reads(reads & !failed, number));
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
            for id in std::mem::take(&mut line.waiting) {
                self.one_less(id, end, done);
            }
        }
    }

    /// Sends what is wished, in this order, with what the block layer merges of it; says when each line has all of it.
    fn submit(
        &self,
        now: Instant,
        client: usize,
        mut wishes: Vec<Wish>,
        below: &mut Below,
        recorder: &mut Recorder,
    ) -> HashMap<u64, Instant> {
        let mut ends: HashMap<u64, Instant> = HashMap::new();
        let mut send = |plug: &mut Vec<Run>| {
            for run in plug.drain(..) {
                let op = if run.write { OpKind::Write } else { OpKind::Read };
                let (offset, length) = (MemberOffset(run.begin * PAGE.0), run.length());
                let part = Part { member: run.member, offset, length };
                let end = below.io(now, op, client, part, &mut |length, end| {
                    recorder.member(part.member, op, length, now, end);
                });
                for line in run.begin..run.end {
                    let latest = ends.entry(line).or_insert(now);
                    *latest = end.max(*latest);
                }
            }
        };
        let chunk = self.chunk;
        let is_beside = |a: &Wish, b: &Wish| a.line + 1 == b.line && !b.line.is_multiple_of(chunk);
        let goes_with = |a: &Wish, b: &Wish| a.line == b.line || a.full && b.full && is_beside(a, b);
        for batch in wishes.chunk_by_mut(goes_with) {
            batch.sort_by_key(|wish| Reverse(wish.member));
        }
        let mut plug: Vec<Run> = Vec::new();
        for wish in wishes {
            let is_there = |run: &Run| run.member == wish.member;
            let newest = plug.len().saturating_sub(1);
            let at =
                if plug.last().is_some_and(is_there) { Some(newest) } else { plug.iter().position(is_there) };
            if at.and_then(|at| plug.get_mut(at)).is_some_and(|run| run.take(&wish)) {
                continue;
            }
            if plug.len() >= PLUG || plug.first().is_some_and(|first| first.length() >= PLUG_BYTES) {
                send(&mut plug);
            }
            let Wish { write, member, line, .. } = wish;
            plug.push(Run { write, member, begin: line, end: line + 1 });
        }
        send(&mut plug);
        ends
    }

    /// Makes room: the lines that were used longest ago go, as far as nothing is under way in them.
    fn forget(&mut self) {
        let mut busy = Vec::new();
        while self.lines.len() - busy.len() > LINES {
            let Some((number, used)) = self.by_use.pop_front() else { break };
            match self.lines.get(&number) {
                Some(line) if line.used != used => {}
                Some(line) if !line.is_in_use() => {
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

/// What is read for these pages, of those unknown: a failed member's is computed from all others.
fn wanted(asked: Members, failed: Members, unknown: Members) -> Members {
    if asked & failed == 0 { asked } else { unknown & !failed }
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
