//! Tunables of queues, read and written below /sys.

use super::{BuildError, Outcome};
use crate::sys::{self, Sys};
use ebbtide_door::kernel::write_attribute;
use ebbtide_model::plan::build::{QueueAttribute, QueueSetting};
use std::path::{Path, PathBuf};

/// The attribute's file, for a partition that of its disk.
fn file(sys: &Sys, setting: &QueueSetting) -> Result<PathBuf, BuildError> {
    let device = sys.at(Path::new(&setting.device));
    let node = std::fs::canonicalize(&device).map_err(|error| fail(setting, &error.to_string()))?;
    let name = node.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let place = std::fs::canonicalize(sys.sys.join("class/block").join(name))
        .map_err(|error| fail(setting, &format!("no {name} in /sys/class/block: {error}")))?;
    let queue = sys::queue(&place);
    queue
        .map(|queue| queue.with_file_name(setting.attribute.directory()).join(setting.attribute.file()))
        .filter(|file| file.exists())
        .ok_or_else(|| fail(setting, "the device has no such attribute"))
}

fn fail(setting: &QueueSetting, what: &str) -> BuildError {
    BuildError::Queue {
        device: setting.device.clone(),
        file: setting.attribute.file(),
        value: setting.value.clone(),
        what: what.to_owned(),
    }
}

/// The value in force: of a scheduler list that in brackets.
fn value(text: &str) -> &str {
    sys::chosen(text).unwrap_or(text.trim())
}

/// The attribute's value now.
pub(super) fn get(sys: &Sys, setting: &QueueSetting) -> Result<String, BuildError> {
    let text = sys::text(&file(sys, setting)?).ok_or_else(|| fail(setting, "it cannot be read"))?;
    Ok(value(&text).to_owned())
}

/// Writes the attribute and reads it back: the kernel rounds some values without a word.
pub(super) fn set(sys: &Sys, setting: &QueueSetting) -> Result<(), BuildError> {
    let file = file(sys, setting)?;
    let before = sys::text(&file).unwrap_or_default();
    write_attribute(&file, &setting.value, !sys.is_host()).map_err(|error| {
        let choices = match setting.attribute {
            QueueAttribute::Scheduler => format!("; there are {}", before.replace(['[', ']'], "")),
            _ => format!("; it is {before}"),
        };
        fail(setting, &format!("{error}{choices}"))
    })?;
    match get(sys, setting)? {
        now if now == setting.value => Ok(()),
        now => Err(fail(setting, &format!("the kernel made it {now}"))),
    }
}

/// Writes `old` where the value is still what was set; a device that is gone has nothing to restore.
pub(super) fn restore(sys: &Sys, set: &QueueSetting, old: &str) -> Result<Outcome, BuildError> {
    let Ok(file) = file(sys, set) else { return Ok(Outcome::Before) };
    match sys::text(&file) {
        Some(now) if value(&now) == old => return Ok(Outcome::Before),
        Some(now) if value(&now) == set.value => {}
        now => {
            let now = now.as_deref().map_or("not readable", value);
            let attribute = set.attribute.file();
            return Ok(Outcome::Left(format!(
                "{attribute} is {now} and not {}, which it was set to: somebody set it since",
                set.value
            )));
        }
    }
    let attribute = set.attribute.file();
    Ok(write_attribute(&file, old, !sys.is_host()).map_or_else(
        // The next boot gives it the kernel's own.
        |error| {
            Outcome::Left(format!(
                "{attribute} of {} stays {}: {old} is refused ({error})",
                set.device, set.value
            ))
        },
        |()| Outcome::Done,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_force_is_the_one_in_brackets() {
        assert_eq!(value("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(value("[none] mq-deadline"), "none");
        assert_eq!(value("none"), "none");
        assert_eq!(value("128"), "128");
    }
}
