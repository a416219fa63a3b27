//! The unit that brings an export back at boot.

use crate::files::Part;
use std::path::{Path, PathBuf};

/// Where units of the host's own are.
const UNITS: &str = "/etc/systemd/system";

/// What the unit of the export `name` is called.
pub fn unit_name(name: &str) -> String {
    format!("ebb-export-{name}.service")
}

/// Where the unit of the export `name` is.
pub fn unit_path(name: &str) -> PathBuf {
    Path::new(UNITS).join(unit_name(name))
}

/// First line of the unit of the export `name`.
fn mark(name: &str) -> String {
    format!(
        "# ebb: export {name} (written by `ebb export --persistent`; `ebb export --remove {name}` removes it)\n"
    )
}

/// What the unit needs to know.
#[derive(Debug, Clone, Copy)]
pub struct ExportUnit<'a> {
    /// The export.
    pub name: &'a str,
    /// Where `ebb` is.
    pub program: &'a Path,
    /// The file that is exported; nothing for a device, which is waited for.
    pub file: Option<&'a Path>,
    /// Whether clients reach it on loopback only.
    pub is_local: bool,
}

impl ExportUnit<'_> {
    /// The unit, a file of `ebb`'s own.
    pub fn part(&self) -> Part {
        let name = self.name;
        let after =
            if self.is_local { "" } else { "Wants=network-online.target\nAfter=network-online.target\n" };
        let mounts = self.file.map_or_else(String::new, |file| {
            format!("RequiresMountsFor={}\n", crate::monitor::word(&file.to_string_lossy()))
        });
        let program = self.program.to_string_lossy();
        let lines = format!(
            "{}[Unit]\n\
             Description=Ebbtide: the export {name} to other hosts\n\
             After=local-fs.target systemd-modules-load.service systemd-udevd.service\n\
             {after}{mounts}\
             \n\
             [Service]\n\
             Type=oneshot\n\
             RemainAfterExit=yes\n\
             ExecStart={program} export --start {name}\n\
             TimeoutStartSec=180\n\
             \n\
             [Install]\n\
             WantedBy=multi-user.target\n",
            mark(name)
        );
        Part { path: unit_path(name), whole: true, executable: false, lines }
    }
}

/// Whether `text` is the unit that [`ExportUnit`] wrote for `name`.
pub fn is_unit(name: &str, text: &str) -> bool {
    text.starts_with(&mark(name))
}

/// The program that the unit in `text` starts.
pub fn program_of(text: &str) -> Option<PathBuf> {
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
    line.split(" export --start ").next().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_this() {
        let unit = ExportUnit { name: "a", program: Path::new("/usr/bin/ebb"), file: None, is_local: true };
        let part = unit.part();
        assert_eq!(part.path, Path::new("/etc/systemd/system/ebb-export-a.service"));
        assert!(part.lines.contains("ExecStart=/usr/bin/ebb export --start a\n"), "{}", part.lines);
        assert!(!part.lines.contains("network") && !part.lines.contains("RequiresMountsFor"));
        assert!(is_unit("a", &part.lines) && !is_unit("b", &part.lines));
        assert_eq!(program_of(&part.lines), Some("/usr/bin/ebb".into()));
        let file = Some(Path::new("/v/back up"));
        let text = ExportUnit { file, is_local: false, ..unit }.part().lines;
        assert!(text.contains("After=network-online.target\nRequiresMountsFor=\"/v/back up\"\n"), "{text}");
    }
}
