//! Copies on different hosts: which of them may be run without the others, and which may be brought up to date by what it missed.
//!
//! Both are answered by what md itself keeps on each member: the table of roles in its superblock, which says of every place of the array
//! whether its member was in use when the superblock was last written. md writes it to all members that are there, and waits for that, before the
//! first write of each assembly reaches any of them (md_write_start), and again before a write is acknowledged that a member missed
//! (md_error). So it is a generation stamp that nobody can forget to raise, whichever program assembled the half:
//!
//! - a member whose table still has every running member in use has taken no write without them: it stood still;
//! - a member whose table has an absent one in use cannot know what that one was given since: it must not be run alone.
//!
//! Counts of events tell neither (docs/decisions/re-adding-a-half.md).

use serde::{Deserialize, Serialize};

/// What a member's superblock says (`mdadm --examine`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superblock {
    /// Uuid of the array.
    pub array: String,
    /// Uuid of the member.
    pub member: String,
    /// Its place in the array, from 0; nothing where it is a spare.
    pub role: Option<usize>,
    /// Whether each place of the array had a member in use when this was written.
    pub in_use: Vec<bool>,
    /// Changes of the array when this was written.
    pub events: u64,
    /// When this was written, as mdadm tells it.
    pub updated: String,
    /// Sum over all of it.
    pub checksum: String,
}

impl Superblock {
    /// From what `mdadm --examine` prints of a member; nothing where that is none, or its sum is wrong. One with metadata 0.90 has no uuid of its own:
    /// its place stands for that.
    pub fn parse(text: &str) -> Option<Superblock> {
        let field = |key: &str| {
            text.lines().filter_map(|line| line.split_once(" : ")).find(|(name, _)| name.trim() == key)
        };
        let value = |key: &str| field(key).map(|(_, value)| value.trim().to_owned());
        let checksum = value("Checksum")?.strip_suffix(" - correct")?.to_owned();
        let (updated, events) = (value("Update Time")?, value("Events")?);
        let Some(role) = value("Device Role") else {
            let (array, (role, in_use)) = (value("UUID")?, old_table(text)?);
            let member =
                role.map_or_else(|| "spare".to_owned(), |place| format!("member {place} of {array}"));
            // Early ones wrote the upper half of the number before a dot.
            let events = events.rsplit('.').next()?.parse().ok()?;
            return Some(Superblock { array, member, role, in_use, events, updated, checksum });
        };
        let state = value("Array State")?;
        Some(Superblock {
            array: value("Array UUID")?,
            member: value("Device UUID")?,
            role: role.strip_prefix("Active device ").and_then(|place| place.parse().ok()),
            in_use: state.split(' ').next()?.chars().map(|place| place != '.').collect(),
            events: events.parse().ok()?,
            updated,
            checksum,
        })
    }

    /// Whether the member at `place` was in use when this was written.
    fn has(&self, place: usize) -> bool {
        self.in_use.get(place).copied().unwrap_or(false)
    }

    /// Whether this has what `other` has, and was written to without it since.
    pub fn went_on_without(&self, other: &Superblock) -> bool {
        self.denies(other) && !other.denies(self)
    }

    /// Whether this was written to without any of `others`.
    pub fn ran_without<'a>(&self, mut others: impl Iterator<Item = &'a Superblock>) -> bool {
        others.all(|other| self.denies(other))
    }

    /// Whether `other` was lost, or taken out, before this was written.
    pub fn denies(&self, other: &Superblock) -> bool {
        other.role.is_some_and(|place| !self.has(place))
    }
}

/// The place of a member with metadata 0.90, and whether each place has one in use: rows of number, major and minor number, place, and words.
fn old_table(text: &str) -> Option<(Option<usize>, Vec<bool>)> {
    let places: usize =
        text.lines().find_map(|line| line.trim().strip_prefix("Raid Devices : "))?.trim().parse().ok()?;
    let (mut own, mut in_use) = (None, vec![false; places]);
    let rows = text.lines().skip_while(|line| !line.contains("RaidDevice State")).skip(1);
    for row in rows {
        let mut words = row.split_whitespace();
        let is_own = words.next() == Some("this");
        let Some(place) = words.nth(3).and_then(|place| place.parse::<usize>().ok()) else {
            continue;
        };
        let is_active = words.take_while(|word| !word.starts_with('/')).any(|word| word == "active");
        match in_use.get_mut(place).filter(|_| is_active) {
            Some(_) if is_own => own = Some(place),
            Some(in_use) => *in_use = true,
            None => {}
        }
    }
    Some((own, in_use))
}

/// Why the members that are there are not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsure {
    /// These places had a member in use when the newest of those that are there were last written to, and none is there: they may have been written
    /// to since.
    Absent(Vec<usize>),
    /// These two, by their positions among those that are there, were both run without the other.
    Apart(usize, usize),
}

/// Which of the members that are there are to be run, by their positions in `found`: those that have everything that was ever
/// acknowledged. `given_up` says of a place that what only its member has may be lost.
///
/// # Errors
/// When none of them can be known to have everything.
pub fn newest(found: &[Superblock], given_up: &dyn Fn(usize) -> bool) -> Result<Vec<usize>, Unsure> {
    let known: Vec<usize> = (0..found.len()).filter(|at| found[*at].role.is_some()).collect();
    for (index, one) in known.iter().enumerate() {
        for other in &known[index + 1..] {
            if found[*one].denies(&found[*other]) && found[*other].denies(&found[*one]) {
                return Err(Unsure::Apart(*one, *other));
            }
        }
    }
    // One that another was run without has missed something; who missed nothing is left.
    let newest: Vec<usize> = known
        .iter()
        .copied()
        .filter(|at| !known.iter().any(|other| other != at && found[*other].denies(&found[*at])))
        .collect();
    let there = |place: usize| newest.iter().any(|at| found[*at].role == Some(place));
    let mut absent: Vec<usize> = newest
        .iter()
        .flat_map(|at| found[*at].in_use.iter().enumerate())
        .filter(|(place, in_use)| **in_use && !there(*place) && !given_up(*place))
        .map(|(place, _)| place)
        .collect();
    absent.sort_unstable();
    absent.dedup();
    match (newest.is_empty(), absent.is_empty()) {
        // Each was run without another: no one of them knows of all.
        (true, _) => {
            Err(Unsure::Apart(known.first().copied().unwrap_or(0), known.last().copied().unwrap_or(0)))
        }
        (false, true) => Ok(newest),
        (false, false) => Err(Unsure::Absent(absent)),
    }
}

/// Two members that were each run without the other, by their positions in `found`; nothing where one of them has all. Of those that some were
/// run without, one that knows them all still has only missed something.
pub fn apart(found: &[Superblock]) -> Option<(usize, usize)> {
    let newest =
        found.iter().enumerate().filter(|(_, one)| one.role.is_some()).max_by_key(|(_, one)| one.events)?;
    let (with, without): (Vec<usize>, Vec<usize>) =
        (0..found.len()).filter(|at| found[*at].role.is_some()).partition(|at| !newest.1.denies(&found[*at]));
    let ran = without.into_iter().find(|at| found[*at].ran_without(with.iter().map(|with| &found[*with])))?;
    Some((newest.0, ran))
}

/// Why a member that comes back is not brought up to date by what it missed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// It was run without one that runs now.
    #[error(
        "it was run without a member that is in use now, and may have writes that the array does not have"
    )]
    RanApart,
    /// The array went on from another one although this one may have been newer, or went on from this one and now runs from another.
    #[error("the array was started without it, or from another half, when it may have been the newer one")]
    GivenUp,
    /// A member that runs is not the one that it was when all were together.
    #[error(
        "a member that is in use now was exchanged by somebody else, and with it perhaps what the array holds"
    )]
    Exchanged,
    /// Its superblock is not the one that it was left with.
    #[error("its superblock is not the one that it was left with when its host was taken out")]
    Touched,
    /// It counts more changes than the array that it should have missed some of.
    #[error("it has seen more changes than the array that it was away from")]
    Ahead,
    /// It has no place of its own in the array.
    #[error("it has no place of its own in the array")]
    NoPlace,
}

/// What is written down of an array whose members are on different hosts, beside what they say themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// The uuid of the member at each place, since all were together or it was added here. A table of roles does not tell a member from one
    /// that took its place.
    pub members: Vec<Option<String>>,
    /// Places that the array went on without although they may have been newer, or away while it was found to have gone on from another
    /// half: what they hold may be of another past.
    pub given_up: Vec<usize>,
}

impl Known {
    /// Notes the members that are in use, where all of them are. One that was given up counts again where it is another member than the one that was
    /// noted: it was added as a whole, and a cut came before that was noted.
    pub fn together(&mut self, in_use: &[Superblock]) {
        let places = in_use.first().map_or(0, |first| first.in_use.len());
        let at = |place| in_use.iter().find(|superblock| superblock.role == Some(place));
        if places == 0 || !(0..places).all(|place| at(place).is_some()) {
            return;
        }
        let noted = |place: usize| self.members.get(place).and_then(Option::as_ref);
        self.given_up
            .retain(|place| at(*place).zip(noted(*place)).is_none_or(|(now, noted)| now.member == *noted));
        if self.given_up.is_empty() {
            self.members = (0..places).map(|place| at(place).map(|found| found.member.clone())).collect();
        }
    }

    /// Notes that the array goes on from `in_use`, and whoever else is away may be of another past.
    pub fn fork(&mut self, in_use: &[usize], places: usize) {
        self.given_up = (0..places).filter(|place| !in_use.contains(place)).collect();
    }

    /// Notes that the member at `place` holds now what the array holds, being `member`.
    pub fn renewed(&mut self, place: usize, member: &str) {
        if self.members.len() <= place {
            self.members.resize(place + 1, None);
        }
        self.members[place] = Some(member.to_owned());
        self.given_up.retain(|given_up| *given_up != place);
    }
}

/// Whether the member with the superblock `returning` stood still while those with the superblocks `running` were written to. `left` is its
/// superblock when its host was taken out, where it was.
///
/// # Errors
/// What the proof lacks.
pub fn stood_still(
    returning: &Superblock,
    running: &[Superblock],
    known: &Known,
    left: Option<&Superblock>,
) -> Result<(), NotProven> {
    if running.iter().any(|member| returning.denies(member)) {
        return Err(NotProven::RanApart);
    }
    if returning.role.is_none() || running.iter().any(|member| member.role == returning.role) {
        return Err(NotProven::NoPlace);
    }
    // A half that was given up and runs none the less was started by somebody else: it is then the others that are of another past.
    let is_given_up = |member: &Superblock| member.role.is_some_and(|place| known.given_up.contains(&place));
    if running.iter().chain([returning]).any(is_given_up) {
        return Err(NotProven::GivenUp);
    }
    let is_known = |member: &Superblock| {
        let there = member.role.and_then(|place| known.members.get(place));
        there.is_some_and(|known| known.as_deref() == Some(&member.member))
    };
    if !running.iter().chain([returning]).all(is_known) {
        return Err(NotProven::Exchanged);
    }
    if left.is_some_and(|left| left != returning) {
        return Err(NotProven::Touched);
    }
    if running.iter().any(|member| member.events < returning.events) {
        return Err(NotProven::Ahead);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMINED: &str = include_str!("../tests/outputs/mdadm-examine.txt");

    #[test]
    fn a_superblock_is_read_from_what_mdadm_prints() {
        let read = Superblock::parse(EXAMINED).expect("a superblock");
        assert_eq!((read.role, read.in_use.as_slice(), read.events), (Some(0), &[true, true][..], 17));
        assert_eq!(read.checksum, "79409999");
        let alone = EXAMINED.replace("AA ('A'", "A. ('A'").replace("Active device 0", "spare");
        let alone = Superblock::parse(&alone).expect("a superblock");
        assert_eq!((alone.role, alone.in_use.as_slice()), (None, &[true, false][..]));
        assert_eq!(Superblock::parse(&EXAMINED.replace("- correct", "- expected 00000000")), None);
        assert_eq!(Superblock::parse("mdadm: No md superblock detected on /dev/vdb.\n"), None);
    }

    #[test]
    fn a_superblock_of_the_old_format_is_read_too() {
        let read =
            Superblock::parse(include_str!("../tests/outputs/mdadm-examine-090.txt")).expect("a superblock");
        assert_eq!((read.role, read.in_use.as_slice(), read.events), (Some(0), &[true, true, false][..], 21));
        assert_eq!(
            (read.array.as_str(), read.checksum.as_str()),
            ("e3f62b38:2e32fcf9:314491c8:d5e07b3e", "9899cf7c")
        );
    }

    #[test]
    fn two_that_ran_without_each_other_are_told_from_one_that_missed_something() {
        let both = [superblock(0, "A.", 20), superblock(1, ".A", 25)];
        assert_eq!(apart(&both), Some((1, 0)));
        assert_eq!(apart(&[superblock(0, "A.", 20), superblock(1, "AA", 17)]), None);
        // The second was lost, the first was lost before that and is back.
        let back = [superblock(0, "A.A", 30), superblock(1, ".AA", 20), superblock(2, "A.A", 30)];
        assert_eq!(apart(&back), None);
        assert_eq!(apart(&[]), None);
    }

    fn superblock(role: usize, in_use: &str, events: u64) -> Superblock {
        let in_use = in_use.chars().map(|place| place == 'A').collect();
        let of = |what: &str| format!("{what}{role}");
        Superblock {
            array: "array".to_owned(),
            member: of("member"),
            role: Some(role),
            in_use,
            events,
            updated: String::new(),
            checksum: of("sum"),
        }
    }

    #[test]
    fn a_half_is_run_only_where_no_other_can_be_newer() {
        let none = |_| false;
        let (a, b) = (superblock(0, "AA", 6), superblock(1, "AA", 6));
        assert_eq!(newest(&[a.clone(), b.clone()], &none), Ok(vec![0, 1]));
        // The first is lost, the second goes on; the client is cut from power; the first comes back alone.
        assert_eq!(newest(std::slice::from_ref(&a), &none), Err(Unsure::Absent(vec![1])));
        assert_eq!(newest(std::slice::from_ref(&a), &|place| place == 1), Ok(vec![0]));
        let went_on = superblock(1, ".A", 9);
        assert_eq!(newest(std::slice::from_ref(&went_on), &none), Ok(vec![0]));
        assert_eq!(newest(&[a.clone(), went_on.clone()], &none), Ok(vec![1]));
        assert!(went_on.went_on_without(&a) && !a.went_on_without(&went_on) && !a.went_on_without(&b));
        assert!(!went_on.went_on_without(&superblock(0, "A.", 9)));
        // Both ran alone: as many events, and neither is right.
        assert_eq!(newest(&[superblock(0, "A.", 9), went_on], &none), Err(Unsure::Apart(0, 1)));
    }

    fn together() -> Known {
        let mut known = Known::default();
        known.together(&[superblock(0, "AAA", 1), superblock(1, "AAA", 1), superblock(2, "AAA", 1)]);
        known
    }

    #[test]
    fn what_stood_still_is_told_from_what_ran_apart() {
        let away = superblock(0, "AAA", 6);
        let running = [superblock(1, ".AA", 9), superblock(2, ".AA", 9)];
        let ask = |returning: &Superblock, running: &[Superblock], left: Option<&Superblock>| {
            stood_still(returning, running, &together(), left)
        };
        assert_eq!(ask(&away, &running, None), Ok(()));
        assert_eq!(ask(&away, &running, Some(&away)), Ok(()));
        assert_eq!(ask(&superblock(0, "A.A", 6), &running, None), Err(NotProven::RanApart));
        assert_eq!(ask(&superblock(0, "A.A", 6), &running[1..], None), Ok(()));
        let touched = Superblock { checksum: "other".to_owned(), ..away.clone() };
        assert_eq!(ask(&touched, &running, Some(&away)), Err(NotProven::Touched));
        assert_eq!(ask(&superblock(0, "AAA", 10), &running, None), Err(NotProven::Ahead));
        assert_eq!(ask(&superblock(1, "AAA", 6), &running, None), Err(NotProven::NoPlace));
        let exchanged = Superblock { member: "another".to_owned(), ..running[0].clone() };
        assert_eq!(ask(&away, &[exchanged], None), Err(NotProven::Exchanged));
        assert_eq!(stood_still(&away, &running, &Known::default(), None), Err(NotProven::Exchanged));
        let mut forked = together();
        forked.fork(&[1, 2], 3);
        assert_eq!(stood_still(&away, &running, &forked, None), Err(NotProven::GivenUp));
        forked.renewed(0, "member0");
        assert_eq!(stood_still(&away, &running, &forked, None), Ok(()));
        // A cut came before it was noted that the first was added as a whole: its uuid tells.
        forked.fork(&[1, 2], 3);
        let all = |first: &str| {
            let mut all = [0, 1, 2].map(|role| superblock(role, "AAA", 12));
            all[0].member = first.to_owned();
            all
        };
        forked.together(&all("member0"));
        assert_eq!(forked.given_up, [0]);
        forked.together(&all("another"));
        assert_eq!((forked.given_up.as_slice(), forked.members[0].as_deref()), (&[][..], Some("another")));
        forked.renewed(0, "member0");
        // The array went on from the first; somebody else stopped it and started the others, to which the first comes.
        forked.fork(&[0], 3);
        let others = [superblock(1, "AAA", 9), superblock(2, "AAA", 9)];
        assert_eq!(stood_still(&away, &others, &forked, None), Err(NotProven::GivenUp));
    }

    /// What happens to three members of a mirror.
    #[derive(Debug, Clone)]
    enum Event {
        /// A write goes to all that run.
        Write,
        /// A member is lost while others run.
        Lose(usize),
        /// Everything stops, and those of this mask are there; run if the rule says so.
        Restart(u8),
        /// The same, and what the others have is given up.
        GiveUp(u8),
        /// The same, by somebody else who insists (`mdadm --run`).
        Insist(u8),
        /// Those of this mask come back to what runs, together.
        Return(u8),
        /// The same, and a cut comes before the last of them is brought back, or, if so, before that is noted.
        Cut(u8, bool),
        /// The same, by somebody else who makes a new member of it (`mdadm --add`).
        Exchange(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            2 => Just(Event::Write),
            2 => (0usize..3).prop_map(Event::Lose),
            2 => (1u8..8).prop_map(Event::Restart),
            1 => (1u8..8).prop_map(Event::GiveUp),
            1 => (1u8..8).prop_map(Event::Insist),
            3 => (1u8..8).prop_map(Event::Return),
            1 => (1u8..8, any::<bool>()).prop_map(|(mask, is_back)| Event::Cut(mask, is_back)),
            1 => (0usize..3).prop_map(Event::Exchange),
        ]
    }

    /// A model of md with the truth beside it: the writes that each member holds.
    struct Model {
        blocks: Vec<Superblock>,
        holds: Vec<Vec<u32>>,
        running: Vec<usize>,
        acknowledged: Vec<u32>,
        known: Known,
        number: u32,
    }

    impl Model {
        /// The table of roles goes to all that run.
        fn stamp(&mut self) {
            let events = self.running.iter().map(|at| self.blocks[*at].events).max().unwrap_or(0) + 1;
            for at in &self.running {
                self.blocks[*at].in_use = (0..3).map(|place| self.running.contains(&place)).collect();
                self.blocks[*at].events = events;
            }
        }

        fn join(&mut self, at: usize) {
            self.holds[at] = self.holds[self.running[0]].clone();
            self.running.push(at);
            self.running.sort_unstable();
            self.stamp();
        }

        /// A new member in the place of an old one.
        fn exchange(&mut self, at: usize) {
            self.number += 1;
            self.blocks[at].member = format!("member {}", self.number);
            self.join(at);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Whatever happens: what the rules run has every acknowledged write as long as nobody gives any up, and a member is brought up to date by
        /// what it missed only where that makes it the same as the others.
        #[test]
        fn no_acknowledged_write_is_lost_and_no_half_is_merged(events in proptest::collection::vec(event(), 1..40)) {
            let blocks: Vec<Superblock> = (0..3).map(|role| superblock(role, "AAA", 1)).collect();
            let known = together();
            let mut model = Model {
                blocks,
                holds: vec![Vec::new(); 3],
                running: vec![0, 1, 2],
                acknowledged: Vec::new(),
                known,
                number: 0,
            };
            let mut insisted = false;
            for event in events {
                let mut brought_back = false;
                let there = |mask: u8| (0..3).filter(|at| mask & (1 << at) != 0).collect::<Vec<usize>>();
                match event {
                    Event::Write if !model.running.is_empty() => {
                        // Before the write goes to any of them.
                        model.stamp();
                        model.number += 1;
                        for at in &model.running {
                            model.holds[*at].push(model.number);
                        }
                        model.acknowledged.push(model.number);
                    }
                    Event::Lose(at) if model.running.len() > 1 => {
                        model.running.retain(|other| *other != at);
                        model.stamp();
                    }
                    Event::Restart(mask) | Event::GiveUp(mask) => {
                        let there = there(mask);
                        let found: Vec<Superblock> = there.iter().map(|at| model.blocks[*at].clone()).collect();
                        let gives_up = matches!(event, Event::GiveUp(_));
                        let newest = newest(&found, &|_| gives_up);
                        model.running = newest.map_or_else(|_| Vec::new(), |newest| newest.iter().map(|at| there[*at]).collect());
                        if gives_up && !model.running.is_empty() {
                            insisted = true;
                            model.known.fork(&model.running, 3);
                        }
                        for at in model.running.iter().filter(|_| !insisted) {
                            prop_assert_eq!(&model.holds[*at], &model.acknowledged, "run without all that was acknowledged");
                        }
                        for at in &model.running {
                            prop_assert_eq!(&model.holds[*at], &model.holds[model.running[0]], "run with different copies");
                        }
                    }
                    Event::Insist(mask) => {
                        // The one with most changes, with those that are as it is.
                        let there = there(mask);
                        let best = there.iter().copied().max_by_key(|at| model.blocks[*at].events).unwrap_or(0);
                        let same = |at: &usize| model.blocks[*at].in_use == model.blocks[best].in_use && model.holds[*at] == model.holds[best];
                        model.running = there.into_iter().filter(same).collect();
                        insisted = true;
                    }
                    Event::Return(mask) | Event::Cut(mask, _) if !model.running.is_empty() => {
                        let running: Vec<Superblock> = model.running.iter().map(|at| model.blocks[*at].clone()).collect();
                        let away: Vec<usize> = there(mask).into_iter().filter(|at| !model.running.contains(at)).collect();
                        let proof = |at: &usize| stood_still(&model.blocks[*at], &running, &model.known, None).is_ok();
                        let proven: Vec<usize> = away.iter().copied().filter(proof).collect();
                        if proven.len() < away.len() {
                            let kept: Vec<usize> = model.running.iter().chain(&proven).copied().collect();
                            model.known.fork(&kept, 3);
                        }
                        for at in away.iter().copied() {
                            let cut = if away.last() == Some(&at) { &event } else { &Event::Return(mask) };
                            if matches!(cut, Event::Cut(_, false)) {
                                break;
                            }
                            if proven.contains(&at) {
                                // What those that run hold and it does not is copied to it, and nothing else.
                                let mut merged = model.holds[at].clone();
                                merged.extend(model.holds[model.running[0]].iter().filter(|write| !model.holds[at].contains(write)));
                                merged.sort_unstable();
                                prop_assert_eq!(&merged, &model.holds[model.running[0]], "merged with what ran apart");
                                model.join(at);
                            } else {
                                model.exchange(at);
                                let member = model.blocks[at].member.clone();
                                if !matches!(cut, Event::Cut(..)) {
                                    model.known.renewed(at, &member);
                                }
                            }
                        }
                        brought_back = !away.is_empty();
                    }
                    Event::Exchange(at) if !model.running.is_empty() && !model.running.contains(&at) => {
                        insisted = true;
                        model.exchange(at);
                    }
                    _ => {}
                }
                let in_use: Vec<Superblock> = model.running.iter().map(|at| model.blocks[*at].clone()).collect();
                model.known.together(&in_use);
                if brought_back && in_use.len() == 3 {
                    prop_assert!(model.known.given_up.is_empty(), "what was brought back is thought to be of another past");
                }
            }
        }
    }
}
