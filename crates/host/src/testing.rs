//! For tests, here and in the crates above (feature `testing`): recorded hosts, and how much of what there is to try is tried.
//!
//! A host is a `.tree` file (made by tests/trees/record.sh) that is unpacked below a temporary directory.

// It makes files of a test's own.
#![cfg_attr(not(test), allow(clippy::disallowed_methods))]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A guest with arrays of NVMe volumes.
pub const ARRAYS: &str = include_str!("../tests/trees/arrays.tree");
/// A guest with LVM of every kind, md over md, dm-crypt and btrfs.
pub const STACKS: &str = include_str!("../tests/trees/stacks.tree");
/// A host with images of Ceph: two clusters, one image mapped twice, a snapshot. Not recorded.
pub const RBD: &str = include_str!("../tests/trees/rbd.tree");

/// The number in the environment's `variable`, or `default`.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Of what there is to try, every so many are: `default`, or what `EBB_TEST_EVERY` says; 1 tries all.
pub fn every(default: usize) -> usize {
    let asked = number("EBB_TEST_EVERY", 0) as usize;
    if asked > 0 { asked } else { default }
}

/// Unpacks `text` below a new temporary directory.
pub fn unpack(text: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in text.lines() {
        if let Some(content) = line.strip_prefix('|') {
            open.as_mut().expect("a file line before content").1.push(content);
            continue;
        }
        flush(root.path(), open.take());
        match line.split_once(' ') {
            Some(("f", path)) => open = Some((path.to_owned(), Vec::new())),
            Some(("d", path)) => fs::create_dir_all(below(root.path(), path)).expect("directory"),
            Some(("l", rest)) => {
                let (path, target) = rest.split_once(" -> ").expect("a link has a target");
                let path = below(root.path(), path);
                fs::create_dir_all(path.parent().expect("parent")).expect("directory");
                symlink(target, path).expect("link");
            }
            _ => assert!(line.is_empty() || line.starts_with('#'), "a tree line: {line}"),
        }
    }
    flush(root.path(), open);
    root
}

fn below(root: &Path, path: &str) -> std::path::PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn flush(root: &Path, file: Option<(String, Vec<&str>)>) {
    let Some((path, lines)) = file else { return };
    let path = below(root, &path);
    fs::create_dir_all(path.parent().expect("parent")).expect("directory");
    fs::write(path, lines.join("\n") + "\n").expect("file");
}
