//! The arrays that are considered: one volume, and the layouts of several that survive the losses asked for.

use ebbtide_model::layout::{Arrangement, ArrayKind};
use ebbtide_model::units::Bytes;

/// Numbers of volumes that are tried.
pub const COUNTS: [u32; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24];
/// Most members of an array with parity: more make each rebuild a risk of its own.
const PARITY_MOST: u32 = 8;

/// Equal volumes as one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// How they are put together; linear is a volume alone.
    pub kind: ArrayKind,
    /// How many they are, at least 1.
    pub members: u32,
    /// Storage hosts that they are on, as many on each; 1 where they are the client's own. Copies are on different ones.
    pub hosts: u32,
}

/// Volumes of each host that are tried.
const PER_HOST: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 24];

/// The arrays of `copies` over `hosts`, in chunks of `chunk`: what `layout = "replicated"` makes of equal hosts.
pub fn replicated(hosts: u32, copies: u32, chunk: Bytes) -> Vec<Array> {
    let of = |each: u32| match (each, hosts == copies) {
        (1, true) => Array { kind: ArrayKind::Mirror, members: hosts, hosts },
        // A stripe over mirrors or over RAID10 of one member of each host: what an operation costs is the same.
        _ => {
            let kind = ArrayKind::Raid10 { chunk, copies, arrangement: Arrangement::Offset };
            Array { kind, members: hosts * each, hosts }
        }
    };
    PER_HOST.into_iter().map(of).collect()
}

/// The arrays of `members` volumes in chunks of `chunk` that survive the loss of any `may_lose` and offer the most of what does.
pub fn arrays(members: u32, may_lose: u32, chunk: Bytes) -> Vec<Array> {
    let copies = may_lose + 1;
    let kinds = match (may_lose, members) {
        (0, 1) => vec![ArrayKind::Linear],
        (0, _) => vec![ArrayKind::Stripe { chunk }],
        (_, n) if n < copies => Vec::new(),
        (_, n) if n == copies => vec![ArrayKind::Mirror],
        (_, n) => {
            let raid10 = ArrayKind::Raid10 { chunk, copies, arrangement: Arrangement::Near };
            let parity = match may_lose {
                1 => Some(ArrayKind::Raid5 { chunk }),
                2 if n >= 4 => Some(ArrayKind::Raid6 { chunk }),
                _ => None,
            };
            let raid10 = n.is_multiple_of(copies).then_some(raid10);
            raid10.into_iter().chain(parity.filter(|_| n <= PARITY_MOST)).collect()
        }
    };
    kinds.into_iter().map(|kind| Array { kind, members, hosts: 1 }).collect()
}

impl Array {
    /// Members whose bytes are the array's: what redundancy leaves.
    pub fn data_members(&self) -> f64 {
        (f64::from(self.members) - f64::from(self.parity())) / f64::from(self.copies())
    }

    /// Copies of every byte.
    pub fn copies(&self) -> u32 {
        self.kind.copies_on(self.members as usize) as u32
    }

    /// Members of a stripe that hold parity.
    pub fn parity(&self) -> u32 {
        self.kind.facts().parity() as u32
    }

    /// All data of a stripe that shares parity; nothing on layouts without.
    pub fn stripe(&self) -> Option<Bytes> {
        let chunk = self.kind.chunk().filter(|_| self.parity() > 0)?;
        Some(chunk * u64::from(self.members - self.parity()))
    }

    /// Its name: `single`, `stripe-4`, `mirror-2`, `raid10-6`, `raid5-4`; of RAID10 with more than two copies `raid10-6-of-3`; over hosts
    /// `replicated-6-over-3`.
    pub fn name(&self) -> String {
        match self.kind {
            _ if self.hosts > 1 => format!("replicated-{}-over-{}", self.members, self.hosts),
            ArrayKind::Linear => "single".to_owned(),
            ArrayKind::Raid10 { copies, .. } if copies > 2 => format!("raid10-{}-of-{copies}", self.members),
            kind => format!("{}-{}", kind.name(), self.members),
        }
    }

    /// Least bytes of each member for `capacity` to fit.
    pub fn member_size(&self, capacity: Bytes) -> Bytes {
        Bytes((capacity.0 as f64 / self.data_members()).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::layout::compare::compare;

    const CHUNK: Bytes = Bytes(256 << 10);

    /// What each array keeps and survives is what the layout itself says, which tries every loss.
    #[test]
    fn arrays_hold_and_survive_what_their_layouts_do() {
        let mut seen = 0;
        for (members, may_lose) in COUNTS.into_iter().flat_map(|n| (0..=3).map(move |lost| (n, lost))) {
            for array in arrays(members, may_lose, CHUNK).into_iter().filter(|array| array.members <= 12) {
                let sizes = vec![Bytes(Bytes::GIB); members as usize];
                let rows = compare(&sizes, CHUNK).expect("few members");
                let mut kinds = rows.iter().filter(|row| {
                    row.layout == array.kind.name()
                        && row.copies.is_none_or(|copies| copies == array.copies())
                        && row.arrangement.is_none_or(|arrangement| arrangement == Arrangement::Near)
                });
                let Some(row) = kinds.next() else {
                    // Four copies are not compared by `ebb layout compare`.
                    assert!(array.copies() > 3, "{array:?}");
                    continue;
                };
                let figures = row.figures.as_ref().expect("can be built");
                assert_eq!(figures.losses_guaranteed, may_lose, "{array:?}");
                let data = figures.capacity.0 as f64 / Bytes::GIB as f64;
                assert!((data - array.data_members()).abs() < 1e-6, "{array:?}: {data}");
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn copies_over_hosts_are_on_as_many_members_of_each() {
        for (hosts, copies) in [(2, 2), (3, 2), (3, 3), (4, 3)] {
            for array in replicated(hosts, copies, CHUNK) {
                assert_eq!((array.members % hosts, array.copies()), (0, copies), "{array:?}");
                let data = f64::from(array.members) / f64::from(copies);
                assert!((array.data_members() - data).abs() < 1e-9, "{array:?}");
            }
        }
        assert_eq!(replicated(3, 3, CHUNK)[0].kind, ArrayKind::Mirror);
        assert_eq!(replicated(3, 2, CHUNK)[1].name(), "replicated-6-over-3");
    }

    #[test]
    fn no_loss_is_survived_by_too_few() {
        assert!(arrays(1, 1, CHUNK).is_empty() && arrays(3, 3, CHUNK).is_empty());
        assert_eq!(arrays(1, 0, CHUNK)[0].name(), "single");
        let names: Vec<String> = arrays(6, 2, CHUNK).iter().map(Array::name).collect();
        assert_eq!(names, ["raid10-6-of-3", "raid6-6"]);
    }
}
