//! The Debian package, made by cargo-deb: what goes into it stands in crates/app/Cargo.toml. It is made twice, to see that the same tree
//! gives the same bytes, and installed and removed in a directory of its own, to see that nothing is missing and nothing is left.

use crate::packages::on_path;
use crate::pages::{read, root, write};
use crate::run::{Step, cargo, output, run_all};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[derive(Debug, Args)]
pub struct Options {
    /// Build for this target; x86_64-unknown-linux-musl gives a program that needs no library (musl-tools)
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Build with this profile of Cargo.toml
    #[arg(long, value_name = "NAME", default_value = "dist")]
    profile: String,
}

/// More than this, in bytes, nobody likes to copy around for one static program.
const LARGEST_STATIC: usize = 15_000_000;

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// The newest glibc that `program` has symbols of, as (major, minor); none of a static program.
fn glibc(program: &[u8]) -> Option<(u32, u32)> {
    let names = program.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let versions = names.filter_map(|name| {
        // GLIBC_2.2.5 has a third number, which has never mattered since.
        let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    });
    versions.max()
}

/// The crates that are linked in, each with its licence, and every text of a licence once.
fn licences() -> Result<String, String> {
    let arguments =
        ["tree", "-p", "ebbtide", "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"];
    let tree = output(&cargo(), &arguments)?;
    let linked: Vec<&str> = tree.lines().filter_map(|line| line.split(" (").next()).collect();
    let metadata = output(&cargo(), &["metadata", "--format-version", "1"])?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut list = String::from("Linked into ebb, each under its own licence; the texts follow.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} v{}", text("name"), text("version"));
        // What has no source is of this tree.
        if package["source"].is_null() || !linked.contains(&name.as_str()) {
            continue;
        }
        list += &format!("{name}: {}\n", text("license"));
        let directory = Path::new(text("manifest_path")).parent().unwrap_or(Path::new("/"));
        for entry in fs::read_dir(directory).map_err(failed(directory))?.flatten() {
            let file = entry.file_name().to_string_lossy().to_uppercase();
            let is_licence = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
                .iter()
                .any(|word| file.starts_with(word));
            if is_licence && entry.path().is_file() {
                texts.entry(read(&entry.path())?).or_default().push(name.clone());
            }
        }
    }
    let texts = texts.iter().map(|(text, of)| format!("\n==== {}\n\n{}\n", of.join(", "), text.trim()));
    Ok(list + &texts.collect::<String>())
}

/// Puts into `place` what the package has beside the program; `ebb` is the command that runs that.
fn lay_out(place: &Path, ebb: &[String]) -> Result<(), String> {
    let pages = place.join("man1");
    fs::create_dir_all(&pages).map_err(failed(&pages))?;
    let say = |arguments: &[&str]| {
        let rest = ebb[1..].iter().map(String::as_str).chain(arguments.iter().copied());
        output(&ebb[0], &rest.collect::<Vec<_>>())
    };
    say(&["--quiet", "man", &pages.to_string_lossy()])?;
    for shell in ["bash", "zsh", "fish"] {
        write(&place.join(shell), &say(&["completions", shell])?)?;
    }
    write(&place.join("licences"), &licences()?)?;
    output("gzip", &["-9nf", &place.join("licences").to_string_lossy()])?;
    let date = output("git", &["log", "-1", "--format=%aD"])?;
    let entry = format!(
        "ebbtide ({}-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {}\n",
        env!("CARGO_PKG_VERSION"),
        maintainer(),
        date.trim()
    );
    write(&place.join("changelog.Debian"), &entry)
}

/// Who answers for the package, as Debian's own tools are told.
fn maintainer() -> String {
    let variable = |name, other: &str| env::var(name).unwrap_or_else(|_| other.to_owned());
    let address = variable("DEBEMAIL", "ebbtide@ebbtide.invalid");
    format!("{} <{address}>", variable("DEBFULLNAME", "Ebbtide contributors"))
}

/// Installs `package` in a directory of its own and removes it again.
fn try_out(package: &str, place: &Path) -> Result<(), String> {
    let own = place.join("root");
    let states = ["var/lib/dpkg/info", "var/lib/dpkg/updates"].map(|name| own.join(name));
    states.iter().try_for_each(|directory| fs::create_dir_all(directory).map_err(failed(directory)))?;
    write(&own.join("var/lib/dpkg/status"), "")?;
    let dpkg = |arguments: &[&str]| {
        // Libraries, the processor and the account of who did it are the system's, which this directory is none of.
        let own = format!("--root={}", own.display());
        let begin = [&own, "--force-depends,architecture,not-root,script-chrootless", "--log=/dev/null"];
        output("dpkg", &[&begin, arguments].concat())
    };
    dpkg(&["--install", package])?;
    for wanted in [
        "bin/ebb",
        "share/man/man1/ebb.1.gz",
        "share/man/man1/ebb-limit.1.gz",
        "share/bash-completion/completions/ebb",
        "share/doc/ebbtide/copyright",
        "share/doc/ebbtide/licences.gz",
    ] {
        if !own.join("usr").join(wanted).is_file() {
            return Err(format!("{package} has no usr/{wanted}"));
        }
    }
    dpkg(&["--purge", "ebbtide"])?;
    let left = output("find", &[&*own.to_string_lossy(), "-type", "f", "-not", "-path", "*/var/lib/dpkg/*"])?;
    if left.is_empty() { Ok(()) } else { Err(format!("removing the package leaves {left}")) }
}

/// Makes the package and tries it out.
pub fn run(options: &Options) -> Result<(), String> {
    let mut steps = Vec::new();
    if !on_path("cargo-deb") {
        steps.push(Step::cargo(
            "cargo-deb, once: two to five minutes on 2 cores",
            &["install", "--locked", "cargo-deb"],
        ));
    }
    let target = options.target.iter().flat_map(|target| ["--target", target]);
    let build: Vec<&str> =
        ["--profile", &options.profile, "--package", "ebbtide"].into_iter().chain(target).collect();
    steps.push(Step::cargo("program", &[&["build", "--locked"], &build[..]].concat()));
    run_all(&steps)?;

    let mut built = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    built.extend(&options.target);
    built.extend([&options.profile, "ebb"]);
    let program = fs::read(&built).map_err(failed(&built))?;
    let glibc = glibc(&program);
    if glibc.is_none() && program.len() > LARGEST_STATIC {
        return Err(format!("{}: larger than {LARGEST_STATIC} bytes", built.display()));
    }
    let processor =
        options.target.as_deref().unwrap_or(env::consts::ARCH).split('-').next().unwrap_or_default();
    let emulator = (processor != env::consts::ARCH).then(|| format!("qemu-{processor}-static"));
    let ebb: Vec<String> = emulator.into_iter().chain([built.to_string_lossy().into_owned()]).collect();

    let place = root().join("target/package");
    if place.exists() {
        fs::remove_dir_all(&place).map_err(failed(&place))?;
    }
    lay_out(&place, &ebb)?;
    let date = output("git", &["log", "-1", "--format=%ct"])?;
    let date = format!("SOURCE_DATE_EPOCH={}", date.trim());
    // Says where the package is.
    let make = |directory: &Path| {
        let (cargo, maintainer) = (cargo(), maintainer());
        let mut arguments =
            vec![&*date, &cargo, "deb", "--no-build", "--no-strip", "--maintainer", &maintainer];
        if glibc.is_none() {
            arguments.extend(["--variant", "static"]);
        }
        let directory = directory.to_string_lossy();
        arguments.extend(["--output", &directory]);
        arguments.extend(&build);
        output("env", &arguments).map(|said| said.trim().to_owned())
    };
    let (package, again) = (make(&place)?, make(&place.join("again"))?);
    output("cmp", &[&package, &again])?;
    let depends = output("dpkg-deb", &["--field", &package, "Depends"])?;
    let wanted = glibc.map_or(String::new(), |(major, minor)| format!("libc6 (>= {major}.{minor})"));
    if depends.trim() != wanted {
        return Err(format!("crates/app/Cargo.toml: the package depends on {depends:?}: write {wanted:?}"));
    }
    try_out(&package, &place)?;
    let size = fs::metadata(&package).map_err(failed(Path::new(&package)))?.len();
    println!("== {package}: {size} bytes, the program {} bytes; needs {wanted:?}", program.len());
    if on_path("lintian") {
        run_all(&[Step::new(
            "lintian",
            "lintian",
            &["--fail-on", "error", "--tag-display-limit", "0", &package],
        )])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_read_from_the_names_of_a_program() {
        let names = b"\x7fELF\0open\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GCC_3.0\0GLIBC_2.99 or later\0";
        assert_eq!(glibc(names), Some((2, 34)));
        assert_eq!(glibc(b"\x7fELF\0open\0"), None);
    }

    #[test]
    fn what_is_linked_in_has_its_licence() {
        let text = licences().expect("it is written");
        assert!(text.contains("\nlibsqlite3-sys v") && text.contains("THE SOFTWARE IS PROVIDED \"AS IS\""));
        assert!(!text.contains("\nebbtide"), "{text}");
    }
}
