//! The Debian package, made by cargo-deb: what goes into it stands in crates/app/Cargo.toml. It is made twice, to see that the same tree
//! gives the same bytes, and installed and removed in a directory of its own, to see that nothing is missing and nothing is left.

use crate::packages::cargo_tool;
use crate::pages::{read, root, write};
use crate::run::{Step, cargo, output, run_all, words};
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
const LARGEST_STATIC: u64 = 15_000_000;

/// How files with licences begin.
const LICENCES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// What the program needs as Debian writes it: the newest glibc that it has symbols of; nothing of a static one.
fn needs(program: &str) -> Result<String, String> {
    let newest = "grep -aoE 'GLIBC_[0-9]+[.][0-9]+' \"$0\" | sort -Vu | tail -n 1";
    let newest = output("sh", &["-c", newest, program])?;
    Ok(newest
        .trim()
        .strip_prefix("GLIBC_")
        .map_or_else(String::new, |version| format!("libc6 (>= {version})")))
}

/// The licence of the program, then of the crates that are linked into it, every text once.
fn copyright() -> Result<String, String> {
    let tree = "tree -p ebbtide -e normal,no-proc-macro --prefix none --format {p}";
    let tree = output(&cargo(), &words(tree))?;
    let linked: Vec<&str> = tree.lines().filter_map(|line| line.split(" (").next()).collect();
    let metadata = output(&cargo(), &["metadata", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("metadata: {error}"))?;
    let mut list = read(&root().join("LICENSE"))? + "\nLinked in, each under its own licence:\n\n";
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
        for file in fs::read_dir(directory).map_err(failed(directory))?.flatten().map(|entry| entry.path()) {
            let name_of_file = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            if LICENCES.iter().any(|word| name_of_file.starts_with(word)) && file.is_file() {
                texts.entry(read(&file)?).or_default().push(name.clone());
            }
        }
    }
    let texts = texts.iter().map(|(text, of)| format!("\n==== {}\n\n{}\n", of.join(", "), text.trim()));
    Ok(list + &texts.collect::<String>())
}

/// Puts into `place` what the package has beside the program, which `ebb` runs: through an emulator where it takes one.
fn lay_out(place: &Path, ebb: &[&str]) -> Result<(), String> {
    let pages = place.join("man1");
    fs::create_dir_all(&pages).map_err(failed(&pages))?;
    output("env", &[ebb, &["--quiet", "man", &pages.to_string_lossy()]].concat())?;
    for shell in ["bash", "zsh", "fish"] {
        write(&place.join(shell), &output("env", &[ebb, &["completions", shell]].concat())?)?;
    }
    write(&place.join("copyright"), &copyright()?)?;
    let date = output("git", &["log", "-1", "--format=%aD"])?;
    let entry = format!(
        "ebbtide ({}-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {date}",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_AUTHORS"),
    );
    write(&place.join("changelog.Debian"), &entry)
}

/// Installs `package` in a directory of its own and removes it again.
fn try_out(package: &str, place: &Path) -> Result<(), String> {
    let own = place.join("root");
    for directory in ["info", "updates"].map(|name| own.join("var/lib/dpkg").join(name)) {
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
    }
    write(&own.join("var/lib/dpkg/status"), "")?;
    let dpkg = |arguments: &[&str]| {
        // Libraries, the processor and the account of who did it are the system's, which this directory is none of.
        let own = format!("--root={}", own.display());
        let begin = [&own, "--force-depends,architecture,not-root,script-chrootless", "--log=/dev/null"];
        output("dpkg", &[&begin, arguments].concat())
    };
    dpkg(&["--install", package])?;
    let wanted = "bin/ebb share/man/man1/ebb-limit.1.gz share/bash-completion/completions/ebb share/doc/ebbtide/copyright";
    for wanted in words(wanted) {
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
    run_all(&cargo_tool("cargo-deb"))?;
    let target = options.target.as_ref().map_or(String::new(), |target| format!(" --target {target}"));
    let build = format!("--locked --package ebbtide --profile {}{target}", options.profile);
    run_all(&[Step::cargo("program", &format!("build {build}"))])?;
    let mut built = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    built.extend(&options.target);
    built.extend([&options.profile, "ebb"]);
    let program = fs::metadata(&built).map_err(failed(&built))?.len();
    let built = built.to_string_lossy();
    let needs = needs(&built)?;
    if needs.is_empty() && program > LARGEST_STATIC {
        return Err(format!("{built}: larger than {LARGEST_STATIC} bytes"));
    }
    let other = options.target.iter().filter_map(|target| target.split('-').next());
    let emulator = other.filter(|processor| *processor != env::consts::ARCH);
    // Its libraries are where Debian's cross compilers have them.
    let emulator =
        emulator.map(|it| [format!("QEMU_LD_PREFIX=/usr/{it}-linux-gnu"), format!("qemu-{it}-static")]);
    let emulator: Vec<String> = emulator.flatten().collect();

    let place = root().join("target/package");
    output("rm", &["-rf", &*place.to_string_lossy()])?;
    let ebb: Vec<&str> = emulator.iter().map(String::as_str).chain([&*built]).collect();
    lay_out(&place, &ebb)?;
    let date = output("git", &["log", "-1", "--format=%ct"])?;
    let date = format!("SOURCE_DATE_EPOCH={}", date.trim());
    let make = |directory: &Path| {
        let variant = if needs.is_empty() { "--variant static " } else { "" };
        let deb = format!("deb --no-build --no-strip {variant}{build} --output");
        let (cargo, directory) = (cargo(), directory.to_string_lossy());
        // It says where the package is.
        output("env", &[&[&date, &*cargo], &words(&deb)[..], &[&directory]].concat())
            .map(|said| said.trim().to_owned())
    };
    let (package, again) = (make(&place)?, make(&place.join("again"))?);
    output("cmp", &[&package, &again])?;
    let depends = output("dpkg-deb", &["--field", &package, "Depends"])?;
    if depends.trim() != needs {
        return Err(format!("crates/app/Cargo.toml: the package depends on {depends:?}: write {needs:?}"));
    }
    try_out(&package, &place)?;
    let size = fs::metadata(&package).map_err(failed(Path::new(&package)))?.len();
    println!("== {package}: {size} bytes, the program {program} bytes; needs {needs:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_read_from_the_names_of_a_program() {
        let file = std::env::temp_dir().join(format!("ebbtide-glibc-{}", std::process::id()));
        let of = |names: &str| {
            write(&file, names)?;
            needs(&file.to_string_lossy())
        };
        let names = "\x7fELF\0open\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GCC_3.0\0";
        assert_eq!(of(names), Ok("libc6 (>= 2.34)".to_owned()));
        assert_eq!(of("\x7fELF\0open\0"), Ok(String::new()));
        fs::remove_file(&file).expect("is there");
    }

    #[test]
    fn what_is_linked_in_has_its_licence() {
        let text = copyright().expect("it is written");
        assert!(text.contains("\nlibsqlite3-sys v") && text.contains("THE SOFTWARE IS PROVIDED \"AS IS\""));
        assert!(!text.contains("\nebbtide"), "{text}");
    }
}
