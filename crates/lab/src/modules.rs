//! Which files a set of kernel modules is made of, from depmod's `modules.dep`.

use std::collections::{BTreeSet, HashMap};

/// `modules.dep` as a table.
#[derive(Debug)]
pub struct Dependencies<'a> {
    /// By module name: its file, and the files it needs, nearest first.
    lines: HashMap<String, (&'a str, Vec<&'a str>)>,
}

impl<'a> Dependencies<'a> {
    /// Reads `modules.dep`: one line `FILE: FILE ...` per module, its needs already complete.
    pub fn parse(text: &'a str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let (file, needs) = line.split_once(':')?;
            Some((module_name(file), (file, needs.split_whitespace().collect())))
        });
        Dependencies { lines: lines.collect() }
    }

    /// The files of `names` and of all they need, in an order in which they can be inserted; with those names
    /// that the kernel does not have (or has built in).
    pub fn files(&self, names: &[&str]) -> (Vec<&'a str>, Vec<String>) {
        let (mut files, mut seen, mut missing) = (Vec::new(), BTreeSet::new(), Vec::new());
        for name in names {
            match self.lines.get(&module_name(name)) {
                None => missing.push((*name).to_owned()),
                Some((file, needs)) => {
                    for needed in needs.iter().rev().chain([file]) {
                        if seen.insert(*needed) {
                            files.push(*needed);
                        }
                    }
                }
            }
        }
        (files, missing)
    }
}

/// A module's name: the file's without folder and ending, with underscores.
fn module_name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split(".ko").next().unwrap_or(base).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/drivers/md/raid0.ko: kernel/drivers/md/md-mod.ko\n\
        kernel/drivers/md/md-mod.ko:\n\
        kernel/fs/ext4/ext4.ko: kernel/fs/mbcache.ko kernel/lib/crc16.ko kernel/crypto/crc32c_generic.ko\n\
        kernel/fs/mbcache.ko:\n";

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let table = Dependencies::parse(DEP);
        let (files, missing) = table.files(&["raid0", "md_mod", "jfs", "ext4", "mbcache"]);
        assert_eq!(
            files,
            [
                "kernel/drivers/md/md-mod.ko",
                "kernel/drivers/md/raid0.ko",
                "kernel/crypto/crc32c_generic.ko",
                "kernel/lib/crc16.ko",
                "kernel/fs/mbcache.ko",
                "kernel/fs/ext4/ext4.ko",
            ]
        );
        assert_eq!(missing, ["jfs"]);
    }
}
