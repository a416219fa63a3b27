//! What may depend on what: pure crates stay pure, edges do not see each other.

use crate::pages;
use crate::run::{cargo, output};

/// The crates that touch nothing, by their directories below `crates`. Each has [`PURE_CLIPPY`].
pub const PURE: &[&str] =
    &["model", "experiment", "sim", "analysis", "formats", "plan", "report", "provision"];

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
    "regex-lite",
    "strsim",
    "strum",
    "thiserror",
    "toml",
    "unicode-width",
];

/// Ebbtide's own crates, each on a line with those that it may use.
const INNER: &str = "
    model:
    experiment: model
    sim: model
    analysis: model
    formats: model analysis
    plan: model experiment sim analysis
    report: model analysis
    provision: model
    sys:
    door: model sys
    engine: model door sys
    host: model provision door sys
    lab: model door host
    runner: model sim analysis door engine host lab
    serve: model door
    app: model experiment analysis formats plan report provision door engine host lab runner serve
";

/// [`INNER`] by directories below `crates`.
fn inner() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let lines = INNER.lines().filter_map(|line| line.trim().split_once(':'));
    lines.map(|(name, uses)| (name, uses.split_whitespace().collect()))
}

/// The package in the directory `name`.
fn package(name: &str) -> String {
    if name == "app" { "ebbtide".to_owned() } else { format!("ebbtide-{name}") }
}

/// Direct dependencies by name.
fn direct(package: &str) -> Result<Vec<String>, String> {
    let tree = "tree --edges normal --prefix none --depth 1 --format {p} --package";
    let text = output(&cargo(), &tree.split(' ').chain([package]).collect::<Vec<&str>>())?;
    let names = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

/// The only crate with `unsafe`; every other has the workspace's lints, which forbid it.
const UNSAFE: &str = "crates/sys";

/// Pure crates depend on each other and on the allow-list only, have clippy refuse what reaches the world, and Ebbtide's crates on each
/// other as the architecture says; one crate has `unsafe`.
pub fn check() -> Result<(), String> {
    println!("== purity: what the crates depend on");
    let names: Vec<&str> = inner().map(|(name, _)| name).collect();
    for (name, allowed) in inner() {
        for dependency in direct(&package(name))? {
            let own = names.iter().find(|own| package(own) == dependency);
            let fine = match own {
                Some(own) => allowed.contains(own),
                None => !PURE.contains(&name) || PURE_MAY_USE.contains(&dependency.as_str()),
            };
            if !fine {
                return Err(format!(
                    "{name} must not depend on {dependency}; see the dependency picture in docs/ARCHITECTURE.md"
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
    if member != "xtask" && !inner().any(|(name, _)| member == format!("crates/{name}")) {
        return Err("say in xtask/src/purity.rs which of the project's crates it may use".to_owned());
    }
    if member != UNSAFE && !text.contains("\n[lints]\nworkspace = true\n") {
        return Err(format!(
            "every crate but {UNSAFE} has `[lints] workspace = true`, which forbids `unsafe`"
        ));
    }
    Ok(())
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
