//! Whether an initiator is connected to an export.

use crate::made::Failure;
use crate::sys::{self, Sys};
use ebbtide_model::export::{CONFIG, Export, Listen, Transport};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The state of an established connection (include/net/tcp_states.h).
const ESTABLISHED: &str = "01";

/// Whether somebody is connected to `export`; nothing where only its port shows somebody, which others of `all` have too.
pub(super) fn to(sys: &Sys, export: &Export, all: &[Export]) -> Option<bool> {
    match export.transport {
        Transport::Iscsi => Some(has_session(sys, export)),
        Transport::NvmeTcp if !has_connection(sys, export.listen()) => Some(false),
        Transport::NvmeTcp => sharing(export, all).is_empty().then_some(true),
    }
}

/// Refuses where somebody is connected to `export`, or may be.
pub(super) fn refuse(sys: &Sys, export: &Export, all: &[Export]) -> Result<(), Failure> {
    let what = match to(sys, export, all) {
        Some(false) => return Ok(()),
        Some(true) => format!("{} is connected", export.client),
        None => format!(
            "somebody is connected to {}, where {} is exported too, and nvmet does not tell to which",
            export.listen().shown(),
            sharing(export, all).join(", ")
        ),
    };
    Err(Failure::Refused(format!(
        "{} is in use: {what}; disconnect there first (`ebb undo`), or say --force, which breaks the connection",
        export.name
    )))
}

/// Other exports at the same port.
fn sharing(export: &Export, all: &[Export]) -> Vec<String> {
    let same = |other: &&Export| {
        other.name != export.name
            && other.boot == export.boot
            && other.transport == export.transport
            && other.listen() == export.listen()
    };
    all.iter().filter(same).map(|other| other.name.clone()).collect()
}

fn has_session(sys: &Sys, export: &Export) -> bool {
    let group = sys.at(Path::new(CONFIG)).join("target/iscsi").join(&export.target).join("tpgt_1");
    let info = group.join("acls").join(&export.client).join("info");
    sys::text(&info).is_some_and(|info| info.contains("LIO Session ID"))
}

fn has_connection(sys: &Sys, listen: Listen) -> bool {
    ["net/tcp", "net/tcp6"].iter().any(|file| {
        let text = sys::text(&sys.proc.join(file)).unwrap_or_default();
        text.lines().skip(1).any(|line| is_connection(line, listen))
    })
}

/// Whether a line of /proc/net/tcp or tcp6 (Documentation/networking/proc_net_tcp.rst) is a connection to `listen`.
fn is_connection(line: &str, listen: Listen) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let (Some(local), Some(_), Some(state)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let Some((address, port)) = local.split_once(':') else { return false };
    state == ESTABLISHED
        && u16::from_str_radix(port, 16) == Ok(listen.port)
        && (listen.address.is_unspecified() || address_of(address) == Some(listen.address))
}

/// An address as the kernel writes it there: words of the host's byte order.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    if text.len() == 8 {
        return word(0).map(|bytes| IpAddr::from(Ipv4Addr::from(bytes)));
    }
    let mut bytes = [0; 16];
    for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&word(index * 8)?);
    }
    let address = Ipv6Addr::from(bytes);
    Some(address.to_ipv4_mapped().map_or(IpAddr::from(address), IpAddr::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a guest with an NVMe target on loopback.
    #[test]
    fn a_connection_is_told_from_the_listener_and_from_the_client_s_end() {
        let listen = |text: &str| Listen::parse(Some(text), Transport::NvmeTcp).expect("an address");
        let line = |local: &str, other: &str, state: &str| {
            format!(
                "   2: {local} {other} {state} 00000000:00000000 00:00000000 00000000     0        0 12080 2 0"
            )
        };
        let here = listen("127.0.0.1:4420");
        let is = |line: &str| is_connection(line, here);
        assert!(!is(&line("0100007F:1144", "00000000:0000", "0A")));
        assert!(is(&line("0100007F:1144", "0100007F:A8F0", "01")));
        assert!(!is(&line("0100007F:A8F0", "0100007F:1144", "01")));
        assert!(!is(&line("0100007F:1144", "0100007F:A8F0", "06")));
        assert!(is_connection(&line("0500000A:1144", "0100000A:A8F0", "01"), listen("0.0.0.0")));
        assert!(!is_connection(&line("0500000A:1144", "0100000A:A8F0", "01"), here));
        let six = "00000000000000000000000001000000:1144";
        assert!(is_connection(&line(six, six, "01"), listen("[::1]")));
    }
}
