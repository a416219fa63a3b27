//! What is attached: a device on a host that SSH leads to, or a target on a network of one's own.

use super::Transport;
use ebbtide_model::export::check_client;
use ebbtide_model::shown::excerpt;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a volume is, as `ebb attach` is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// `[USER@]HOST:DEVICE`: OpenSSH leads there, and `ebb export` makes a target of it.
    Ssh {
        /// `[USER@]HOST` as `ssh` takes it: a name of its configuration too.
        destination: String,
        /// The device or file there; an absolute path.
        device: String,
    },
    /// `nvme-tcp://HOST[:PORT]/TARGET`, `iscsi://HOST[:PORT]/TARGET`: the kernel goes there itself.
    Direct {
        /// Of the two protocols which.
        transport: Transport,
        /// Name or address of the host.
        host: String,
        /// Its TCP port.
        port: u16,
        /// The NQN or IQN.
        target: String,
    },
}

/// Why a text names no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum PlaceError {
    /// Nothing that leads anywhere.
    #[error(
        "`{}` is no volume on another host: write [USER@]HOST:/dev/DEVICE, or nvme-tcp://HOST/NQN or iscsi://HOST/IQN for a target on a network of your own",
        excerpt(text)
    )]
    Form { text: String },
    /// A device that is not named from the root.
    #[error(
        "`{}` is no absolute path: write the device's link there, such as {}:/dev/disk/by-id/...",
        excerpt(device),
        excerpt(destination)
    )]
    Relative { destination: String, device: String },
    /// A host that `ssh` or the kernel would take for something else.
    #[error(
        "`{}` is no name of a host: letters, digits and . _ - (an IPv6 address in brackets)",
        excerpt(host)
    )]
    Host { host: String },
    /// A port that is none.
    #[error("`{}` is no TCP port: write a number from 1 to 65535", excerpt(port))]
    Port { port: String },
    /// A target whose name is not the protocol's.
    #[error("`{}` is no {kind}: {transport} names its targets {example}", excerpt(target))]
    Target { target: String, kind: &'static str, transport: &'static str, example: &'static str },
}

/// Signs that every path, host and target is made of: nothing that a shell, a record or an option list reads.
fn is_plain(text: &str, also: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|sign| sign.is_ascii_alphanumeric() || also.contains(sign))
}

fn check_host(host: &str) -> Result<(), PlaceError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(address) if is_plain(address, ":.%") => Ok(()),
        None if is_plain(host, "._-") => Ok(()),
        _ => Err(PlaceError::Host { host: host.to_owned() }),
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Place, PlaceError> {
        for transport in Transport::ALL {
            if let Some(rest) = text.strip_prefix(transport.name()).and_then(|rest| rest.strip_prefix("://"))
            {
                return direct(text, transport, rest);
            }
        }
        let form = || PlaceError::Form { text: text.to_owned() };
        if text.contains("://") {
            return Err(form());
        }
        // An address in brackets has colons of its own.
        let from = text.find(']').map_or(0, |end| end + 1);
        let (at, _) = text[from..].match_indices(':').next().ok_or_else(form)?;
        let (destination, device) = (&text[..from + at], &text[from + at + 1..]);
        let (user, host) =
            destination.rsplit_once('@').map_or((None, destination), |(user, host)| (Some(user), host));
        if user.is_some_and(|user| !is_plain(user, "._-@+")) {
            return Err(form());
        }
        check_host(host)?;
        if !device.starts_with('/') || device.contains(char::is_control) {
            return Err(PlaceError::Relative {
                destination: destination.to_owned(),
                device: device.to_owned(),
            });
        }
        Ok(Place::Ssh { destination: destination.to_owned(), device: device.to_owned() })
    }
}

fn direct(text: &str, transport: Transport, rest: &str) -> Result<Place, PlaceError> {
    let (host, target) = rest.split_once('/').ok_or_else(|| PlaceError::Form { text: text.to_owned() })?;
    let after = host.find(']').map_or(0, |end| end + 1);
    let (host, port) = match host[after..].split_once(':') {
        Some((_, port)) => (&host[..host.len() - port.len() - 1], Some(port)),
        None => (host, None),
    };
    check_host(host)?;
    let port = match port {
        Some(text) => text
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| PlaceError::Port { port: text.to_owned() })?,
        None => transport.port(),
    };
    if check_client(target, transport).is_err() {
        let (kind, example) = transport.words();
        return Err(PlaceError::Target {
            target: target.to_owned(),
            kind,
            transport: transport.name(),
            example,
        });
    }
    Ok(Place::Direct {
        transport,
        host: host.trim_matches(['[', ']']).to_owned(),
        port,
        target: target.to_owned(),
    })
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Ssh { destination, device } => write!(f, "{destination}:{device}"),
            Place::Direct { transport, host, port, target } if host.contains(':') => {
                write!(f, "{}://[{host}]:{port}/{target}", transport.name())
            }
            Place::Direct { transport, host, port, target } => {
                write!(f, "{}://{host}:{port}/{target}", transport.name())
            }
        }
    }
}

impl Place {
    /// The host, as messages and records name it.
    pub fn host(&self) -> &str {
        match self {
            Place::Ssh { destination, .. } => destination,
            Place::Direct { host, .. } => host,
        }
    }

    /// What it is called where nobody says: after the last part of the device's path, or of the target's name.
    pub fn default_name(&self) -> String {
        let last = match self {
            Place::Ssh { device, .. } => device.rsplit('/').next().unwrap_or(device),
            Place::Direct { target, .. } => target.rsplit([':', '/', '.']).next().unwrap_or(target),
        };
        let sign = |sign: char| if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '_' };
        let name: Vec<char> = last.chars().map(sign).collect();
        // What tells volumes apart is at the end: links below /dev/disk/by-id begin alike.
        let end = |length: usize| name[name.len().saturating_sub(length)..].iter().collect::<String>();
        let whole = end(crate::desired::NAME_MAX);
        match crate::check_name(&whole) {
            Ok(()) => whole,
            Err(_) => format!("v{}", end(crate::desired::NAME_MAX - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_shown() {
        for (text, shown, name) in [
            ("ada@store1:/dev/vdb", "ada@store1:/dev/vdb", "vdb"),
            ("store1:/srv/backup.img", "store1:/srv/backup.img", "backup_img"),
            (
                "store1:/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0",
                "store1:/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0",
                "ore_vol0123456789abcdef0",
            ),
            ("[fe80::1]:/dev/disk/by-id/virtio-a", "[fe80::1]:/dev/disk/by-id/virtio-a", "virtio_a"),
            ("a@b@store1:/dev/0", "a@b@store1:/dev/0", "v0"),
            (
                "nvme-tcp://10.0.0.1/nqn.2026-11.ebbtide:data",
                "nvme-tcp://10.0.0.1:4420/nqn.2026-11.ebbtide:data",
                "data",
            ),
            (
                "iscsi://[fd00::1]:3261/iqn.2026-11.ebbtide:data",
                "iscsi://[fd00::1]:3261/iqn.2026-11.ebbtide:data",
                "data",
            ),
        ] {
            let place: Place = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((place.to_string().as_str(), place.default_name().as_str()), (shown, name), "{text}");
            assert_eq!(place.to_string().parse(), Ok(place), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_says_what_to_write() {
        for (text, wanted) in [
            ("", "[USER@]HOST:/dev/DEVICE"),
            ("/dev/vdb", "[USER@]HOST:/dev/DEVICE"),
            ("http://a/b", "[USER@]HOST:/dev/DEVICE"),
            ("store1:vdb", "absolute path"),
            ("-oProxyCommand=x:/dev/vdb", "no name of a host"),
            ("-x@store1:/dev/vdb", "[USER@]HOST"),
            ("a b:/dev/vdb", "no name of a host"),
            ("nvme-tcp://store1", "nvme-tcp://HOST/NQN"),
            ("nvme-tcp://store1:0/nqn.2026-11.a:b", "no TCP port"),
            ("nvme-tcp://store1:x/nqn.2026-11.a:b", "no TCP port"),
            ("nvme-tcp://store1/iqn.2026-11.a:b", "NQN"),
            ("nvme-tcp://store1/nqn.2026-11.a,dhchap_secret=x", "NQN"),
            ("iscsi://store1/nqn.2026-11.a:b", "IQN"),
            ("iscsi://st/ore1/iqn.2026-11.a:b", "IQN"),
        ] {
            let error = text.parse::<Place>().expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Place>().map(|place| place.default_name());
        }

        #[test]
        fn default_names_are_names(text in "[a-z]{1,9}:/[ -~]{1,40}") {
            if let Ok(place) = text.parse::<Place>() {
                let name = place.default_name();
                proptest::prop_assert!(crate::check_name(&name).is_ok(), "{}", name);
            }
        }
    }
}
