//! Wall clock, ids and seeds.

use ebbtide_model::civil::Civil;
use ebbtide_model::units::UnixTime;
use std::time::SystemTime;

/// The wall clock.
pub fn now() -> UnixTime {
    UnixTime::from(SystemTime::now())
}

/// 32 random bits: a seed that a person can copy.
pub fn random() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => u32::from_ne_bytes(bytes),
        // Without the system's randomness the clock will do: a seed has to differ, not to be secret.
        _ => (now().0 ^ u64::from(std::process::id()) << 20) as u32,
    }
}

/// An id that sorts by time, for example `20261121-143005-7f3a`.
pub fn session_id() -> String {
    format!("{}-{:04x}", Civil::from_unix(now()).compact(), random() & 0xffff)
}
