//! Completions and manual pages, made from what the help is made from; and install.sh, which puts them in place.

use crate::common::{EBB, Home, status, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn commands(home: &Home) -> Vec<String> {
    let text = |line| String::from_utf8(home.ebb(line).output().unwrap().stdout).unwrap();
    let lists = text("--help") + &text("help tools");
    let names = lists.lines().filter(|line| line.starts_with("  "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_has_a_page_with_its_options() {
    let home = Home::new();
    let commands = commands(&home);
    assert!(commands.len() > 15 && commands.contains(&"compare".to_owned()), "{commands:?}");
    std::fs::create_dir(home.path("man1")).unwrap();
    assert_eq!(status(&home.ebb("man man1").output().unwrap()), 0);
    let page = |name: &str| std::fs::read_to_string(home.path("man1").join(name)).unwrap();
    for command in &commands {
        assert!(page(&format!("ebb-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(
        page("ebb-bench.1").contains("\\-\\-iodepth")
            && page("ebb-monitor-run.1").contains("ebb monitor run")
    );
    let one = home.ebb("man -").output().unwrap();
    assert_eq!(String::from_utf8(one.stdout).unwrap(), page("ebb.1"));
    let missing = home.ebb("man nowhere").output().unwrap();
    assert_eq!(status(&missing), 2, "{}", stderr(&missing));
}

#[test]
fn bash_completes_commands_and_options() {
    let home = Home::new();
    for shell in ["zsh", "fish"] {
        let script =
            String::from_utf8(home.ebb(&format!("completions {shell}")).output().unwrap().stdout).unwrap();
        for command in commands(&home) {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
    let script = home.ebb("completions bash").output().unwrap().stdout;
    std::fs::write(home.path("ebb.bash"), script).unwrap();
    let complete = |words: &str| {
        let last = words.split(' ').count() - 1;
        let word = words.split(' ').next_back().unwrap();
        let text = format!(
            "source ebb.bash; COMP_WORDS=({words}); COMP_CWORD={last}; _ebb ebb '{word}' ''; echo \"${{COMPREPLY[*]}}\""
        );
        let output = Command::new("bash").args(["-ec", &text]).current_dir(home.path(".")).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("ebb wat"), "watch");
    assert_eq!(complete("ebb bench --rwmixr"), "--rwmixread");
    assert_eq!(complete("ebb bench --prof"), "--profile");
    assert_eq!(status(&home.ebb("completions tcsh").output().unwrap()), 2);
}

/// The repository's install.sh, which sees `root` instead of the host's.
fn install(home: &Home, arguments: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../install.sh");
    let mut command = home.command("sh");
    command.arg(script).args(arguments);
    command.env("DPKG_ROOT", home.path("root")).env("DPKG_FORCE", "not-root,script-chrootless");
    command.output().unwrap()
}

fn sum(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// All that is below `directory`, directories too.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        all.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            all.extend(below(&entry.path()));
        }
    }
    all.sort();
    all
}

fn says(output: &Output, expected: i32, words: &str) {
    assert_eq!(status(output), expected, "{output:?}");
    assert!(stderr(output).contains(words), "{words}: {}", stderr(output));
}

/// A program that does what install.sh needs of `ebb`, and has `version`.
fn program(home: &Home, version: &str, page: &str) -> String {
    let text = format!(
        "#!/bin/sh\n[ $1 != completions ] || echo complete $2\n[ $1 != --version ] || echo ebb {version}\n\
         [ $1 != --quiet ] || echo page >$3/{page}.1\n"
    );
    home.write(&format!("ebb-{version}"), &text).to_string_lossy().into_owned()
}

#[test]
fn a_program_is_placed_with_its_pages_and_exactly_that_is_taken_away() {
    let home = Home::new();
    // A blank in a name, and what others have there already.
    for directory in ["root/etc/systemd/system", "a prefix/share/man/man1"] {
        std::fs::create_dir_all(home.path(directory)).unwrap();
    }
    home.write("a prefix/share/man/man1/other.1", "another's");
    let prefix = home.path("a prefix");
    let before = below(&prefix);
    let in_prefix =
        |first: &[&str]| install(&home, &[first, &["--prefix", prefix.to_str().unwrap()]].concat());
    assert_eq!(status(&in_prefix(&[EBB, &sum(Path::new(EBB))])), 0);
    for file in [
        "bin/ebb",
        "share/man/man1/ebb-run.1",
        "share/bash-completion/completions/ebb",
        "share/zsh/site-functions/_ebb",
        "share/fish/vendor_completions.d/ebb.fish",
    ] {
        assert!(prefix.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    // A service that calls it keeps it.
    let unit = home.write(
        "root/etc/systemd/system/ebb-data.service",
        &format!("ExecStart=\"{}/bin/ebb\" apply --at-boot data\n", prefix.display()),
    );
    says(&in_prefix(&["--remove"]), 1, "ebb-data.service");
    assert!(prefix.join("bin/ebb").exists());
    std::fs::remove_file(unit).unwrap();
    assert_eq!(status(&in_prefix(&["--remove"])), 0);
    assert_eq!(below(&prefix), before);
    says(&in_prefix(&["--remove"]), 1, "nothing is placed");
}

#[test]
fn a_newer_program_takes_the_place_of_the_older_and_of_nothing_else() {
    let home = Home::new();
    std::fs::create_dir(home.path("prefix")).unwrap();
    let prefix = home.path("prefix");
    let place =
        |file: &str| install(&home, &[file, &sum(Path::new(file)), "--prefix", prefix.to_str().unwrap()]);
    let remove = || install(&home, &["--remove", "--prefix", prefix.to_str().unwrap()]);
    let [older, newer] = [program(&home, "1", "ebb-old"), program(&home, "2", "ebb-new")];
    assert_eq!(status(&place(&older)), 0);
    assert_eq!(status(&place(&newer)), 0);
    let is_there = |name: &str| prefix.join(name).symlink_metadata().is_ok();
    assert!(is_there("share/man/man1/ebb-new.1") && !is_there("share/man/man1/ebb-old.1"));
    assert_eq!(std::fs::read(prefix.join("bin/ebb")).unwrap(), std::fs::read(&newer).unwrap());

    // What was changed since is neither overwritten nor taken away.
    std::fs::write(prefix.join("share/man/man1/ebb-new.1"), "my notes").unwrap();
    says(&place(&newer), 1, "ebb-new.1 is another's");
    says(&remove(), 0, "ebb-new.1 is not as it was placed, and stays");
    let left: Vec<PathBuf> = below(&prefix).into_iter().filter(|path| path.is_file()).collect();
    assert_eq!(left, [prefix.join("share/man/man1/ebb-new.1")]);

    // Nor is what was there before, and not even a link that leads nowhere.
    std::fs::remove_file(&left[0]).unwrap();
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::os::unix::fs::symlink("/nowhere", prefix.join("bin/ebb")).unwrap();
    let before = below(&prefix);
    says(&place(&older), 1, "bin/ebb is another's");
    assert_eq!(below(&prefix), before);
}

#[test]
fn what_is_not_as_the_release_says_is_not_placed() {
    let home = Home::new();
    std::fs::create_dir(home.path("prefix")).unwrap();
    let prefix = home.path("prefix").to_string_lossy().into_owned();
    let good = program(&home, "1", "ebb");
    let stranger = home.write("stranger", "\u{7f}ELF of another machine").to_string_lossy().into_owned();
    let zeros = "0".repeat(64);
    let sums = [sum(Path::new(&good)), sum(Path::new(&stranger))];
    for (arguments, expected, words) in [
        (vec![good.as_str(), &zeros, "--prefix", &prefix], 1, "nothing was placed"),
        (vec![&stranger, &sums[1], "--prefix", &prefix], 1, "does not run here"),
        (vec![&good, &sums[0], "--prefix", "nowhere"], 1, "nowhere"),
        (vec!["missing", &zeros, "--prefix", &prefix], 1, "missing"),
        (vec![&good, &sums[0], "--prefix"], 2, "write ./install.sh FILE SHA256"),
        (vec![&good, "--prefix", &prefix], 2, "write ./install.sh FILE SHA256"),
        (vec!["a.deb", &zeros, "--prefix", &prefix], 2, "write ./install.sh FILE SHA256"),
        (vec!["--remove", &good], 2, "write ./install.sh FILE SHA256"),
        (vec![], 2, "write ./install.sh FILE SHA256"),
    ] {
        let output = install(&home, &arguments);
        assert!(status(&output) == expected || expected == 1 && status(&output) > 0, "{output:?}");
        assert!(stderr(&output).contains(words), "{words}: {}", stderr(&output));
        assert_eq!(below(&home.path("prefix")), Vec::<PathBuf>::new(), "{arguments:?}");
    }
}

#[test]
fn a_package_goes_in_and_out_by_dpkg_and_over_nothing_of_others() {
    let home = Home::new();
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return;
    }
    for directory in ["root/var/lib/dpkg/info", "root/var/lib/dpkg/updates", "root/etc/systemd/system"] {
        std::fs::create_dir_all(home.path(directory)).unwrap();
    }
    home.write("root/var/lib/dpkg/status", "");
    let package = |name: &str, version: &str| {
        let stage = home.path(&format!("stage-{name}-{version}"));
        std::fs::create_dir_all(stage.join("DEBIAN")).unwrap();
        std::fs::create_dir_all(stage.join("usr/bin")).unwrap();
        std::fs::write(stage.join("usr/bin/ebb"), version).unwrap();
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: x\n"
        );
        std::fs::write(stage.join("DEBIAN/control"), control).unwrap();
        let file = home.path(&format!("{name}-{version}.deb")).to_string_lossy().into_owned();
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "--build"]).arg(&stage).arg(&file);
        assert!(build.output().unwrap().status.success());
        file
    };
    let place = |file: &str| install(&home, &[file, &sum(Path::new(file))]);
    let program = home.path("root/usr/bin/ebb");
    let content = || std::fs::read_to_string(&program).ok();
    let (first, second) = (package("ebbtide", "1"), package("ebbtide", "2"));

    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "made by hand").unwrap();
    says(&place(&first), 1, "/usr/bin/ebb is another's");
    assert_eq!(content().as_deref(), Some("made by hand"));
    std::fs::remove_file(&program).unwrap();

    says(&place(&package("other", "1")), 1, "is not the package ebbtide");
    says(&install(&home, &[&first, &"0".repeat(64)]), 1, "nothing was placed");
    assert_eq!(content(), None);
    for (file, version) in [(&first, "1"), (&second, "2")] {
        let output = place(file);
        assert_eq!((status(&output), content().as_deref()), (0, Some(version)), "{output:?}");
    }
    let unit = home
        .write("root/etc/systemd/system/ebb-export-a.service", "ExecStart=/usr/bin/ebb export --start a\n");
    says(&install(&home, &["--remove"]), 1, "ebb-export-a.service");
    assert_eq!(content().as_deref(), Some("2"));
    std::fs::remove_file(unit).unwrap();
    assert_eq!(status(&install(&home, &["--remove"])), 0);
    assert_eq!(content(), None);
}
