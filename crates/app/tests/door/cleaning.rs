//! What cleaning up removes, unmounts and detaches: what runs and guests of `ebb` made, and nothing of anybody's that is in
//! its place.

use super::common::{Home, status, stderr, tool};
use std::path::Path;
use std::process::Output;

fn lab(home: &Home, line: &str) -> Output {
    home.ebb(line).env("XDG_CACHE_HOME", home.path("cache")).output().unwrap()
}

/// A directory as ebb makes and marks it, `ebbtide_door::MARK`.
fn marked(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    ebbtide_door::Directory::open(directory).unwrap().mark().unwrap();
}

/// Somebody's directory, or file, mounted in what an ended guest, or an image, left.
#[test]
#[ignore = "requires root"]
fn what_is_mounted_in_a_directory_of_the_lab_s_stays() {
    for (inside, line) in [("guests/g1/in", "lab clean"), ("images/0123/in", "lab clean --all")] {
        for is_file in [false, true] {
            let home = Home::new();
            let own = home.path("cache/ebbtide/lab").join(inside);
            marked(own.parent().unwrap());
            std::fs::create_dir_all(home.path("v")).unwrap();
            std::fs::write(home.path("v/p"), "a user's own").unwrap();
            std::fs::write(own.parent().unwrap().join("disk0.disk"), "x").unwrap();
            let from = if is_file {
                std::fs::write(&own, "").unwrap();
                home.path("v/p")
            } else {
                std::fs::create_dir(&own).unwrap();
                home.path("v")
            };
            tool("mount", &["--bind", from.to_str().unwrap(), own.to_str().unwrap()]);
            let output = lab(&home, line);
            tool("umount", &[own.to_str().unwrap()]);
            assert_eq!(std::fs::read(home.path("v/p")).unwrap(), b"a user's own");
            assert_eq!(status(&output), 1, "{output:?}");
            assert_eq!(status(&output), 1, "{output:?}");
            assert!(stderr(&output).contains("something is mounted at"), "{output:?}");
            assert!(own.parent().unwrap().join("disk0.disk").exists(), "all of it or nothing");
            assert_eq!(status(&lab(&home, line)), 0);
            assert!(!own.parent().unwrap().exists(), "it goes once nothing is mounted");
        }
    }
}
