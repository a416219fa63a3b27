//! LVM: found by uuid or by the run's own name, removed.

use super::{BuildError, Differs, STEP, insist, run};
use crate::command::Runner;
use ebbtide_model::plan::build::LVM_CONFIG;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps between two questions whether a volume is in sync.
const ASKED_EVERY: u32 = 10;

/// What the reporting commands print with `--reportformat json`.
#[derive(Debug, Deserialize)]
struct Report {
    report: Vec<BTreeMap<String, Vec<BTreeMap<String, String>>>>,
}

/// The rows of a report, whatever they are of.
fn rows(program: &'static str, text: &str) -> Result<Vec<BTreeMap<String, String>>, BuildError> {
    let report: Report = serde_json::from_str(text)
        .map_err(|error| BuildError::Answer { program, what: error.to_string() })?;
    Ok(report.report.into_iter().flat_map(BTreeMap::into_values).flatten().collect())
}

/// The rows of `program` for which `selection` holds.
fn select(
    runner: &dyn Runner,
    program: &'static str,
    fields: &str,
    selection: &str,
) -> Result<Vec<BTreeMap<String, String>>, BuildError> {
    report(runner, program, fields, &["--select", selection])
}

fn report(
    runner: &dyn Runner,
    program: &'static str,
    fields: &str,
    more: &[&str],
) -> Result<Vec<BTreeMap<String, String>>, BuildError> {
    let arguments = ["--config", LVM_CONFIG, "--reportformat", "json", "--units", "k", "--options", fields];
    rows(program, &run(runner, program, &[&arguments[..], more].concat())?)
}

/// A physical volume, as LVM finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Physical {
    /// Its device; `[unknown]` where there is none.
    pub(super) device: String,
    pub(super) uuid: String,
    /// Name and uuid of its group; empty where it is in none.
    pub(super) group: String,
    pub(super) group_uuid: String,
}

/// Every physical volume.
pub(super) fn physical(runner: &dyn Runner) -> Result<Vec<Physical>, BuildError> {
    let rows = report(runner, "pvs", "pv_name,pv_uuid,vg_name,vg_uuid", &[])?;
    let read = |mut row: BTreeMap<String, String>| {
        let mut field = |name: &str| row.remove(name).unwrap_or_default();
        let (device, uuid) = (field("pv_name"), field("pv_uuid"));
        Physical { device, uuid, group: field("vg_name"), group_uuid: field("vg_uuid") }
    };
    Ok(rows.into_iter().map(read).collect())
}

/// A logical volume that people see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Logical {
    pub(super) name: String,
    pub(super) uuid: String,
}

/// The logical volumes of the group `name`.
pub(super) fn logical(runner: &dyn Runner, name: &str) -> Result<Vec<Logical>, BuildError> {
    let rows = select(runner, "lvs", "lv_name,lv_uuid", &format!("vg_name={name}"))?;
    let read = |mut row: BTreeMap<String, String>| {
        let mut field = |name: &str| row.remove(name).unwrap_or_default();
        Logical { name: field("lv_name"), uuid: field("lv_uuid") }
    };
    Ok(rows.into_iter().map(read).collect())
}

/// Names of the snapshots of the logical volume `volume`, thin ones too, in brackets where LVM hides them.
pub(super) fn snapshots(runner: &dyn Runner, volume: &str) -> Result<Vec<String>, BuildError> {
    let (group, name) = parts(volume);
    let selection = format!("vg_name={group}");
    let rows = report(runner, "lvs", "lv_name,origin", &["--all", "--select", &selection])?;
    let of_it = rows.into_iter().filter(|row| row.get("origin").is_some_and(|origin| origin == name));
    Ok(of_it.filter_map(|mut row| row.remove("lv_name")).collect())
}

/// Removes the physical volume with `uuid` from whatever device has it; whether one has.
pub(super) fn remove_pv(runner: &dyn Runner, uuid: &str) -> Result<bool, BuildError> {
    let mut found = false;
    insist(runner, || {
        for row in select(runner, "pvs", "pv_name,pv_uuid", &format!("pv_uuid={uuid}"))? {
            if let Some(device) =
                row.get("pv_name").filter(|_| row.get("pv_uuid").is_some_and(|is| is == uuid))
            {
                run(runner, "pvremove", &["--config", LVM_CONFIG, "--yes", device])?;
                found = true;
            }
        }
        Ok(found)
    })
}

/// Whether there is a volume group `name`.
pub(super) fn has_vg(runner: &dyn Runner, name: &str) -> Result<bool, BuildError> {
    Ok(!select(runner, "vgs", "vg_name", &format!("vg_name={name}"))?.is_empty())
}

/// Removes the volume group `name`; whether there was one.
pub(super) fn remove_vg(runner: &dyn Runner, name: &str) -> Result<bool, BuildError> {
    insist(runner, || {
        if select(runner, "vgs", "vg_name", &format!("vg_name={name}"))?.is_empty() {
            return Ok(false);
        }
        run(runner, "vgremove", &["--config", LVM_CONFIG, "--yes", "--force", name]).map(|_| true)
    })
}

/// Group and name of the logical volume `volume`, `VG/LV`.
pub(super) fn parts(volume: &str) -> (&str, &str) {
    volume.split_once('/').unwrap_or((volume, ""))
}

fn find_lv(runner: &dyn Runner, volume: &str) -> Result<Vec<BTreeMap<String, String>>, BuildError> {
    let (group, name) = parts(volume);
    select(runner, "lvs", "lv_name,vg_name,sync_percent", &format!("vg_name={group} && lv_name={name}"))
}

/// Whether there is a logical volume `volume`, `VG/LV`.
pub(super) fn is_there(runner: &dyn Runner, volume: &str) -> Result<bool, BuildError> {
    Ok(!find_lv(runner, volume)?.is_empty())
}

/// What follows a volume's name in that of its cache, as LVM calls it while it is not attached.
pub(super) const CACHE: &str = "_cache";

/// Types of volumes that have a cache.
const CACHED: [&str; 2] = ["cache", "writecache"];

/// The cache of a logical volume, as LVM has it now.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundCache {
    /// Whether disks of the volume or of its cache are missing.
    pub(super) is_partial: bool,
    /// Whether each write is on the slow disks, too: somebody may have changed that since it was made.
    pub(super) is_writethrough: bool,
}

/// The cache of the logical volume `volume`; nothing where it has none.
pub(super) fn cache_of(runner: &dyn Runner, volume: &str) -> Result<Option<FoundCache>, BuildError> {
    let (group, name) = parts(volume);
    let fields = "lv_name,segtype,lv_health_status,cache_mode";
    let rows = select(runner, "lvs", fields, &format!("vg_name={group} && lv_name={name}"))?;
    let read = |row: BTreeMap<String, String>| {
        let is = |field: &str, value: &str| row.get(field).is_some_and(|found| found == value);
        let found = FoundCache {
            is_partial: is("lv_health_status", "partial"),
            is_writethrough: is("cache_mode", "writethrough"),
        };
        CACHED.iter().any(|kind| is("segtype", kind)).then_some(found)
    };
    Ok(rows.into_iter().find_map(read))
}

/// Writes to the logical volume `volume` what only its cache has, and removes that; whether there was one, or a part of one that was being
/// made. One whose disks are missing stays: what it has is not there.
pub(super) fn uncache(runner: &dyn Runner, volume: &str) -> Result<bool, BuildError> {
    match cache_of(runner, volume)? {
        Some(FoundCache { is_partial: true, .. }) => Ok(false),
        Some(_) => {
            run(runner, "lvconvert", &["--config", LVM_CONFIG, "--yes", "--uncache", volume]).map(|_| true)
        }
        None => remove_lv(runner, &format!("{volume}{CACHE}")),
    }
}

/// How the logical volume `volume` differs from what lvcreate makes with `arguments`; nothing where it does not, or is not there.
pub(super) fn differs(
    runner: &dyn Runner,
    volume: &str,
    arguments: &[String],
) -> Result<Option<Differs>, BuildError> {
    let (group, name) = parts(volume);
    let fields = "lv_name,segtype,stripes,stripe_size";
    let rows = report(runner, "lvs", fields, &["--all", "--select", &format!("vg_name={group}")])?;
    // What somebody added since are segments after the first.
    Ok(rows.iter().find(|row| is_behind(row, name)).and_then(|row| differs_in(row, arguments)))
}

/// Whether `row` is of the volume `name` itself, and not of the cache in front of it: that takes the name, and what is behind it gets another, in
/// brackets.
fn is_behind(row: &BTreeMap<String, String>, name: &str) -> bool {
    let field = |name: &str| row.get(name).map_or("", String::as_str);
    let is = field("lv_name").trim_matches(['[', ']']).strip_prefix(name);
    is.is_some_and(|rest| ["", "_corig", "_wcorig"].contains(&rest)) && !CACHED.contains(&field("segtype"))
}

/// [`differs`] by a segment of the volume.
fn differs_in(row: &BTreeMap<String, String>, arguments: &[String]) -> Option<Differs> {
    let option = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1).cloned();
    let members = arguments.iter().filter(|argument| argument.starts_with("/dev/")).count();
    // `64.00k`
    let whole = |size: &str| size.trim_end_matches('k').split('.').next().map(|size| format!("{size}k"));
    let wanted = [
        ("segtype", "segment type", option("--type")),
        ("stripes", "number of members", Some(members.to_string())),
        ("stripe_size", "stripe size", option("--stripesize")),
    ];
    wanted.into_iter().find_map(|(field, property, wanted)| {
        let (wanted, is) = (wanted?, row.get(field)?);
        let is = if field == "stripe_size" { whole(is)? } else { is.clone() };
        (is != wanted).then(|| Differs { property: property.to_owned(), is, wanted })
    })
}

/// Removes the logical volume `volume`, `VG/LV`; whether there was one.
pub(super) fn remove_lv(runner: &dyn Runner, volume: &str) -> Result<bool, BuildError> {
    insist(runner, || {
        if find_lv(runner, volume)?.is_empty() {
            return Ok(false);
        }
        run(runner, "lvremove", &["--config", LVM_CONFIG, "--yes", "--force", volume]).map(|_| true)
    })
}

/// Fails unless all physical volumes of `group` have the same number of extents.
pub(super) fn equal(runner: &dyn Runner, group: &str) -> Result<(), BuildError> {
    same_extents(&select(runner, "pvs", "pv_name,pv_pe_count", &format!("vg_name={group}"))?)
}

fn same_extents(rows: &[BTreeMap<String, String>]) -> Result<(), BuildError> {
    let field = |row: &BTreeMap<String, String>, name: &str| row.get(name).cloned().unwrap_or_default();
    let counts: Vec<String> = rows.iter().map(|row| field(row, "pv_pe_count")).collect();
    if counts.windows(2).all(|pair| matches!(pair, [one, next] if one == next)) {
        return Ok(());
    }
    let members = rows.iter().zip(&counts);
    let members = members.map(|(row, count)| format!("{} has {count} extents", field(row, "pv_name")));
    Err(BuildError::Unequal { members: members.collect::<Vec<_>>().join(", ") })
}

/// Waits until `volume` is in sync: asks once a second, and listens to `stop` in between.
pub(super) fn wait(runner: &dyn Runner, volume: &str, stop: &AtomicBool) -> Result<(), BuildError> {
    while synced(runner, volume)? < 100.0 {
        for _ in 0..ASKED_EVERY {
            if stop.load(Ordering::Relaxed) {
                return Err(BuildError::Stopped);
            }
            std::thread::sleep(STEP);
        }
        runner.forget();
    }
    Ok(())
}

/// How much of `volume` is in sync, percent.
fn synced(runner: &dyn Runner, volume: &str) -> Result<f64, BuildError> {
    let rows = find_lv(runner, volume)?;
    let percent = rows.first().and_then(|row| row.get("sync_percent")).map_or("", String::as_str);
    percent.parse().map_err(|_| {
        let what = format!("sync_percent of {volume} is \"{percent}\"");
        BuildError::Answer { program: "lvs", what }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandError, Output};

    #[test]
    fn reports_are_read() {
        let pvs = rows("pvs", include_str!("../../tests/outputs/pvs.json")).expect("reads");
        assert_eq!(pvs[0]["pv_name"], "/dev/vdc");
        assert_eq!(pvs[0]["pv_uuid"], "EMl8Q9-3KgD-CpDu-XjXA-EjBx-314L-QKApPP");
        let lvs = rows("lvs", include_str!("../../tests/outputs/lvs.json")).expect("reads");
        assert_eq!((lvs[0]["lv_name"].as_str(), lvs[0]["sync_percent"].as_str()), ("data", "100.00"));
        assert_eq!(rows("vgs", include_str!("../../tests/outputs/vgs-none.json")).expect("reads").len(), 0);
        assert!(rows("vgs", "WARNING: no").is_err());
    }

    #[test]
    fn a_volume_is_compared_with_what_would_be_made() {
        let row = |kind: &str, stripes: &str, size: &str| -> BTreeMap<String, String> {
            [("segtype", kind), ("stripes", stripes), ("stripe_size", size)]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into()
        };
        let arguments =
            "--type striped --stripes 2 --stripesize 64k --extents 100%FREE --name data vg /dev/a /dev/b";
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        assert_eq!(differs_in(&row("striped", "2", "64.00k"), &arguments), None);
        for (row, wanted) in [
            (row("linear", "1", "0k"), "segment type linear striped"),
            (row("striped", "3", "64.00k"), "number of members 3 2"),
            (row("striped", "2", "512.00k"), "stripe size 512k 64k"),
        ] {
            let Differs { property, is, wanted: asked } = differs_in(&row, &arguments).expect(wanted);
            assert_eq!(format!("{property} {is} {asked}"), wanted);
        }
    }

    /// Answers that half is in sync, and asks to stop meanwhile; all of it from the third question on.
    struct Syncing<'a> {
        stop: &'a AtomicBool,
        asked: std::cell::Cell<u32>,
    }

    impl Runner for Syncing<'_> {
        fn run_with(&self, _: &str, _: &[&str], _: &[u8]) -> Result<Output, CommandError> {
            self.asked.set(self.asked.get() + 1);
            self.stop.store(true, Ordering::Relaxed);
            let percent = if self.asked.get() < 3 { "50.00" } else { "100.00" };
            let report = format!("{{\"report\":[{{\"lv\":[{{\"sync_percent\":\"{percent}\"}}]}}]}}");
            Ok(Output { status: Some(0), stdout: report.into_bytes(), stderr: String::new() })
        }
    }

    #[test]
    fn a_sync_is_not_waited_for_after_a_stop() {
        let stop = AtomicBool::new(false);
        let runner = Syncing { stop: &stop, asked: Default::default() };
        assert_eq!(wait(&runner, "vg/data", &stop), Err(BuildError::Stopped));
        runner.asked.set(2);
        assert_eq!(wait(&runner, "vg/data", &stop), Ok(()), "it is in sync");
    }

    #[test]
    fn unequal_members_are_told_with_their_sizes() {
        let row = |name: &str, count: &str| {
            [("pv_name", name), ("pv_pe_count", count)].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
        };
        assert_eq!(same_extents(&[row("/dev/vda", "31"), row("/dev/vdb", "31")]), Ok(()));
        let error =
            same_extents(&[row("/dev/vda", "31"), row("/dev/vdb", "4")]).expect_err("differ").to_string();
        assert!(error.contains("/dev/vda has 31 extents, /dev/vdb has 4 extents; give it"), "{error}");
    }
}
