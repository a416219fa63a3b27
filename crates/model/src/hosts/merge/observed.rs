//! What was seen around a trial on several hosts, as one: devices and interfaces under their hosts' names.

use super::HostPart;
use crate::samples::{MemberObservation, Observation, TcpUse};

/// What was seen on all hosts of `parts`, out of which it is taken; the members in the order of `members`. The intervals of observers
/// are each host's own, so they stay only where one host had all.
pub(super) fn merge(parts: &mut [HostPart], members: &[String]) -> Option<Observation> {
    let alone = parts.len() == 1;
    let mut whole: Option<Observation> = None;
    for part in parts.iter_mut() {
        let own = part.samples.observed.take().map(|observed| named(*observed, &part.host));
        match (&mut whole, own) {
            (Some(whole), Some(own)) => add(whole, own),
            (whole, own) => *whole = whole.take().or(own),
        }
    }
    let mut whole = whole?;
    if !alone {
        whole.series.clear();
    }
    let mut found = std::mem::take(&mut whole.members);
    let place = |name: &String| found.iter().position(|member| member.member == *name);
    let order: Vec<Option<usize>> = members.iter().map(place).collect();
    let unknown = |name: &String| MemberObservation { member: name.clone(), ..MemberObservation::default() };
    whole.members = order
        .into_iter()
        .zip(members)
        .map(|(place, name)| place.map_or_else(|| unknown(name), |place| std::mem::take(&mut found[place])))
        .collect();
    Some(whole)
}

/// The same with the host's name before those of its devices, interfaces and programs: each host has a `vda`.
fn named(mut observed: Observation, host: &str) -> Observation {
    let put = |name: &mut String| *name = format!("{host}:{name}");
    for device in &mut observed.devices {
        put(&mut device.name);
        put(&mut device.number);
        device.alias.iter_mut().for_each(put);
    }
    observed.network.iter_mut().for_each(|network| put(&mut network.interface));
    for other in &mut observed.others {
        put(&mut other.who);
        other.device.iter_mut().for_each(put);
    }
    observed.users.iter_mut().for_each(|user| put(&mut user.who));
    observed.interrupts.iter_mut().for_each(|interrupt| put(&mut interrupt.who));
    observed
}

/// Adds what was seen on another host; places in the lists move behind those that are there.
fn add(whole: &mut Observation, mut more: Observation) {
    let (devices, cores) = (whole.devices.len(), whole.cores.len());
    for member in &mut more.members {
        member.devices.iter_mut().for_each(|device| *device += devices);
        member.below.iter_mut().flat_map(|below| &mut below.devices).for_each(|device| *device += devices);
    }
    for device in &mut more.devices {
        device.below.iter_mut().flat_map(|below| &mut below.devices).for_each(|below| *below += devices);
    }
    more.interrupts.iter_mut().for_each(|interrupt| interrupt.core += cores);
    whole.devices.append(&mut more.devices);
    whole.members.append(&mut more.members);
    whole.cores.append(&mut more.cores);
    whole.others.append(&mut more.others);
    whole.network.append(&mut more.network);
    whole.users.append(&mut more.users);
    whole.users.sort_by_key(|user| std::cmp::Reverse(user.time));
    whole.interrupts.append(&mut more.interrupts);
    whole.tcp = add_tcp(whole.tcp.take(), more.tcp);
    // Times in which some task of one host waited do not add up, and one memory is not two.
    whole.processor_waits = None;
    whole.io_waits = None;
    whole.memory = None;
}

fn add_tcp(one: Option<TcpUse>, other: Option<TcpUse>) -> Option<TcpUse> {
    let (Some(mut sum), Some(mut more)) = (one.clone(), other.clone()) else { return one.or(other) };
    sum.sent = sum.sent.saturating_add(more.sent);
    sum.sent_again = sum.sent_again.saturating_add(more.sent_again);
    sum.connections.append(&mut more.connections);
    sum.connections.sort_by_key(|connection| std::cmp::Reverse(connection.bytes));
    Some(sum)
}
