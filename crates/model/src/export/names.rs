//! What exports, initiators and secrets are called and look like.

use super::Transport;
use std::path::Path;

/// Longest name of an export.
const NAME_MAX: usize = 24;
/// What targets of `ebb` begin with behind `nqn.` or `iqn.` (NVMe base specification, 4.7; RFC 3720, 3.2.6.3).
const AUTHORITY: &str = "2026-11.ebbtide";
/// Longest NQN and IQN (the same).
const QUALIFIED_MAX: usize = 223;
/// Shortest secret of CHAP (RFC 3720, 8.2.1: 96 bits) and the longest that LIO takes.
const CHAP: std::ops::RangeInclusive<usize> = 12..=255;

/// A name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportNameError {
    /// Of an export.
    #[error("`{0}` is no name of an export: write 1 to 24 of a-z, 0-9 and _")]
    Export(String),
    /// Of an initiator, for NVMe.
    #[error(
        "`{0}` is no NQN of a host: write what the client has in /etc/nvme/hostnqn (`nvme gen-hostnqn` makes one), \
         such as nqn.2014-08.org.nvmexpress:uuid:..."
    )]
    Nqn(String),
    /// Of an initiator, for iSCSI.
    #[error(
        "`{0}` is no IQN of an initiator: write what the client has in /etc/iscsi/initiatorname.iscsi, such as \
         iqn.1993-08.org.debian:01:..."
    )]
    Iqn(String),
}

/// A secret that is none. Says nothing of the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Of CHAP.
    #[error(
        "the secret of CHAP is one line of 12 to 255 letters, digits and other signs of ASCII, without blanks"
    )]
    Chap,
    /// Of DH-HMAC-CHAP.
    #[error("the secret of NVMe is one line `DHHC-1:00:...:`, as `nvme gen-dhchap-key` prints it")]
    DhChap,
}

/// Whether an export may be called `name`.
///
/// # Errors
/// What to write.
pub fn check_name(name: &str) -> Result<(), ExportNameError> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match (1..=NAME_MAX).contains(&name.len()) && name.chars().all(fine) {
        true => Ok(()),
        false => Err(ExportNameError::Export(name.to_owned())),
    }
}

/// What an export of `path` is called where nobody says: the end of its name, where serial numbers are. Nothing where that has no sign
/// that a name may have.
pub fn default_name(path: &Path) -> Option<String> {
    let last = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let fine = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = last.chars().map(fine).collect();
    let name = name[name.len().saturating_sub(NAME_MAX)..].trim_matches('_');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether an initiator may be called `name`.
///
/// # Errors
/// What to write.
pub fn check_client(name: &str, transport: Transport) -> Result<(), ExportNameError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || ".:-_".contains(c);
    let begins = |with: &[&str]| {
        with.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
    };
    let is_name = name.len() <= QUALIFIED_MAX && name.chars().all(fine);
    match transport {
        Transport::NvmeTcp if is_name && begins(&["nqn."]) => Ok(()),
        Transport::Iscsi if is_name && begins(&["iqn.", "eui.", "naa."]) => Ok(()),
        Transport::NvmeTcp => Err(ExportNameError::Nqn(name.to_owned())),
        Transport::Iscsi => Err(ExportNameError::Iqn(name.to_owned())),
    }
}

/// The secret in `text`, the content of its file: all of it but the end of its line.
///
/// # Errors
/// What it has to look like.
pub fn check_secret(text: &str, transport: Transport) -> Result<&str, SecretError> {
    let secret = text.strip_suffix('\n').unwrap_or(text);
    let plain = secret.bytes().all(|byte| byte.is_ascii_graphic());
    match transport {
        Transport::Iscsi if plain && CHAP.contains(&secret.len()) => Ok(secret),
        Transport::Iscsi => Err(SecretError::Chap),
        Transport::NvmeTcp => {
            let key = secret.strip_prefix("DHHC-1:0").and_then(|rest| rest.split_once(':'));
            let is_key = key.is_some_and(|(hash, key)| {
                ["0", "1", "2", "3"].contains(&hash) && key.ends_with(':') && (40..=110).contains(&key.len())
            });
            if plain && is_key { Ok(secret) } else { Err(SecretError::DhChap) }
        }
    }
}

/// The NQN or IQN of the export `name` on `host`, which is unlike that of any other host.
pub fn target(transport: Transport, host: &str, name: &str) -> String {
    let kind = match transport {
        Transport::NvmeTcp => "nqn",
        Transport::Iscsi => "iqn",
    };
    format!("{kind}.{AUTHORITY}:{host}:{}", in_target(name))
}

/// `_` is no sign of an IQN (RFC 3722).
fn in_target(name: &str) -> String {
    name.replace('_', "-")
}

/// Whether `target` is one that [`target`] makes for `name`.
pub(super) fn is_target(target: &str, name: &str) -> bool {
    let rest = ["nqn.", "iqn."].iter().find_map(|kind| target.strip_prefix(kind));
    let host = rest
        .and_then(|rest| rest.strip_prefix(AUTHORITY)?.strip_prefix(':')?.strip_suffix(&in_target(name)))
        .and_then(|rest| rest.strip_suffix(':'));
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    host.is_some_and(|host| !host.is_empty() && host.chars().all(fine))
}

/// The name of the export whose target is `target`, as far as it is one of `ebb`'s.
pub fn name_of_target(target: &str) -> Option<String> {
    let name = target.rsplit(':').next()?.replace('-', "_");
    (check_name(&name).is_ok() && is_target(target, &name)).then_some(name)
}

/// What LIO calls what is behind the export `name`.
pub(super) fn backstore(name: &str) -> String {
    format!("ebb_{name}")
}
