//! The Debian package: the program, its manual pages, completions and notices, made by dpkg-deb out of what `ebb` itself writes; then
//! installed and removed in a directory of its own, to see that nothing is missing and nothing is left.

use crate::packages::on_path;
use crate::pages;
use crate::run::{cargo, output};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct Options {
    /// Build for this target; x86_64-unknown-linux-musl gives a program that needs no library (musl-tools)
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Package this program instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// A file of the package that is in the repository, and where it goes: units of systemd's have their lines here.
const FILES: &[(&str, &str)] = &[("README.md", "usr/share/doc/ebbtide/README.md")];

/// What a static program may be large: more than a cloud's image likes to carry for one tool is none to copy around.
const LARGEST_STATIC: u64 = 15_000_000;

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    let above = path.parent().unwrap_or(path);
    fs::create_dir_all(above).map_err(failed(above))?;
    fs::write(path, content).map_err(failed(path))
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: its name is no text", path.display()))
}

/// The program that is packaged.
fn program(options: &Options) -> Result<PathBuf, String> {
    if let Some(binary) = &options.binary {
        return Ok(binary.clone());
    }
    let mut arguments = vec!["build", "--profile", "dist", "--package", "ebbtide"];
    let mut built = pages::root().join("target");
    if let Some(target) = &options.target {
        arguments.extend(["--target", target]);
        built.push(target);
    }
    output(&cargo(), &arguments)?;
    Ok(built.join("dist/ebb"))
}

/// What a program needs of the system.
#[derive(Debug, PartialEq, Eq)]
struct Needs {
    /// Libraries by their names.
    libraries: Vec<String>,
    /// The oldest glibc that has all it calls.
    glibc: Option<(u32, u32)>,
}

impl Needs {
    /// From what `objdump -p` and `objdump -T` say.
    fn parse(headers: &str, symbols: &str) -> Needs {
        let needed = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
        let version = |text: &str| {
            let (major, minor) = text.split_once('.')?;
            // GLIBC_2.2.5 has three numbers, of which the last has never mattered since.
            Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
        };
        let versions = symbols.split("GLIBC_").skip(1);
        let versions = versions.filter_map(|rest| {
            version(rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next().unwrap_or_default())
        });
        Needs { libraries: needed.map(|name| name.trim().to_owned()).collect(), glibc: versions.max() }
    }

    fn of(program: &Path) -> Result<Needs, String> {
        let dump = |option| output("objdump", &[option, text(program)?]);
        let headers = dump("-p")?;
        // A static program has no table of dynamic symbols, which objdump says with a failure.
        let symbols = if headers.contains("NEEDED") { dump("-T")? } else { String::new() };
        Ok(Needs::parse(&headers, &symbols))
    }

    /// As Debian writes it.
    fn depends(&self) -> String {
        let mut packages = Vec::new();
        if let Some((major, minor)) = self.glibc {
            packages.push(format!("libc6 (>= {major}.{minor})"));
        }
        if self.libraries.iter().any(|library| library.starts_with("libgcc_s")) {
            packages.push("libgcc-s1 (>= 4.2)".to_owned());
        }
        packages.join(", ")
    }
}

/// Compressed as Debian has its pages and changelogs: without a name and a time, so that the same text gives the same bytes.
fn compress(path: &Path) -> Result<(), String> {
    output("gzip", &["-9nf", text(path)?]).map(drop)
}

/// All regular files below `directory`, sorted, relative to it.
fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(&path, found)?;
            } else {
                found.push(path);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk(directory, &mut found).map_err(failed(directory))?;
    found.sort();
    Ok(found.iter().filter_map(|path| path.strip_prefix(directory).ok().map(Path::to_owned)).collect())
}

/// Who answers for the package, as Debian's own tools are told.
fn maintainer() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let name = variable("DEBFULLNAME").unwrap_or_else(|| "Ebbtide contributors".to_owned());
    let address = variable("DEBEMAIL").unwrap_or_else(|| "ebbtide@ebbtide.invalid".to_owned());
    format!("{name} <{address}>")
}

/// The copyright of the program and of what is linked into it (Debian's machine-readable form 1.0).
fn copyright() -> Result<String, String> {
    let licence = pages::read(&pages::root().join("LICENSE"))?;
    let (_, body) =
        licence.split_once("\n\nPermission").ok_or("LICENSE: not the words of the MIT licence")?;
    let body = format!("Permission{body}");
    let indented: String = body
        .trim_end()
        .lines()
        .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") })
        .collect();
    let holder =
        licence.lines().find_map(|line| line.strip_prefix("Copyright (c) ")).unwrap_or("the contributors");
    let arguments =
        ["tree", "--package", "ebbtide", "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}"];
    let mut crates: Vec<String> = output(&cargo(), &arguments)?
        .lines()
        .filter(|line| !line.contains("(/"))
        .filter_map(|line| {
            let (name, licence) = line.trim_end_matches(" (*)").split_once('|')?;
            Some(format!(" {}: {}\n", name.replace(" v", " "), licence))
        })
        .collect();
    crates.sort();
    crates.dedup();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: ebbtide\n\
         Comment: Linked into the program, each under its own licence:\n{}\nFiles: *\nCopyright: {holder}\nLicense: Expat\n{indented}",
        crates.concat()
    ))
}

/// Puts everything below `stage`.
fn lay_out(stage: &Path, program: &Path, version: &str) -> Result<Needs, String> {
    let installed = stage.join("usr/bin/ebb");
    write(&installed, &fs::read(program).map_err(failed(program))?)?;
    output("chmod", &["755", text(&installed)?])?;
    output("strip", &["--strip-all", text(&installed)?])?;
    let needs = Needs::of(&installed)?;
    let ebb = text(&installed)?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/ebb"),
        ("zsh", "usr/share/zsh/vendor-completions/_ebb"),
        ("fish", "usr/share/fish/vendor_completions.d/ebb.fish"),
    ] {
        write(&stage.join(path), output(ebb, &["completions", shell])?.as_bytes())?;
    }
    let manual = stage.join("usr/share/man/man1");
    fs::create_dir_all(&manual).map_err(failed(&manual))?;
    output(ebb, &["-q", "man", text(&manual)?])?;
    for page in files(&manual)? {
        compress(&manual.join(page))?;
    }
    let doc = stage.join("usr/share/doc/ebbtide");
    write(&doc.join("copyright"), copyright()?.as_bytes())?;
    write(&doc.join("changelog"), pages::read(&pages::root().join("CHANGELOG.md"))?.as_bytes())?;
    compress(&doc.join("changelog"))?;
    // The time of what is packaged, not of packaging: the same tree gives the same package.
    let date = output("git", &["-C", text(&pages::root())?, "log", "-1", "--format=%aD"])?;
    let entry = format!(
        "ebbtide ({version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {}\n",
        maintainer(),
        date.trim()
    );
    write(&doc.join("changelog.Debian"), entry.as_bytes())?;
    compress(&doc.join("changelog.Debian"))?;
    for (from, to) in FILES {
        write(&stage.join(to), pages::read(&pages::root().join(from))?.as_bytes())?;
    }
    Ok(needs)
}

fn control(stage: &Path, needs: &Needs, version: &str, architecture: &str) -> Result<(), String> {
    let all = files(stage)?;
    let mut bytes = 0;
    let mut sums = String::new();
    for file in &all {
        bytes += fs::metadata(stage.join(file)).map_err(failed(file))?.len();
        let sum = output("md5sum", &[text(&stage.join(file))?])?;
        let sum = sum.split_whitespace().next().unwrap_or_default();
        sums += &format!("{sum}  {}\n", file.display());
    }
    let depends = needs.depends();
    let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
    let control = format!(
        "Package: ebbtide\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {}\nInstalled-Size: {}\n{depends}\
         Suggests: btrfs-progs, cryptsetup-bin, lvm2, mdadm, qemu-system-x86, xfsprogs\nSection: admin\nPriority: optional\n\
         Description: find the fastest array of block volumes, and build it\n Ebbtide (ebb) builds candidate arrays from block volumes, measures\n \
         them fairly, and explains the winner with intervals and causes.\n .\n It also runs fio's job files, plans volumes from a need and a budget,\n \
         builds the winner for good, watches devices, and limits programs.\n",
        maintainer(),
        bytes.div_ceil(1024),
    );
    write(&stage.join("DEBIAN/md5sums"), sums.as_bytes())?;
    write(&stage.join("DEBIAN/control"), control.as_bytes())
}

/// Installs `package` in a directory of its own and removes it again.
fn try_out(package: &Path, place: &Path) -> Result<(), String> {
    let root = place.join("root");
    for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        let directory = root.join(directory);
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
    }
    write(&root.join("var/lib/dpkg/status"), b"")?;
    let root_option = format!("--root={}", root.display());
    let dpkg = |arguments: &[&str]| {
        // Libraries and the account of who did it are the system's, which this directory is none of.
        let begin = [
            root_option.as_str(),
            "--force-depends",
            "--force-not-root",
            "--force-script-chrootless",
            "--log=/dev/null",
        ];
        output("dpkg", &[&begin, arguments].concat())
    };
    dpkg(&["--install", text(package)?])?;
    let installed = root.join("usr/bin/ebb");
    let said = output(text(&installed)?, &["--version"])?;
    println!("== installed in {}: {}", root.display(), said.trim());
    for wanted in [
        "usr/share/man/man1/ebb.1.gz",
        "usr/share/man/man1/ebb-limit.1.gz",
        "usr/share/doc/ebbtide/copyright",
    ] {
        if !root.join(wanted).is_file() {
            return Err(format!("{} has no {wanted}", package.display()));
        }
    }
    output("bash", &["-n", text(&root.join("usr/share/bash-completion/completions/ebb"))?])?;
    dpkg(&["--purge", "ebbtide"])?;
    let left: Vec<PathBuf> =
        files(&root)?.into_iter().filter(|file| !file.starts_with("var/lib/dpkg")).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("removing the package leaves {left:?}")),
    }
}

/// Makes the package and tries it out.
pub fn run(options: &Options) -> Result<(), String> {
    for (program, package) in
        [("dpkg-deb", "dpkg"), ("strip", "binutils"), ("objdump", "binutils"), ("gzip", "gzip")]
    {
        if !on_path(program) {
            return Err(format!("{program} is missing; install the package {package}"));
        }
    }
    let program = program(options)?;
    let place = pages::root().join("target/package");
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&place)(error)),
        _ => {}
    }
    let stage = place.join("stage");
    let version = format!("{}-1", env!("CARGO_PKG_VERSION"));
    let needs = lay_out(&stage, &program, &version)?;
    let architecture =
        match options.target.as_deref().map(|target| target.split('-').next().unwrap_or_default()) {
            None | Some("x86_64") => "amd64",
            Some("aarch64") => "arm64",
            Some(other) => return Err(format!("no Debian architecture is known here for {other}")),
        };
    control(&stage, &needs, &version, architecture)?;
    output("chmod", &["-R", "u=rwX,go=rX", text(&stage)?])?;
    let package = place.join(format!("ebbtide_{version}_{architecture}.deb"));
    output("dpkg-deb", &["--root-owner-group", "-Zxz", "--build", text(&stage)?, text(&package)?])?;
    let size = |path: &Path| fs::metadata(path).map(|found| found.len()).map_err(failed(path));
    let stripped = size(&stage.join("usr/bin/ebb"))?;
    println!("== {}: {} bytes, the program {stripped} bytes", package.display(), size(&package)?);
    match needs.glibc {
        Some((major, minor)) => {
            println!("== it needs glibc {major}.{minor} or later, and {}", needs.libraries.join(", "))
        }
        None if stripped > LARGEST_STATIC => {
            return Err(format!("the static program is larger than {LARGEST_STATIC} bytes"));
        }
        None => println!("== it needs no library"),
    }
    try_out(&package, &place)?;
    match on_path("lintian") {
        true => {
            let said =
                output("lintian", &["--fail-on", "error", "--tag-display-limit", "0", text(&package)?]);
            println!("== lintian\n{}", said?);
        }
        false => println!("== lintian is not installed: not asked"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_needs_is_read_from_its_tables() {
        let headers = "Dynamic Section:\n  NEEDED               libgcc_s.so.1\n  NEEDED               libc.so.6\n  INIT 0x1\n";
        let symbols = "0000 DF *UND* 0000 (GLIBC_2.2.5) open\n0000 DF *UND* 0000 (GLIBC_2.34) pthread_create\n\
                       0000 DF *UND* 0000 (GLIBC_2.9) pipe2\n0000 DF *UND* (GLIBC_PRIVATE) x\n0000 (GCC_3.0) y\n";
        let needs = Needs::parse(headers, symbols);
        assert_eq!((needs.glibc, needs.libraries.len()), (Some((2, 34)), 2));
        assert_eq!(needs.depends(), "libc6 (>= 2.34), libgcc-s1 (>= 4.2)");
        assert_eq!(Needs::parse("", "").depends(), "");
    }

    #[test]
    fn the_copyright_is_the_licence_s() {
        let text = copyright().expect("it is written");
        assert!(
            text.contains("\nCopyright: 2026 the Ebbtide contributors\n")
                && text.contains(" Permission is hereby granted")
        );
        assert!(text.contains(" libsqlite3-sys ") && !text.contains(" ebbtide-"), "{text}");
    }
}
