//! Files that are named to be read: pipes, devices without an end, and what is too long, are refused at once.

use crate::common::{EBB, Home, status, stderr, tool};
use ebbtide_host::testing;
use std::path::Path;
use std::process::Output;

/// Whoever waits for the other end of a pipe waits for ever.
const PATIENCE: &str = "60";

fn ends(home: &Home, line: &str) -> Output {
    // coreutils' `timeout` says 124 when it had to end it.
    let output =
        home.command("timeout").args([PATIENCE, EBB]).args(line.split_whitespace()).output().unwrap();
    assert_ne!(status(&output), 124, "{line} reads without end");
    output
}

fn pipe(path: &Path) {
    tool("mkfifo", &[path.to_str().unwrap()]);
}

/// An experiment with a profile of the user's own, a job file that includes another.
fn written(home: &Home) {
    home.write(
        "profiled.toml",
        "name = \"p\"\n[volumes.v]\nsize = \"8MiB\"\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
         [workloads.w]\nprofile = \"named.toml\"\n",
    );
    home.write("including.fio", "include named\n[job]\nrw=read\n");
}

/// Every option that names a file, with `named` for its name.
const WAYS: &[&str] = &[
    "check named",
    "check profiled.toml",
    "run named",
    "run named --on sim",
    "layout where named:d --offset 0 --length 4k",
    "bench named.fio",
    "bench including.fio",
    "bench --profile ./named.toml new --size 4m",
    "bench --profile ./named.toml --dry-run",
    "verify named",
    "import named",
    "watch --log named",
    "catalog import named",
    "catalog list --catalog named",
    "plan named",
    "list --store named",
    "show last --store named",
    "run profiled.toml --on sim --store named",
];

#[test]
fn what_has_no_end_is_refused_by_every_option() {
    for what in ["a pipe", "a character device", "a directory"] {
        let home = Home::new();
        written(&home);
        for name in ["named", "named.toml", "named.fio"] {
            let path = home.path(name);
            match what {
                "a pipe" => pipe(&path),
                "a directory" => std::fs::create_dir(path).unwrap(),
                _ => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
            }
        }
        for way in WAYS {
            let output = ends(&home, way);
            assert!([1, 2].contains(&status(&output)), "{way} with {what}: {output:?}");
            let said = stderr(&output);
            assert!(
                said.contains("named") && said.contains(what) || way.contains("--store"),
                "{way}: {said}"
            );
        }
    }
}

#[test]
fn what_is_too_long_says_the_limit() {
    let home = Home::new();
    written(&home);
    for name in ["named", "named.toml", "named.fio"] {
        // Sparse: a terabyte of zeros.
        std::fs::File::create(home.path(name)).unwrap().set_len(1 << 40).unwrap();
    }
    for way in WAYS.iter().filter(|way| !way.contains("--store")) {
        let output = ends(&home, way);
        assert!([1, 2].contains(&status(&output)), "{way}: {output:?}");
        let said = stderr(&output);
        let limit =
            if way.starts_with("verify") { "a line has more than 16777216 bytes" } else { "bytes; at most" };
        assert!(said.contains("named") && said.contains(limit), "{way}: {said}");
    }
}

/// A recorded host in which everything that was a file is a pipe, and then a link to a device without an end.
#[test]
fn a_recorded_host_of_pipes_or_devices_ends() {
    let files = |directory: &Path| tool("find", &[directory.to_str().unwrap(), "-type", "f"]);
    for to in ["pipe", "/dev/zero"] {
        let root = testing::unpack(testing::ARRAYS);
        for file in files(root.path()).lines().map(Path::new) {
            std::fs::remove_file(file).unwrap();
            match to {
                "pipe" => pipe(file),
                _ => std::os::unix::fs::symlink(to, file).unwrap(),
            }
        }
        let home = Home::new();
        let output = ends(&home, &format!("volumes --root {}", root.path().display()));
        assert_eq!(status(&output), 0, "{output:?}");
    }
}

/// What the user's own directories hold is read without being named.
#[test]
fn pipes_in_the_users_own_directories_end() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("config/ebbtide")).unwrap();
    pipe(&home.path("config/ebbtide/catalog.toml"));
    let output = home
        .command("timeout")
        .args([PATIENCE, EBB, "catalog", "list"])
        .env("XDG_CONFIG_HOME", home.path("config"))
        .output()
        .unwrap();
    assert_eq!(status(&output), 2, "{output:?}");
    std::fs::create_dir_all(home.path("state/ebbtide/runs")).unwrap();
    pipe(&home.path("state/ebbtide/runs/x.jsonl"));
    ends(&home, "cleanup");
}
