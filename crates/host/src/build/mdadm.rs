//! md arrays: found by uuid, stopped, their metadata erased.

use super::{BuildError, at, insist, run};
use crate::command::Runner;
use crate::sys::{self, Sys};
use std::path::Path;

/// The uuid in the output of `mdadm --detail --export` or `mdadm --examine --export`.
fn uuid(export: &str) -> Option<&str> {
    export.lines().find_map(|line| line.strip_prefix("MD_UUID=")).map(str::trim)
}

/// The uuid that mdadm finds with `how` (`--detail` or `--examine`); nothing when there is no array.
fn ask(runner: &dyn Runner, how: &str, device: &str) -> Result<Option<String>, BuildError> {
    let output = runner.run("mdadm", &[how, "--export", device])?;
    Ok(uuid(&output.text()).map(str::to_owned))
}

/// Arrays with this uuid, by kernel name.
fn arrays(sys: &Sys, runner: &dyn Runner, wanted: &str) -> Result<Vec<String>, BuildError> {
    let mut found = Vec::new();
    for name in sys::names(&sys.sys.join("block")) {
        let is_md = sys.sys.join("block").join(&name).join("md").exists();
        if is_md && ask(runner, "--detail", &format!("/dev/{name}"))?.as_deref() == Some(wanted) {
            found.push(name);
        }
    }
    Ok(found)
}

/// Stops the array with `uuid` and erases its metadata from its members; whether there was any of it.
///
/// In a loop: closing a member that still carries metadata makes udev assemble the array again.
pub(super) fn stop(
    sys: &Sys,
    runner: &dyn Runner,
    uuid: &str,
    listed: &[String],
) -> Result<bool, BuildError> {
    let mut members = listed.to_vec();
    let mut found = false;
    insist(runner, || {
        for array in arrays(sys, runner, uuid)? {
            let slaves = sys::names(&sys.sys.join("block").join(&array).join("slaves"));
            for slave in slaves.iter().map(|slave| format!("/dev/{slave}")) {
                if !members.contains(&slave) {
                    members.push(slave);
                }
            }
            run(runner, "mdadm", &["--stop", "--quiet", &format!("/dev/{array}")])?;
            found = true;
        }
        for member in &members {
            if at(sys, Path::new(member)).exists()
                && ask(runner, "--examine", member)?.as_deref() == Some(uuid)
            {
                run(runner, "mdadm", &["--zero-superblock", "--quiet", member])?;
                found = true;
            }
        }
        match arrays(sys, runner, uuid)?.first() {
            Some(array) => Err(BuildError::StillThere { what: format!("array /dev/{array}") }),
            None => Ok(found),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uuid_is_read_from_what_mdadm_exports() {
        let examined = include_str!("../../tests/outputs/mdadm-examine-export.txt");
        let detailed = include_str!("../../tests/outputs/mdadm-detail-export.txt");
        assert_eq!(uuid(examined), Some("00112233:44556677:8899aabb:ccddeeff"));
        assert_eq!(uuid(detailed), Some("00112233:44556677:8899aabb:ccddeeff"));
        assert_eq!(uuid(""), None);
    }
}
