use super::*;
use crate::layout::LayoutNode;
use crate::units::{ArrayOffset, Bytes};
use proptest::prelude::*;

fn header() -> String {
    let member = HeaderMember { name: "v".into(), path: "/v".into(), size: Bytes(1 << 20) };
    let header = Header {
        schema: Header::SCHEMA.to_owned(),
        run: 7,
        unit: Bytes(4096),
        members: vec![member],
        layout: LayoutNode::Volume(0),
        direct: true,
        sync: false,
    };
    serde_json::to_string(&header).expect("JSON") + "\n"
}

fn ledger(lines: &str) -> Result<Ledger, LedgerError> {
    Ledger::parse(&(header() + lines))
}

#[test]
fn the_newest_acknowledged_write_counts() {
    let text = "b 1 0 8192\na 1\nb 2 4096 4096\na 2\nb 3 0 4096\nb 4 8192 4096\na";
    let ledger = ledger(text).expect("is right, its last line torn");
    assert_eq!((ledger.acknowledged, ledger.in_flight), (2, 2));
    let unit = |offset: u64| ledger.units[&ArrayOffset(offset)].clone();
    assert_eq!(unit(0), Unit { acknowledged: Some(1), in_flight: vec![3] });
    assert_eq!(unit(4096), Unit { acknowledged: Some(2), in_flight: vec![] });
    let judge = |at: u64, offset, generation, run| {
        let stamp = Stamp { run, offset: ArrayOffset(offset), generation };
        ledger.judge(ArrayOffset(at), &ledger.units[&ArrayOffset(at)], Ok(stamp))
    };
    assert_eq!(judge(0, 0, 1, 7), UnitFinding::Good);
    assert_eq!(judge(0, 0, 3, 7), UnitFinding::Good, "what was in flight may be there");
    assert_eq!(judge(4096, 4096, 1, 7), UnitFinding::Lost { found: 1 });
    assert_eq!(
        judge(4096, 4096, 9, 7),
        UnitFinding::Newer { found: 9 },
        "the ledger's end is lost, and no write"
    );
    assert_eq!(judge(4096, 0, 2, 7), UnitFinding::Misplaced { offset: ArrayOffset(0) });
    assert_eq!(judge(4096, 4096, 2, 8), UnitFinding::Foreign);
    let damaged = |at| ledger.judge(at, &ledger.units[&at], Err(Unreadable::Damaged));
    assert_eq!(damaged(ArrayOffset(0)), UnitFinding::InFlight);
    assert_eq!(damaged(ArrayOffset(4096)), UnitFinding::Unreadable(Unreadable::Damaged));
}

#[test]
fn what_is_no_ledger_is_refused_with_its_line() {
    for (lines, words) in [
        ("x 1\n", "line 2: `x 1`"),
        ("b 1 0\n", "line 2"),
        ("a 1\n", "before it began"),
        ("b 1 0 4096\nb 1 0 4096\n", "line 3: a generation begins twice"),
        ("b 1 1 4096\n", "multiples"),
        ("b 1 18446744073709547520 8192\n", "64 bits"),
    ] {
        let error = ledger(lines).expect_err(lines).to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(matches!(Ledger::parse("{}\n"), Err(LedgerError::Header(_))));
    assert!(matches!(Ledger::parse(""), Err(LedgerError::Header(_))));
}

#[test]
fn units_divide_what_is_written() {
    assert_eq!(unit_of(Bytes(65536)), Some(Bytes(4096)));
    assert_eq!(unit_of(Bytes(512)), Some(Bytes(512)));
    for bs in [0, 256, 1536, 5000] {
        assert_eq!(unit_of(Bytes(bs)), None, "{bs}");
    }
}

proptest! {
    #[test]
    fn any_change_of_a_unit_is_found(
        run: u64, offset: u64, generation: u64, at in 0usize..512, flip in 1u8..,
    ) {
        let mut unit = vec![0; 512];
        let written = Stamp { run, offset: ArrayOffset(offset), generation };
        stamp(&mut unit, written);
        prop_assert_eq!(read(&unit), Ok(written));
        unit[at] ^= flip;
        prop_assert!(read(&unit).is_err());
    }

    #[test]
    fn the_front_of_one_and_the_back_of_another_is_torn(cut in 1usize..8, generation in 2u64..) {
        let (mut old, mut new) = (vec![0; 4096], vec![0; 4096]);
        stamp(&mut old, Stamp { run: 1, offset: ArrayOffset(0), generation: 1 });
        stamp(&mut new, Stamp { run: 1, offset: ArrayOffset(0), generation });
        new[cut * 512..].copy_from_slice(&old[cut * 512..]);
        prop_assert_eq!(read(&new), Err(Unreadable::Damaged));
    }

    #[test]
    fn no_ledger_panics(lines in "([ab] [0-9]{1,20}( [0-9]{1,20}){0,3}\n){0,9}") {
        let _ = ledger(&lines);
    }
}
