//! When copies over hosts have outgrown md: one table, each row with its reason in the need's own figures and where its number comes from.
//!
//! A client assembles the copies (`layout = "replicated"`) and nobody else: all writes, all copies and all repairs go through it. A store
//! that is a cluster by itself (Ceph, a cloud's replicated volumes) has none of that in one place.

use ebbtide_model::catalog::{Catalog, Instance};
use ebbtide_model::need::{Need, OverHosts};
use ebbtide_model::units::{Bytes, format_count, format_hours, format_throughput};
use serde::Serialize;

/// Most hosts that one client should have copies on.
///
/// With five, a store that heals itself and keeps three copies can lose a host, make the copies anew on the other four, and lose
/// another; with three it has nowhere to put them, and with four it can heal once. Below that it gives little that md does not. Beyond
/// it md only gets more pairs of hosts that must not fail together, of which each is one client's to repair.
pub const HOSTS_MOST: u32 = 4;
/// Longest time that the data may be without all copies, in hours: a day, after which who is paged has slept and worked.
pub const REPAIR_HOURS_MOST: f64 = 24.0;
/// Share of the client's network that a repair may have: the rest is the application's.
const REPAIR_SHARE: f64 = 0.5;
/// Bytes per second of the network where nothing says which: 10 Gbit/s.
const NETWORK: f64 = 1.25e9;
/// Share of its disks that Ceph fills before it warns (`mon_osd_nearfull_ratio`).
const NEARFULL: f64 = 0.85;

/// One reason against md, with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outgrown {
    /// Which row of the table it is.
    pub rule: &'static str,
    /// The reason, in the need's figures.
    pub because: String,
    /// Where the fact comes from.
    pub source: &'static str,
}

/// A row of the table.
pub struct Row {
    /// Its name.
    pub rule: &'static str,
    /// The reason in the need's figures, where the row holds; with the bytes per second that the client's network carries.
    holds: fn(&Need, OverHosts, f64) -> Option<String>,
    /// Where the fact comes from.
    pub source: &'static str,
}

/// Why md over other hosts is the wrong answer, the plainest reason first.
pub const TABLE: &[Row] = &[
    Row {
        rule: "writers",
        holds: |_, over, _| {
            (over.writers > 1).then(|| {
                format!(
                    "{} write to the same volume: each would have a bitmap and a resync of its own, and they would undo each other's; an \
                     export lets one client in",
                    format_count(over.writers.into(), "client")
                )
            })
        },
        source: "docs/decisions/one-client-for-an-export.md; md-cluster (Documentation/driver-api/md/md-cluster.rst) wants a lock manager \
                 and has RAID1, RAID10 with limits",
    },
    Row {
        rule: "self-healing",
        holds: |_, over, _| {
            over.self_healing.then(|| {
                "a lost host's copies are to be made anew by themselves: md makes them on a spare that is attached to that very array, and \
                 never on free space of the hosts that are left; Ceph begins 10 minutes after it has lost a host"
                    .to_owned()
            })
        },
        source: "md(4), mdadm(8) (spares); Ceph, mon_osd_down_out_interval = 600 s",
    },
    Row {
        rule: "hosts",
        holds: |_, over, _| {
            let pairs = |hosts: u32| hosts * (hosts - 1) / 2;
            (over.hosts > HOSTS_MOST).then(|| {
                format!(
                    "{} hosts are {} pairs that must not fail together (of {HOSTS_MOST} hosts {}), and the client, which alone repairs them, does not \
                     get faster with their number; from {} hosts on a store with 3 copies heals on those that are left and can lose another",
                    over.hosts,
                    pairs(over.hosts),
                    pairs(HOSTS_MOST),
                    HOSTS_MOST + 1
                )
            })
        },
        source: "counted; Ceph puts each of 3 copies on a host of its own, so that it needs a fourth to heal and a fifth to lose one more \
                 (CRUSH, failure domain host); no more than 3 hosts were tried here (docs/reference/remote.md)",
    },
    Row {
        rule: "repair",
        holds: |need, over, network| {
            let hours = repair_hours(need, over, network);
            (hours > REPAIR_HOURS_MOST).then(|| {
                format!(
                    "a host whose disks are new gets its {} from the others through the client in {} at half of its {}, and {} is the most that data \
                     should be without a copy; in a store that is a cluster all hosts repair at once and none of it passes the client",
                    share_of_host(need, over).short(),
                    format_hours(hours.round()),
                    format_throughput(network),
                    format_hours(REPAIR_HOURS_MOST)
                )
            })
        },
        source: "computed: capacity x copies / hosts / (network / 2); a day is a convention",
    },
];

/// Bytes that one host has.
fn share_of_host(need: &Need, over: OverHosts) -> Bytes {
    Bytes((need.capacity.0 as f64 * f64::from(over.copies) / f64::from(over.hosts.max(1))).ceil() as u64)
}

/// Hours that a host whose disks are new takes to get its copies, at [`REPAIR_SHARE`] of a `network` of so many bytes per second.
pub(crate) fn repair_hours(need: &Need, over: OverHosts, network: f64) -> f64 {
    share_of_host(need, over).0 as f64 / (network * REPAIR_SHARE) / 3600.0
}

/// What the loss of a host means, in words.
pub(crate) fn repair(need: &Need, over: OverHosts, network: f64) -> String {
    let hours = repair_hours(need, over, network);
    let time =
        if hours < 1.0 { format!("{:.0} minutes", (hours * 60.0).ceil()) } else { format_hours(hours) };
    let more = match over.copies {
        2 => "no other host may be lost".to_owned(),
        copies => format!("{} more may be lost", format_count((copies - 2).into(), "host")),
    };
    format!(
        "a host that comes back gets what it missed; one whose disks are new gets {} in about {time} at half of the client's network, and until then {more}",
        share_of_host(need, over).short()
    )
}

/// Bytes per second that the network of `instance` carries in each direction; 10 Gbit/s where that is not known.
pub(crate) fn network(instance: Option<&Instance>) -> f64 {
    instance.and_then(|instance| instance.network_gbps).map_or(NETWORK, |gbps| gbps * 1e9 / 8.0)
}

/// Every row that holds for `need`, whose client has a network of so many bytes per second; none where it asks for no hosts.
pub fn outgrown(need: &Need, network: f64) -> Vec<Outgrown> {
    let Some(over) = need.over else { return Vec::new() };
    let told = |row: &Row| {
        let because = (row.holds)(need, over, network)?;
        Some(Outgrown { rule: row.rule, because, source: row.source })
    };
    TABLE.iter().filter_map(told).collect()
}

/// What holds behind every instance that may be used: with the fastest network of them.
pub(crate) fn everywhere(need: &Need, catalog: &Catalog) -> Vec<Outgrown> {
    let instances = catalog.instances().iter().filter(|instance| need.may_use(&instance.id));
    let fastest = instances.map(|instance| network(Some(instance))).max_by(f64::total_cmp);
    outgrown(need, fastest.unwrap_or(NETWORK))
}

/// What to take instead, with what `need` takes of it.
pub(crate) fn instead(need: &Need) -> Vec<String> {
    let Some(over) = need.over else { return Vec::new() };
    let copies = over.copies.max(3);
    let hosts = over.hosts.max(copies + 1);
    // What is left when one is lost has to hold all copies.
    let each = need.capacity.0 as f64 * f64::from(copies) / f64::from(hosts - 1) / NEARFULL;
    let ceph = format!(
        "Ceph with {copies} copies (size {copies}, min_size {}): {hosts} hosts of at least {} each, so that they can hold all copies when one is lost, filled to \
         {:.0}%; monitors on 3 of them. An image of it is `device = \"rbd:POOL/IMAGE\"` in an experiment, and `ebb bench rbd:POOL/IMAGE` measures \
         it (docs/reference/remote.md)",
        copies - 1,
        Bytes(each.ceil() as u64).short(),
        NEARFULL * 100.0
    );
    let cloud = match over.writers {
        0 | 1 => {
            "in a cloud its own volumes: EBS keeps copies within a zone by itself, which is what this need without `hosts` plans; of the loss of \
             the zone neither they nor copies in it know"
        }
        _ => {
            "in a cloud its own volumes: io2 with Multi-Attach is written by up to 16 instances of a zone, and wants a file system for clusters \
             such as GFS2, as an image of Ceph does too; or files, which a server keeps apart (NFS, EFS)"
        }
    };
    vec![ceph, cloud.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_experiment::{NoTrace, parse_need};
    use std::collections::BTreeSet;

    fn rules(text: &str) -> Vec<&'static str> {
        outgrown(&need(text), NETWORK).iter().map(|row| row.rule).collect()
    }

    fn need(text: &str) -> Need {
        let traces = |_: &str, _: Option<&str>| Err(NoTrace::File(String::new()));
        parse_need(text, "x.toml", Catalog::builtin(), &traces).expect("a need")
    }

    #[test]
    fn each_row_holds_from_its_number_on_and_no_other() {
        for (text, holds) in [
            ("capacity = \"4TiB\"", vec![]),
            ("capacity = \"4TiB\"\nhosts = 2", vec![]),
            ("capacity = \"4TiB\"\nhosts = 4\ncopies = 3", vec![]),
            ("capacity = \"4TiB\"\nhosts = 5", vec!["hosts"]),
            ("capacity = \"4TiB\"\nhosts = 3\nwriters = 2", vec!["writers"]),
            ("capacity = \"4TiB\"\nhosts = 3\nself_healing = true", vec!["self-healing"]),
            // 54 TB are what half of 10 Gbit/s carries in a day: two thirds of 81 TB, all of 54 TB.
            ("capacity = \"80TB\"\nhosts = 3", vec![]),
            ("capacity = \"82TB\"\nhosts = 3", vec!["repair"]),
            ("capacity = \"53TB\"\nhosts = 3\ncopies = 3", vec![]),
            ("capacity = \"55TB\"\nhosts = 3\ncopies = 3", vec!["repair"]),
            (
                "capacity = \"200TB\"\nhosts = 6\ncopies = 3\nwriters = 9\nself_healing = true",
                vec!["writers", "self-healing", "hosts", "repair"],
            ),
        ] {
            assert_eq!(rules(text), holds, "{text}");
        }
    }

    #[test]
    fn rows_have_names_and_sources_of_their_own() {
        let names: BTreeSet<&str> = TABLE.iter().map(|row| row.rule).collect();
        assert_eq!(names.len(), TABLE.len());
        assert!(TABLE.iter().all(|row| !row.source.is_empty()));
        let page = include_str!("../../../docs/reference/plan.md");
        for row in TABLE {
            assert!(page.contains(&format!("| *{}* |", row.rule)), "{} is not in the page", row.rule);
        }
    }

    #[test]
    fn what_is_left_of_ceph_holds_everything() {
        let need = need("capacity = \"10TiB\"\nhosts = 3\nself_healing = true");
        let said = instead(&need);
        // Three copies of 10 TiB on the 3 hosts that are left of 4, filled to 85%.
        assert!(said[0].contains("4 hosts of at least 11.8TiB each"), "{}", said[0]);
        assert!(said[1].contains("EBS keeps copies"), "{}", said[1]);
    }
}
