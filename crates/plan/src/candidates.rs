//! Every design that is considered: each type in each number and layout behind each instance, ordered as small as the need allows.

use crate::array::{Array, COUNTS, arrays, replicated};
use crate::bounds::{Bottleneck, Bound, Load, bounds, tightest};
use ebbtide_model::catalog::{Catalog, Instance, IopsRule, VolumeOrder, VolumeType};
use ebbtide_model::need::Need;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::{Limit, LinkShape, OneWay, Shape};
use std::collections::BTreeSet;

/// Chunk of striped arrays, as large as an operation that EBS counts once.
const CHUNK: Bytes = Bytes(256 << 10);
/// Provisioned IOPS and throughput come in steps of these.
const IOPS_STEP: f64 = 10.0;
/// What the link over hosts is called; an experiment on an instance's own disks has one of that instance's name already.
const NETWORK: &str = "network";
/// How much more than the need is ordered where a latency must be kept: queues are short when there is room.
const ROOM: [f64; 4] = [1.0, 1.25, 1.5, 2.0];

/// What the volumes are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Medium<'c> {
    /// Network volumes of a type, ordered so.
    Ordered(&'c VolumeType, VolumeOrder),
    /// The instance's own disks.
    Local,
}

/// One design: equal volumes as an array, behind an instance where one is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate<'c> {
    /// The instance type, where the need names or asks for one.
    pub instance: Option<&'c Instance>,
    /// What the volumes are.
    pub medium: Medium<'c>,
    /// Size of each volume.
    pub size: Bytes,
    /// Speed of each volume.
    pub shape: Shape,
    /// How they are put together.
    pub array: Array,
    /// US dollars a month for the volumes; nothing where the catalogue has no price.
    pub price: Option<f64>,
    /// What limits the need's operations.
    pub random: Vec<Bound>,
    /// What limits the need's sequential bytes.
    pub sequential: Vec<Bound>,
}

/// The need's random load.
pub(crate) fn random(need: &Need) -> Load {
    Load::Random { bs: need.bs, reads: f64::from(need.read_percent) / 100.0 }
}

/// The need's sequential load.
pub(crate) fn sequential(need: &Need) -> Load {
    Load::Sequential { reads: f64::from(need.read_percent) / 100.0 }
}

impl<'c> Candidate<'c> {
    fn new(
        need: &Need,
        instance: Option<&'c Instance>,
        medium: Medium<'c>,
        (size, shape): (Bytes, Shape),
        array: Array,
    ) -> Candidate<'c> {
        let volume = match medium {
            Medium::Ordered(record, order) => record.price_of(&order),
            // The price of the instance has it in it.
            Medium::Local => Some(0.0),
        };
        let link = link(need, instance, medium == Medium::Local);
        let of = |load| bounds(&array, &shape, link.as_ref(), &load);
        Candidate {
            random: of(random(need)),
            sequential: of(sequential(need)),
            price: volume.map(|each| each * f64::from(array.members)),
            instance,
            medium,
            size,
            shape,
            array,
        }
    }

    /// Whether its volumes are the instance's own.
    pub(crate) fn is_local(&self) -> bool {
        self.medium == Medium::Local
    }

    /// The type's name with its provider.
    pub fn type_name(&self) -> String {
        match self.medium {
            Medium::Ordered(record, _) => record.full_name(),
            Medium::Local => "aws:instance-store".to_owned(),
        }
    }

    /// Its name: `gp3-stripe-4`, with the instance where one is named: `gp3-stripe-4-on-m6i.large`.
    pub fn name(&self) -> String {
        let of = match self.medium {
            Medium::Ordered(record, _) => &record.id,
            Medium::Local => "local",
        };
        let on = self.instance.map_or(String::new(), |instance| format!("-on-{}", instance.id));
        format!("{of}-{}{on}", self.array.name())
    }

    /// US dollars a month of the volumes and, where their price is known, of the instances: what designs are ranked by.
    pub fn total(&self) -> f64 {
        self.price.unwrap_or(f64::INFINITY) + self.instances_month_usd().unwrap_or(0.0)
    }

    /// US dollars a month of the instance; of storage hosts and the client, where there are such.
    pub(crate) fn instances_month_usd(&self) -> Option<f64> {
        let machines = if self.array.hosts > 1 { self.array.hosts + 1 } else { 1 };
        Some(self.instance?.month_usd()? * f64::from(machines))
    }

    /// Whether it needs burst credits for the need's rates.
    pub fn bursts(&self, need: &Need) -> bool {
        !self.bursting(need).is_empty()
    }

    /// Limits whose burst credits the need's rates take: they are needed for its hours of the day only, all others around the clock.
    pub fn bursting(&self, need: &Need) -> BTreeSet<Bottleneck> {
        let beyond = self.needed(need).filter(|(bound, rate)| *rate > bound.sustained * (1.0 + 1e-9));
        beyond.map(|(bound, _)| bound.what).collect()
    }

    /// What limits `bounds`, those of one load, as long as the need takes, and the rate there: a limit gives what it sustains, and one
    /// of which the need takes the credits what these give for its hours of each day.
    pub fn most<'a>(&self, bounds: &'a [Bound], need: &Need) -> Option<(&'a Bound, f64)> {
        let bursting = self.bursting(need);
        tightest(bounds, |bound| if bursting.contains(&bound.what) { need.hours_a_day } else { 24.0 })
    }

    /// Whether what `bounds` give comes from burst credits, and so for the need's hours of each day only.
    pub fn is_burst(&self, bounds: &[Bound], need: &Need) -> bool {
        self.most(bounds, need)
            .is_some_and(|(_, rate)| bounds.iter().any(|bound| rate > bound.sustained * (1.0 + 1e-9)))
    }

    /// Every bound with the rate that it must let through: volumes' with headroom.
    pub fn needed<'a>(&'a self, need: &'a Need) -> impl Iterator<Item = (&'a Bound, f64)> {
        let of = |bounds: &'a [Bound], rate: Option<f64>| {
            bounds.iter().filter_map(move |bound| Some((bound, required(need, bound, rate?))))
        };
        of(&self.random, need.iops).chain(of(&self.sequential, need.throughput))
    }
}

/// Whether `bound` lets `rate` through for as many hours of each day as the need asks for.
pub(crate) fn lasts(bound: &Bound, rate: f64, need: &Need) -> bool {
    bound.hours(rate) >= need.hours_a_day * (1.0 - 1e-9)
}

/// What `bound` must let through for `rate` to be there.
pub(crate) fn required(need: &Need, bound: &Bound, rate: f64) -> f64 {
    if bound.what.is_volumes() { need.with_headroom(rate) } else { rate }
}

/// What the volumes have in common: the instance's limits towards them, or, of copies over hosts which are instances of that type,
/// those of all hosts together and the client's network in each direction. A host's own disks have no limit of the first kind.
pub(crate) fn link(need: &Need, instance: Option<&Instance>, own_disks: bool) -> Option<LinkShape> {
    let instance = instance?;
    let Some(over) = need.over else { return instance.link().filter(|_| !own_disks) };
    let volumes = instance.link().filter(|_| !own_disks && instance.volumes.is_some());
    let volumes = volumes.map(|link| link.scaled(f64::from(over.hosts)));
    let rate = |gbps: f64| OneWay { iops: None, throughput: Some(Limit::steady(gbps * 1e9 / 8.0)) };
    let network = instance.network_gbps.map(rate);
    if volumes.is_none() && network.is_none() {
        return None;
    }
    let network = network.unwrap_or_default();
    Some(LinkShape {
        name: NETWORK.to_owned(),
        iops: volumes.as_ref().and_then(|link| link.iops),
        throughput: volumes.as_ref().and_then(|link| link.throughput),
        one_way: PerOp { read: network, write: network },
    })
}

/// The arrays of `members` volumes that survive what `need` says; over hosts, those of a number are [`replicated`].
fn arrays_of(need: &Need, members: u32, chunk: Bytes) -> Vec<Array> {
    match need.over {
        None => arrays(members, need.may_lose, chunk),
        Some(over) => {
            let all = replicated(over.hosts, over.copies, chunk).into_iter();
            all.filter(|array| array.members == members).collect()
        }
    }
}

/// Numbers of volumes that are tried for `need`.
fn counts(need: &Need) -> Vec<u32> {
    match need.over {
        None => COUNTS.to_vec(),
        Some(over) => replicated(over.hosts, over.copies, CHUNK).iter().map(|array| array.members).collect(),
    }
}

/// Every design for `need` out of `catalog`, in no particular order, and what was left out before any arithmetic.
pub fn candidates<'c>(need: &Need, catalog: &'c Catalog) -> (Vec<Candidate<'c>>, Vec<String>) {
    let mut notes = Vec::new();
    let named = |instance: &&Instance| need.may_use(&instance.id);
    let (retired, current): (Vec<&Instance>, Vec<&Instance>) =
        catalog.instances().iter().filter(named).partition(|instance| {
            instance.last_seen.is_some_and(|seen| need.as_of.is_none_or(|day| seen < day))
        });
    if !retired.is_empty() {
        let names: Vec<&str> = retired.iter().map(|instance| instance.id.as_str()).collect();
        notes.push(format!("{} can no longer be had and is left out", names.join(", ")));
    }
    let unknown: Vec<&str> =
        current.iter().filter(|one| one.volumes.is_none()).map(|one| one.id.as_str()).collect();
    if !unknown.is_empty() && need.over.is_none() {
        let names = unknown.join(", ");
        notes.push(format!(
            "the limits of {names} towards volumes are not known: its network's count instead"
        ));
    }
    let mut instances: Vec<Option<&Instance>> = current.into_iter().map(Some).collect();
    if instances.is_empty() && need.instances.is_empty() {
        notes.push("no `instance` is named: no limit of one counts".to_owned());
        instances.push(None);
    }
    let types = types(need, catalog, &mut notes);
    let mut found = Vec::new();
    for instance in instances {
        for record in &types {
            for members in counts(need) {
                let chunk = CHUNK.max(Bytes(record.io_unit_kib.unwrap_or(0) << 10));
                for array in arrays_of(need, members, chunk) {
                    ordered(need, instance, record, array, &mut found);
                }
            }
        }
        if need.ephemeral
            && let Some(instance) = instance
        {
            local(need, instance, &mut found);
        }
    }
    (found, notes)
}

/// `members` volumes ordered so, behind `instance`: the first array of them that survives what it must.
pub(crate) fn one<'c>(
    need: &Need,
    instance: Option<&'c Instance>,
    record: &'c VolumeType,
    order: VolumeOrder,
    members: u32,
) -> Option<Candidate<'c>> {
    let array = arrays_of(need, members, CHUNK).into_iter().next()?;
    let shape = record.shape(&order).ok()?;
    Some(Candidate::new(need, instance, Medium::Ordered(record, order), (order.size, shape), array))
}

/// The volume types that count, as they were on the need's day.
fn types<'c>(need: &Need, catalog: &'c Catalog, notes: &mut Vec<String>) -> Vec<&'c VolumeType> {
    let mut names: Vec<String> = catalog
        .types()
        .iter()
        .filter(|record| match need.types.is_empty() {
            true => record.provider == "aws" && record.media != "nfs",
            false => need.types.contains(&record.full_name()),
        })
        .map(VolumeType::full_name)
        .collect();
    names.dedup();
    let mut found = Vec::new();
    for name in names {
        match catalog.volume_type(&name, need.as_of) {
            Ok(record) => found.push(record),
            Err(error) => notes.push(error.to_string()),
        }
    }
    found
}

const GIB: u64 = Bytes::GIB;

/// The least whole number of `step` that is `value`. A share of a need by a number of members may be a hair beside a whole one, which
/// is that one.
fn steps(value: f64, step: f64) -> f64 {
    let exact = value / step;
    let nearest = exact.round();
    if (exact - nearest).abs() <= 1e-9 * nearest.max(1.0) { nearest } else { exact.ceil() }
}

/// A whole number of GiB that holds `size` and can be ordered, or the largest that can.
fn in_gib(record: &VolumeType, size: Bytes) -> u64 {
    size.0.div_ceil(GIB).clamp(record.size_gib.min, record.size_gib.max)
}

/// The least `value` in `from..=to` for which `enough` holds, where it holds for all above it too; `to` where for none.
fn least(from: u64, to: u64, enough: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Orders of volumes of this type for that array: what the need takes of each member, and with room where a latency must be kept.
fn ordered<'c>(
    need: &Need,
    instance: Option<&'c Instance>,
    record: &'c VolumeType,
    array: Array,
    found: &mut Vec<Candidate<'c>>,
) {
    let of = |order: VolumeOrder| {
        let shape = record.shape(&order).ok()?;
        Some(Candidate::new(need, instance, Medium::Ordered(record, order), (order.size, shape), array))
    };
    let smallest = in_gib(record, array.member_size(need.capacity));
    let mut orders: Vec<VolumeOrder> = Vec::new();
    match record.iops {
        IopsRule::Provisioned { .. } => {
            let levels = if need.lat_p99.is_some() && need.iops.is_some() { &ROOM[..] } else { &ROOM[..1] };
            orders.extend(levels.iter().filter_map(|room| provision(need, record, array, smallest, *room)));
        }
        _ => {
            // Size is speed: as large as the rates ask for.
            let volumes_last = |gib: u64| {
                of(VolumeOrder { size: Bytes(gib * GIB), iops: None, throughput: None }).is_some_and(
                    |candidate| {
                        candidate
                            .needed(need)
                            .all(|(bound, rate)| !bound.what.is_volumes() || lasts(bound, rate, need))
                    },
                )
            };
            let gib = least(smallest, record.size_gib.max, volumes_last);
            orders.push(VolumeOrder { size: Bytes(gib * GIB), iops: None, throughput: None });
        }
    }
    orders.dedup();
    found.extend(orders.into_iter().filter_map(of));
}

/// The least order of a type whose IOPS are ordered: what the need takes, `room` times that of its operations; as much as can be
/// had where that is less.
fn provision(
    need: &Need,
    record: &VolumeType,
    array: Array,
    smallest: u64,
    room: f64,
) -> Option<VolumeOrder> {
    let order = |gib: u64, iops: f64, throughput: Option<f64>| VolumeOrder {
        size: Bytes(gib * GIB),
        iops: Some(iops),
        throughput,
    };
    let (_, most_anywhere) = record.iops_range(Bytes(record.size_gib.max * GIB))?;
    // What one operation and one byte of the array take of each member, as the bounds have it of one that gives 1 a second.
    let probe = record.shape(&order(record.size_gib.max, most_anywhere, None)).ok()?;
    let share = |load: Load, unit: fn(&Bound) -> bool, full: f64| {
        let bound = bounds(&array, &probe, None, &load).into_iter().find(unit)?;
        Some(full / bound.sustained)
    };
    let is_iops = |bound: &Bound| bound.what == Bottleneck::VolumeIops;
    let is_bytes = |bound: &Bound| bound.what == Bottleneck::VolumeThroughput;
    let iops_full = probe.iops?.rate;
    let bytes_full = probe.throughput?.rate;
    let (operations, bytes) = (need.iops.unwrap_or(0.0), need.throughput.unwrap_or(0.0));
    let wanted = |random: Option<f64>, sequential: Option<f64>| {
        let operations = need.with_headroom(operations) * random.unwrap_or(0.0) * room;
        operations.max(need.with_headroom(bytes) * sequential.unwrap_or(0.0))
    };
    let iops = wanted(share(random(need), is_iops, iops_full), share(sequential(need), is_iops, iops_full));
    let rate =
        wanted(share(random(need), is_bytes, bytes_full), share(sequential(need), is_bytes, bytes_full));
    let iops = steps(iops, IOPS_STEP) * IOPS_STEP;
    let unit = record.throughput_unit();
    let rate = steps(rate, unit) * unit;
    // Throughput may have to be bought with IOPS.
    let gives = |iops: f64| match record.throughput_range(iops) {
        Some((_, most)) => most,
        None => record
            .shape(&order(record.size_gib.max, iops, None))
            .ok()
            .and_then(|shape| shape.throughput)
            .map_or(0.0, |limit| limit.rate),
    };
    let (least_iops, _) = record.iops_range(Bytes(smallest * GIB))?;
    let step_of = |iops: f64| steps(iops, IOPS_STEP) as u64;
    let for_rate = least(step_of(least_iops), step_of(most_anywhere), |step| {
        gives((step as f64 * IOPS_STEP).clamp(least_iops, most_anywhere)) >= rate
    }) as f64
        * IOPS_STEP;
    let iops = iops.max(for_rate).clamp(least_iops, most_anywhere.max(least_iops));
    // And IOPS with size.
    let gib = least(smallest, record.size_gib.max, |gib| {
        record.iops_range(Bytes(gib * GIB)).is_some_and(|(_, most)| most >= iops)
    });
    let (least_iops, most) = record.iops_range(Bytes(gib * GIB))?;
    let iops = iops.clamp(least_iops, most);
    let throughput = record.throughput_range(iops).map(|(least, most)| rate.clamp(least, most));
    Some(order(gib, iops, throughput))
}

/// The instance's own disks, or those of each host: as few as hold the capacity, and all of them.
fn local<'c>(need: &Need, instance: &'c Instance, found: &mut Vec<Candidate<'c>>) {
    let (Some(disks), Some(shape)) = (&instance.disks, instance.disk_shape()) else { return };
    let size = Bytes(disks.size_gb.saturating_mul(1_000_000_000));
    let hosts = need.over.map_or(1, |over| over.hosts);
    let known = counts(need);
    for members in
        (1..=disks.count).map(|each| each * hosts).filter(|n| known.contains(n) || *n == disks.count)
    {
        for array in arrays_of(need, members, CHUNK) {
            let volume = (size, shape.clone());
            found.push(Candidate::new(need, Some(instance), Medium::Local, volume, array));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{least, steps};

    #[test]
    fn a_hair_is_no_step() {
        for (value, step, number) in [
            (110_000.000_000_000_01, 10.0, 11_000.0),
            (3300.0, 10.0, 330.0),
            (3301.0, 10.0, 331.0),
            (0.0, 10.0, 0.0),
        ] {
            assert_eq!(steps(value, step), number, "{value}");
        }
        for members in 1..=24u32 {
            let each = 1.0 / (16_000.0 * f64::from(members) / 16_000.0);
            let whole = f64::from(members) * 1230.0;
            assert_eq!(steps(whole * each, 10.0), 123.0, "{members}");
        }
    }

    #[test]
    fn the_least_that_is_enough_is_found() {
        for to in 0..40 {
            for first in 0..=to + 1 {
                assert_eq!(least(0, to, |value| value >= first), first.min(to));
            }
        }
    }
}
