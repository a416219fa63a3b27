//! What an image is made of: lists and scripts in the `lab` folder, and their common key.

/// Rises when the same lists and scripts give another image.
const VERSION: u32 = 1;

/// Debian's package whose dependency is the newest kernel for virtual machines.
pub(super) const KERNEL: &str = "linux-image-cloud-amd64";

const PACKAGES: &str = include_str!("../../../lab/packages");
const MODULES: &str = include_str!("../../../lab/modules");
/// Process 1 of the initial RAM disk.
pub(super) const EARLY_INIT: &str = include_str!("../../../lab/early-init");
/// Process 1 of the root image.
pub(super) const INIT: &str = include_str!("../../../lab/init");
/// The package of User-Mode Linux.
pub(super) const UML: &str = "user-mode-linux";
/// That, and the C library that it is linked with.
pub(super) const UML_PACKAGES: &[&str] = &[UML, "libc6", "libgcc-s1"];
/// Where they are from: the kernel of Debian 12 dies on processors with AMX.
pub(super) const UML_SUITE: &str = "sid";
/// Process 1 of its guests.
pub(super) const UML_INIT: &str = include_str!("../../../lab/uml-init");
/// Names disks of its guests.
pub(super) const UML_RULES: &str = include_str!("../../../lab/uml-rules");
/// What its guests run that take commands.
pub(super) const UML_AGENT: &str = include_str!("../../../lab/uml-agent");

/// Packages of the guest, without what they depend on.
pub fn packages() -> Vec<&'static str> {
    words(PACKAGES)
}

/// Modules of the guest's kernel, without those they need.
pub(super) fn modules() -> Vec<&'static str> {
    words(MODULES)
}

/// Modules that a guest needs to reach its root image.
pub(super) const EARLY_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "squashfs", "overlay"];

const SYSTEM_PACKAGES: &str = include_str!("../../../lab/system/packages");
const SYSTEM_MODULES: &str = include_str!("../../../lab/system/modules");
/// Does in a system disk what maintainer scripts would have done.
pub(super) const SYSTEM_CONFIGURE: &str = include_str!("../../../lab/system/configure");
/// The unit that starts the agent in a system.
pub(super) const SYSTEM_AGENT: &str = include_str!("../../../lab/system/ebb-agent.service");
/// What that unit runs.
pub(super) const SYSTEM_SERVICE: &str = include_str!("../../../lab/system/ebb-agent");
/// The unit that mounts the packed program.
pub(super) const SYSTEM_MOUNT: &str = include_str!("../../../lab/system/ebb.mount");

/// Packages of a system disk, without what they depend on.
pub(super) fn system_packages() -> Vec<&'static str> {
    words(SYSTEM_PACKAGES)
}

/// Modules of a system's kernel, without those they need: those of the other guests, and more.
pub(super) fn system_modules() -> Vec<&'static str> {
    [modules(), words(SYSTEM_MODULES)].concat()
}

/// Names the kernel of User-Mode Linux: another recipe has another key.
pub fn uml_key() -> String {
    let mut hash = Hash::default();
    for part in [UML_SUITE, UML_INIT].iter().chain(UML_PACKAGES) {
        hash.add(part.as_bytes());
    }
    hash.text()
}

/// Names a system disk for QEMU, or for User-Mode Linux, whose modules it has: another recipe has another key.
pub fn system_key(on_uml: bool) -> String {
    let mut hash = Hash::default();
    hash.add(&VERSION.to_le_bytes());
    // It is set up in a guest of the other image.
    hash.add(key().as_bytes());
    for part in [
        SYSTEM_PACKAGES,
        SYSTEM_MODULES,
        SYSTEM_CONFIGURE,
        SYSTEM_AGENT,
        SYSTEM_SERVICE,
        SYSTEM_MOUNT,
        UML_RULES,
        &if on_uml { uml_key() } else { String::new() },
    ] {
        hash.add(part.as_bytes());
    }
    hash.text()
}

/// The words of `text` outside of comment lines.
fn words(text: &'static str) -> Vec<&'static str> {
    text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect()
}

/// Names an image: another recipe has another key.
pub fn key() -> String {
    let mut hash = Hash::default();
    hash.add(&VERSION.to_le_bytes());
    for part in [KERNEL, PACKAGES, MODULES, EARLY_INIT, INIT] {
        hash.add(part.as_bytes());
    }
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
        assert!(packages().contains(&"mdadm") && modules().contains(&"raid456"));
        for word in packages().into_iter().chain(modules()) {
            let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.+".contains(c);
            assert!(word.chars().all(fine), "{word}");
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
