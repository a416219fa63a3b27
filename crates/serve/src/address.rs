//! Where a server listens.

use ebbtide_model::shown::Shown;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A port of an address of this host.
    Tcp(SocketAddr),
    /// A socket with a name in a directory.
    Unix(PathBuf),
}

impl Address {
    /// Where it listens unless it is told another place.
    pub const DEFAULT: Address = Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7340));

    /// Whether only this host can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

/// A text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write an address with a port, such as 127.0.0.1:7340 or [::1]:7340, or the path of a socket, such as ./ebb.socket"
)]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    /// `127.0.0.1:7340`, `[::1]:7340`, `localhost:7340`, or the path of a socket: whatever has a slash.
    fn from_str(text: &str) -> Result<Address, AddressError> {
        if text.contains('/') {
            return Ok(Address::Unix(PathBuf::from(text)));
        }
        let tcp = match text.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
            None => text.parse().ok(),
        };
        tcp.map(Address::Tcp).ok_or(AddressError)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.shown().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for (text, local) in [
            ("127.0.0.1:7340", true),
            ("127.8.8.8:1", true),
            ("[::1]:0", true),
            ("/run/ebb.socket", true),
            ("./ebb.socket", true),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
            ("10.0.0.1:80", false),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.is_local(), local, "{text}");
            assert_eq!(address.to_string(), text);
        }
        assert_eq!("localhost:80".parse::<Address>().unwrap().to_string(), "127.0.0.1:80");
        for text in ["", "localhost", "127.0.0.1", "example.org:80", ":80", "::1:80", "localhost:http"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
