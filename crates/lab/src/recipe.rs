//! What images are made of: the lists and scripts in the `lab` folder, and their common key.

/// What the script that makes an image has beside it, by name.
pub(super) const FILES: &[(&str, &str)] = &[
    ("build", include_str!("../../../lab/build")),
    ("packages", include_str!("../../../lab/packages")),
    ("modules", include_str!("../../../lab/modules")),
    ("early-init", include_str!("../../../lab/early-init")),
    ("init", include_str!("../../../lab/init")),
    ("ebb", include_str!("../../../lab/ebb")),
    ("uml-init", include_str!("../../../lab/uml-init")),
    ("uml-rules", UML_RULES),
    ("system-packages", include_str!("../../../lab/system/packages")),
    ("system-modules", include_str!("../../../lab/system/modules")),
    ("system-configure", SYSTEM_CONFIGURE),
    ("ebb-agent", include_str!("../../../lab/system/ebb-agent")),
    ("ebb-agent.service", include_str!("../../../lab/system/ebb-agent.service")),
    ("ebb.mount", include_str!("../../../lab/system/ebb.mount")),
];

/// Names disks of guests of User-Mode Linux.
pub(super) const UML_RULES: &str = include_str!("../../../lab/uml-rules");
/// What its guests run that take commands.
pub(super) const UML_AGENT: &str = include_str!("../../../lab/uml-agent");
/// Does in a system disk what maintainer scripts would have done.
pub(super) const SYSTEM_CONFIGURE: &str = include_str!("../../../lab/system/configure");

/// Names images: another recipe has another key.
pub fn key() -> String {
    let mut hash = Hash::default();
    FILES.iter().for_each(|(_, content)| hash.add(content.as_bytes()));
    hash.text()
}

/// FNV-1a in 64 bits: keys that stay the same from build to build, which the standard library's hasher does
/// not promise. Nobody who could forge one gains anything.
#[derive(Debug)]
pub(super) struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Adds bytes and their length.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&bytes.len().to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// As 16 hexadecimal digits.
    pub fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_words_without_comments() {
        let of = |name| FILES.iter().find(|(other, _)| *other == name).expect("a list").1;
        assert!(of("packages").contains(" mdadm ") || of("packages").contains("\nmdadm "));
        assert!(of("modules").contains(" raid456 "));
        let lists = ["packages", "modules", "system-packages", "system-modules"].map(of);
        for line in lists.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#')) {
            // The script has a shell split them.
            let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.+ ".contains(c);
            assert!(line.chars().all(fine), "{line}");
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // Known answer of FNV-1a for "a", then the length: only the byte step is the published one.
        let mut step = Hash::default();
        step.0 = (step.0 ^ u64::from(b'a')).wrapping_mul(0x0100_0000_01b3);
        assert_eq!(step.text(), "af63dc4c8601ec8c");
    }
}
