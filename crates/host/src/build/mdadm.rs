//! md arrays: found by uuid, stopped, their metadata erased.

use super::{BuildError, Differs, SETTLE_MAX, blank, identity, insist, run};
use crate::command::Runner;
use crate::sys::{self, Sys};
use std::path::Path;

/// The uuid in the output of `mdadm --detail --export` or `mdadm --examine --export`.
fn uuid(export: &str) -> Option<&str> {
    sys::field(export, "MD_UUID=")
}

/// The uuid that mdadm finds with `how` (`--detail` or `--examine`); nothing when there is no array.
fn ask(runner: &dyn Runner, how: &str, device: &str) -> Result<Option<String>, BuildError> {
    let output = runner.run("mdadm", &[how, "--export", device])?;
    Ok(uuid(&output.text()).map(str::to_owned))
}

/// Arrays with this uuid, by kernel name.
pub(super) fn arrays(sys: &Sys, runner: &dyn Runner, wanted: &str) -> Result<Vec<String>, BuildError> {
    let mut found = Vec::new();
    for name in sys::names(&sys.sys.join("block")) {
        let is_md = sys.sys.join("block").join(&name).join("md").exists();
        if is_md && ask(runner, "--detail", &format!("/dev/{name}"))?.as_deref() == Some(wanted) {
            found.push(name);
        }
    }
    Ok(found)
}

/// The array on `members` and no others whose members failed while it ran: mdadm cannot ask them for its uuid any more. Of one whose members
/// are all gone only its name `device` tells.
pub(super) fn broken(sys: &Sys, device: &str, members: &[String]) -> Option<String> {
    let own: Vec<String> = members.iter().filter_map(|member| identity::name(sys, member)).collect();
    let is_broken = |name: &String| {
        let md = sys.sys.join("block").join(name).join("md");
        let has_own = || own.iter().any(|member| md.join(format!("dev-{member}")).exists());
        sys::word(&md.join("array_state")).is_some_and(|state| state == "broken")
            && (has_own() || identity::name(sys, device).as_ref() == Some(name))
            && strangers(sys, name, members).is_empty()
    };
    sys::names(&sys.sys.join("block")).into_iter().find(is_broken)
}

/// The devices of the array `name` that are not among `members`, by the kernel's names. What it has thrown out is nobody's, and so is what is gone.
pub(super) fn strangers(sys: &Sys, name: &str, members: &[String]) -> Vec<String> {
    let own: Vec<String> = members.iter().filter_map(|member| identity::name(sys, member)).collect();
    let md = sys.sys.join("block").join(name).join("md");
    let block = sys.sys.join("class/block");
    let has = |name: &String| {
        let state = sys::word(&md.join(format!("dev-{name}/state"))).unwrap_or_default();
        let is_faulty = state.split(',').any(|word| word == "faulty");
        let is_there = block.join(name).join("dev").exists();
        !is_faulty && is_there && sys::number::<u64>(&block.join(name).join("size")) != Some(0)
    };
    let all = sys::names(&md);
    let all = all.iter().filter_map(|name| name.strip_prefix("dev-").map(str::to_owned));
    all.filter(|name| !own.contains(name) && has(name)).collect()
}

/// Which arrays with a uuid are stopped, and what is erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All of them, with all their members: nothing else can have a trial's uuid.
    All,
    /// Those on the listed members and no others, and those: what stays may have been copied.
    Listed,
}

/// Arrays with `uuid` within `reach`; `device` is its name.
fn within(
    sys: &Sys,
    runner: &dyn Runner,
    (device, uuid): (&str, &str),
    listed: &[String],
    reach: Reach,
) -> Result<Vec<String>, BuildError> {
    let mut found = arrays(sys, runner, uuid)?;
    found.extend(broken(sys, device, listed).filter(|name| !found.contains(name)));
    found.retain(|name| reach == Reach::All || strangers(sys, name, listed).is_empty());
    Ok(found)
}

/// Whether `device` is the array with this uuid.
pub(super) fn is_at(runner: &dyn Runner, wanted: &str, device: &str) -> Result<bool, BuildError> {
    Ok(ask(runner, "--detail", device)?.as_deref() == Some(wanted))
}

/// The uuid of the array at `device` where that is another one, made of `members`. They have to say so: of an array whose members fail mdadm makes
/// up a uuid.
pub(super) fn other_at(
    sys: &Sys,
    runner: &dyn Runner,
    (device, wanted): (&str, &str),
    members: &[String],
) -> Result<Option<String>, BuildError> {
    let is_there = sys.at(Path::new(device)).exists();
    let is = if is_there { ask(runner, "--detail", device)? } else { None };
    match is.filter(|is| is != wanted) {
        Some(is) if is_on(sys, runner, &is, members)? => Ok(Some(is)),
        _ => Ok(None),
    }
}

/// Whether there is an array of this name without members and without a size: nobody's.
fn is_empty(sys: &Sys, array: &str) -> bool {
    let attribute = sys.sys.join("block").join(array).join("md/array_state");
    sys::word(&attribute).is_some_and(|state| state == "clear")
}

/// Stops the array `(device, uuid)` that is on `listed`, and leaves its members as they are; whether there was one.
///
/// In a loop, as [`stop`]: udev may assemble it again from a member that somebody just closed.
pub(super) fn halt(
    sys: &Sys,
    runner: &dyn Runner,
    array: (&str, &str),
    listed: &[String],
) -> Result<bool, BuildError> {
    let mut found = false;
    insist(runner, || {
        for array in within(sys, runner, array, listed, Reach::Listed)? {
            run(runner, "mdadm", &["--stop", "--quiet", &format!("/dev/{array}")])?;
            found = true;
        }
        let _ = runner.run("udevadm", &["settle", &format!("--timeout={SETTLE_MAX}")]);
        match within(sys, runner, array, listed, Reach::Listed)?.first() {
            Some(array) => Err(BuildError::StillThere { what: format!("array /dev/{array}") }),
            None => Ok(found),
        }
    })
}

/// Whether any of `members` carries metadata of the array with `uuid`.
pub(super) fn is_on(
    sys: &Sys,
    runner: &dyn Runner,
    uuid: &str,
    members: &[String],
) -> Result<bool, BuildError> {
    for member in members {
        if sys.at(Path::new(member)).exists() && ask(runner, "--examine", member)?.as_deref() == Some(uuid) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Those of `members` that carry metadata of the array with `uuid`.
pub(super) fn carriers<'a>(
    sys: &Sys,
    runner: &dyn Runner,
    uuid: &str,
    members: &'a [String],
) -> Result<Vec<&'a str>, BuildError> {
    let mut carriers = Vec::new();
    for member in members {
        if is_on(sys, runner, uuid, std::slice::from_ref(member))? {
            carriers.push(member.as_str());
        }
    }
    Ok(carriers)
}

/// How the array with `uuid` that is on `members` differs from what mdadm makes with `arguments`; nothing where it does not, or is not there.
pub(super) fn differs(
    sys: &Sys,
    runner: &dyn Runner,
    uuid: &str,
    members: &[String],
    arguments: &[String],
) -> Result<Option<Differs>, BuildError> {
    let carriers = carriers(sys, runner, uuid, members)?;
    let Some(member) = carriers.first() else { return Ok(None) };
    Ok(differs_in(&runner.run("mdadm", &["--examine", member])?.text(), arguments))
}

/// What mdadm calls a property, how an option of `--create` names it, and what the option's value is there.
type Property = (&'static str, &'static str, fn(&str) -> String);

const PROPERTIES: [Property; 4] = [
    ("Raid Level", "--level=", |level| match level {
        "linear" => level.to_owned(),
        number => format!("raid{number}"),
    }),
    ("Raid Devices", "--raid-devices=", str::to_owned),
    ("Chunk Size", "--chunk=", str::to_owned),
    ("Layout", "--layout=", |layout| match layout.split_at_checked(1) {
        Some(("n", copies)) => format!("near={copies}"),
        Some(("f", copies)) => format!("far={copies}"),
        Some(("o", copies)) => format!("offset={copies}"),
        _ => layout.to_owned(),
    }),
];

/// [`differs`] by what `mdadm --examine` says.
fn differs_in(examined: &str, arguments: &[String]) -> Option<Differs> {
    PROPERTIES.iter().find_map(|(property, option, shown)| {
        let wanted = shown(arguments.iter().find_map(|argument| argument.strip_prefix(option))?);
        let is = sys::value(examined, &[property])?;
        (is != wanted).then(|| Differs { property: property.to_lowercase(), is: is.to_owned(), wanted })
    })
}

/// Of how many blocks of 4096 bytes, from byte 8192 on, md has had the use before the data of a member: its bitmap and its list of bad blocks, which
/// `--zero-superblock` leaves. In the first MiB, by which a device is told to be blank.
fn left_by_mdadm(examined: &str) -> Option<u64> {
    sys::value(examined, &["Version"]).filter(|version| *version == "1.2")?;
    let sectors: u64 = sys::value(examined, &["Data Offset"])?.split_whitespace().next()?.parse().ok()?;
    (sectors.min(2048) / 8).checked_sub(2).filter(|count| *count > 0)
}

/// The first byte that is not zero in front of the superblock of `member`, where md writes nothing: a partition table, a file system. Nothing where
/// its superblock is none of version 1.2: in other formats that, or what is in the array, begins at byte 0.
pub(super) fn in_front(sys: &Sys, runner: &dyn Runner, member: &str) -> Result<Option<usize>, BuildError> {
    let Some(at) = first_byte(sys, member) else { return Ok(None) };
    let examined = runner.run("mdadm", &["--examine", member])?;
    Ok(is_free_in_front(&examined.text()).then_some(at))
}

/// Whether md leaves the first [`FRONT`] bytes of a member alone, by what `mdadm --examine` says of it.
fn is_free_in_front(examined: &str) -> bool {
    sys::value(examined, &["Version"]) == Some("1.2")
}

/// The first of the [`FRONT`] bytes of `member` that is not zero. Nothing where the device cannot be read.
pub(super) fn first_byte(sys: &Sys, member: &str) -> Option<usize> {
    sys::beginning(&sys.at(Path::new(member)), FRONT)?.iter().position(|byte| *byte != 0)
}

/// Bytes of a member in front of a superblock of version 1.2.
pub(super) const FRONT: u64 = blank::BLOCK;

/// Stops the array `(device, uuid)` and erases its metadata from its members; whether there was any of it.
///
/// In a loop: closing a member that still carries metadata makes udev assemble the array again.
pub(super) fn stop(
    sys: &Sys,
    runner: &dyn Runner,
    (device, uuid): (&str, &str),
    listed: &[String],
    reach: Reach,
) -> Result<bool, BuildError> {
    let mut members = listed.to_vec();
    let mut found = false;
    let mut stopped: Vec<String> = Vec::new();
    insist(runner, || {
        // Whoever opens the node before udev has removed it makes an array of nothing (md's `create_on_open`).
        for array in &stopped {
            if is_empty(sys, array) {
                run(runner, "mdadm", &["--stop", "--quiet", &format!("/dev/{array}")])?;
            }
        }
        for array in within(sys, runner, (device, uuid), listed, reach)? {
            let slaves = sys::names(&sys.sys.join("block").join(&array).join("slaves"));
            for slave in slaves.iter().map(|slave| format!("/dev/{slave}")) {
                if reach == Reach::All && !members.contains(&slave) {
                    members.push(slave);
                }
            }
            run(runner, "mdadm", &["--stop", "--quiet", &format!("/dev/{array}")])?;
            found = true;
            stopped.push(array);
        }
        for member in &members {
            if sys.at(Path::new(member)).exists()
                && ask(runner, "--examine", member)?.as_deref() == Some(uuid)
            {
                let examined = runner.run("mdadm", &["--examine", member])?.text().into_owned();
                if reach == Reach::Listed {
                    erase_data(sys, runner, member, &examined)?;
                }
                run(runner, "mdadm", &["--zero-superblock", "--quiet", member])?;
                if let Some(count) = left_by_mdadm(&examined) {
                    blank::zero(runner, member, 2, count)?;
                }
                found = true;
            }
        }
        if !stopped.is_empty() {
            let _ = runner.run("udevadm", &["settle", &format!("--timeout={SETTLE_MAX}")]);
        }
        let again = within(sys, runner, (device, uuid), listed, reach)?;
        match again.iter().chain(stopped.iter().filter(|array| is_empty(sys, array))).next() {
            Some(array) => Err(BuildError::StillThere { what: format!("array /dev/{array}") }),
            None => Ok(found),
        }
    })
}

/// Erases what `member` has of the array's data in the places by which a device is told to be blank, and leaves its superblock.
fn erase_data(sys: &Sys, runner: &dyn Runner, member: &str, examined: &str) -> Result<(), BuildError> {
    let name = identity::name(sys, member).unwrap_or_default();
    let sectors: Option<u64> = sys::number(&sys.sys.join("class/block").join(name).join("size"));
    match sectors.and_then(|sectors| blank::superblock(examined, sectors * 512)) {
        Some(superblock) => blank::erase(sys, runner, member, &superblock),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_compared_with_what_would_be_made() {
        let examined = "/dev/vdb:\n     Raid Level : raid10\n   Raid Devices : 4\n         Layout : offset=2\n     Chunk Size : 512K\n";
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let same =
            words(&["--create", "--level=10", "--layout=o2", "--chunk=512K", "--raid-devices=4", "/dev/vdb"]);
        assert_eq!(differs_in(examined, &same), None);
        for (option, other, wanted) in [
            ("--level=10", "--level=5", "raid level raid10 raid5"),
            ("--layout=o2", "--layout=n2", "layout offset=2 near=2"),
            ("--chunk=512K", "--chunk=64K", "chunk size 512K 64K"),
            ("--raid-devices=4", "--raid-devices=3", "raid devices 4 3"),
        ] {
            let changed: Vec<String> = same.iter().map(|word| word.replace(option, other)).collect();
            let Differs { property, is, wanted: asked } = differs_in(examined, &changed).expect(other);
            assert_eq!(format!("{property} {is} {asked}"), wanted);
        }
        // What a level has no such property of is not compared.
        assert_eq!(differs_in("     Raid Level : raid1\n", &words(&["--level=1", "--chunk=64K"])), None);
    }

    #[test]
    fn only_one_format_has_something_in_front_of_it_that_is_not_md_s() {
        for (version, wanted) in [("1.2", true), ("1.1", false), ("1.0", false), ("0.90.00", false)] {
            let examined = format!("/dev/vdb:\n          Magic : a92b4efc\n        Version : {version}\n");
            assert_eq!(is_free_in_front(&examined), wanted, "{version}");
        }
        assert!(!is_free_in_front("mdadm: No md superblock detected on /dev/vdb.\n"));
    }

    #[test]
    fn what_mdadm_leaves_ends_before_the_data() {
        let examined = |version: &str, offset: u64| {
            format!("        Version : {version}\n    Data Offset : {offset} sectors\n")
        };
        for (version, offset, wanted) in [
            ("1.2", 264_192, Some(254)),
            ("1.2", 2048, Some(254)),
            ("1.2", 64, Some(6)),
            ("1.2", 16, None),
            ("1.0", 2048, None),
        ] {
            assert_eq!(left_by_mdadm(&examined(version, offset)), wanted, "{version} {offset}");
        }
        assert_eq!(left_by_mdadm(""), None);
    }

    #[test]
    fn the_uuid_is_read_from_what_mdadm_exports() {
        let examined = include_str!("../../tests/outputs/mdadm-examine-export.txt");
        let detailed = include_str!("../../tests/outputs/mdadm-detail-export.txt");
        assert_eq!(uuid(examined), Some("00112233:44556677:8899aabb:ccddeeff"));
        assert_eq!(uuid(detailed), Some("00112233:44556677:8899aabb:ccddeeff"));
        assert_eq!(uuid(""), None);
    }
}
