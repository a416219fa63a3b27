//! What may depend on what: pure crates stay pure, edges do not see each other, licences are known.

use crate::pages;
use crate::run::{cargo, output};

/// The crates that touch nothing, by their directories below `crates`. Each has [`PURE_CLIPPY`].
const PURE: &[&str] = &["model", "experiment", "sim", "analysis", "formats", "plan", "report", "provision"];

/// What clippy refuses in them: one file, to which theirs are links.
const PURE_CLIPPY: &str = "crates/model/clippy.toml";

/// Everything of others that they may depend on; none of it touches the world.
const PURE_MAY_USE: &[&str] = &[
    "crc32c",
    "jiff",
    "libm",
    "maud",
    "rand_core",
    "rand_xoshiro",
    "schemars",
    "serde",
    "serde_json",
    "strsim",
    "strum",
    "thiserror",
    "toml",
    "unicode-width",
];

/// Ebbtide's own crates and which of each other they may use.
const INNER: &[(&str, &[&str])] = &[
    ("ebbtide-model", &[]),
    ("ebbtide-experiment", &["ebbtide-model"]),
    ("ebbtide-sim", &["ebbtide-model"]),
    ("ebbtide-analysis", &["ebbtide-model"]),
    ("ebbtide-formats", &["ebbtide-model", "ebbtide-analysis"]),
    ("ebbtide-plan", &["ebbtide-model", "ebbtide-experiment", "ebbtide-sim", "ebbtide-analysis"]),
    ("ebbtide-report", &["ebbtide-model", "ebbtide-analysis"]),
    ("ebbtide-provision", &["ebbtide-model"]),
    ("ebbtide-sys", &[]),
    ("ebbtide-door", &["ebbtide-model", "ebbtide-sys"]),
    ("ebbtide-engine", &["ebbtide-model", "ebbtide-door", "ebbtide-sys"]),
    ("ebbtide-host", &["ebbtide-model", "ebbtide-provision", "ebbtide-door", "ebbtide-sys"]),
    ("ebbtide-lab", &["ebbtide-model", "ebbtide-door", "ebbtide-host"]),
    (
        "ebbtide-runner",
        &[
            "ebbtide-model",
            "ebbtide-sim",
            "ebbtide-analysis",
            "ebbtide-door",
            "ebbtide-engine",
            "ebbtide-host",
            "ebbtide-lab",
        ],
    ),
    ("ebbtide-serve", &["ebbtide-model", "ebbtide-door"]),
    (
        "ebbtide",
        &[
            "ebbtide-model",
            "ebbtide-experiment",
            "ebbtide-analysis",
            "ebbtide-formats",
            "ebbtide-plan",
            "ebbtide-report",
            "ebbtide-provision",
            "ebbtide-door",
            "ebbtide-engine",
            "ebbtide-host",
            "ebbtide-lab",
            "ebbtide-runner",
            "ebbtide-serve",
        ],
    ),
];

const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "MPL-2.0",
    "Unlicense",
];

/// One line of `cargo tree`, depth in front of the crate's name.
fn tree(package: &str, format: &str, depth: &[&str]) -> Result<Vec<String>, String> {
    let arguments =
        ["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--format", format];
    let text = output(&cargo(), &[&arguments, depth].concat())?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Direct dependencies by name.
fn direct(package: &str) -> Result<Vec<String>, String> {
    Ok(tree(package, "{p}", &["--depth", "1"])?
        .iter()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect())
}

/// The only crate with `unsafe`; every other has the workspace's lints, which forbid it.
const UNSAFE: &str = "crates/sys";

/// Pure crates depend on each other and on the allow-list only, have clippy refuse what reaches the world, and Ebbtide's crates on each
/// other as the architecture says; one crate has `unsafe`.
pub fn check() -> Result<(), String> {
    println!("== purity: what the crates depend on");
    let inner_names: Vec<&str> = INNER.iter().map(|(name, _)| *name).collect();
    for (package, allowed) in INNER {
        for dependency in direct(package)? {
            let pure = package.strip_prefix("ebbtide-").is_some_and(|name| PURE.contains(&name));
            let fine = if inner_names.contains(&dependency.as_str()) {
                allowed.contains(&dependency.as_str())
            } else {
                !pure || PURE_MAY_USE.contains(&dependency.as_str())
            };
            if !fine {
                return Err(format!(
                    "{package} must not depend on {dependency}; see the dependency picture in docs/ARCHITECTURE.md"
                ));
            }
        }
    }
    let root = pages::root();
    let read = |path: &str| pages::read(&root.join(path));
    let refused = read(PURE_CLIPPY)?;
    for name in PURE {
        let path = format!("crates/{name}/clippy.toml");
        if read(&path)? != refused {
            return Err(format!(
                "{path}: make it a link to {PURE_CLIPPY}: every pure crate refuses the same"
            ));
        }
    }
    if !read("Cargo.toml")?.contains("unsafe_code = \"forbid\"") {
        return Err(format!("Cargo.toml: `unsafe` is forbidden outside of {UNSAFE}"));
    }
    let crates = std::fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    let crates = crates.flatten().map(|entry| format!("crates/{}", entry.file_name().to_string_lossy()));
    for member in crates.chain(["xtask".to_owned()]) {
        let path = format!("{member}/Cargo.toml");
        manifest(&member, &read(&path)?).map_err(|wrong| format!("{path}: {wrong}"))?;
    }
    Ok(())
}

/// A crate has a line in [`INNER`], and the lints that forbid `unsafe` unless it is [`UNSAFE`].
fn manifest(member: &str, text: &str) -> Result<(), String> {
    let is_named = |name: &str| text.lines().any(|line| line == format!("name = \"{name}\""));
    if member != "xtask" && !INNER.iter().any(|(name, _)| is_named(name)) {
        return Err("say in xtask/src/purity.rs which of the project's crates it may use".to_owned());
    }
    if member != UNSAFE && !text.contains("\n[lints]\nworkspace = true\n") {
        return Err(format!(
            "every crate but {UNSAFE} has `[lints] workspace = true`, which forbids `unsafe`"
        ));
    }
    Ok(())
}

/// Every dependency has a licence on the list and comes from the registry or from this tree.
pub fn licences_and_sources() -> Result<(), String> {
    let mut bad = Vec::new();
    for line in tree("ebbtide", "{p}|{l}|{r}", &[])? {
        let mut parts = line.trim_end_matches(" (*)").split('|');
        let (name, licence) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let accepted = licence.split(" OR ").flat_map(|choice| choice.split('/')).any(|choice| {
            choice
                .trim_matches(['(', ')', ' '])
                .split(" AND ")
                .all(|l| LICENCES.contains(&l.trim_matches(['(', ')', ' '])))
        });
        if !accepted {
            bad.push(format!("{name}: licence {licence:?}"));
        }
        if name.contains("(git+") || name.contains("(http") {
            bad.push(format!("{name}: not from the registry"));
        }
    }
    bad.sort();
    bad.dedup();
    if bad.is_empty() {
        Ok(())
    } else {
        Err(format!("dependencies that need a decision:\n  {}", bad.join("\n  ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_a_line_here_and_forbids_unsafe_code() {
        let of = |name: &str, lints: &str| format!("[package]\nname = \"{name}\"\n\n{lints}");
        let lints = "[lints]\nworkspace = true\n";
        assert_eq!(manifest("crates/lab", &of("ebbtide-lab", lints)), Ok(()));
        assert_eq!(manifest(UNSAFE, &of("ebbtide-sys", "[lints.rust]\n")), Ok(()));
        let without = manifest("crates/lab", &of("ebbtide-lab", "[lints.rust]\nunsafe_code = \"allow\"\n"));
        assert!(without.is_err_and(|wrong| wrong.contains("forbids `unsafe`")));
        let unknown = manifest("crates/new", &of("ebbtide-new", lints));
        assert!(unknown.is_err_and(|wrong| wrong.contains("which of the project's crates")));
    }
}
