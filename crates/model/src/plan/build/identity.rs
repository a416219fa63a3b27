//! Identities of what a build makes: unlike those of any other build, and the same each time the plan is made.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// 128 bits that belong to one thing of one build of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity([u32; 4]);

/// Letters of an LVM uuid (`lvmid`'s own alphabet without the two signs, which need quotes in a shell).
const LVM_LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// Lengths of the groups of an LVM uuid.
const LVM_GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];

impl Identity {
    /// Of the thing `what` in build number `build` of `run`.
    pub fn new(run: &str, build: u32, what: &str) -> Identity {
        let text = format!("{run}/{build}/{what}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(fnv(text.as_bytes()));
        Identity([random.next_u32(), random.next_u32(), random.next_u32(), random.next_u32()])
    }

    /// As mdadm takes and prints a uuid.
    pub fn md_uuid(self) -> String {
        let [a, b, c, d] = self.0;
        format!("{a:08x}:{b:08x}:{c:08x}:{d:08x}")
    }

    /// As LVM takes and prints a uuid.
    pub fn lvm_uuid(self) -> String {
        let seed = u64::from(self.0[0]) << 32 | u64::from(self.0[1]);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut letter = || char::from(LVM_LETTERS[(random.next_u32() % 62) as usize]);
        let groups = LVM_GROUPS.map(|length| (0..length).map(|_| letter()).collect::<String>());
        groups.join("-")
    }

    /// As file systems, swap and LUKS take and print a uuid: of version 4 by its fixed bits (RFC 9562, 5.4).
    pub fn uuid(self) -> String {
        let [a, b, c, d] = self.0;
        let (b, c) = (b & 0xffff_0fff | 0x4000, c & 0x3fff_ffff | 0x8000_0000);
        format!("{a:08x}-{:04x}-{:04x}-{:04x}-{:04x}{d:08x}", b >> 16, b & 0xffff, c >> 16, c & 0xffff)
    }

    /// A label of 11 characters: XFS takes 12.
    pub fn label(self) -> String {
        format!("ebb{:08x}", self.0[0])
    }
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo).
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// `run` as part of names of volume groups and mappings, which take letters, digits and `_`.
pub(super) fn tag(run: &str) -> String {
    run.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(40).collect()
}
