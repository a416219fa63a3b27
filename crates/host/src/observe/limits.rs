//! Reading NVMe log page 0xD0 of EBS volumes, through the `nvme` program.

use crate::command::{Real, Runner};
use crate::probe::{Kind, classify_disk};
use crate::sys::Sys;
use ebbtide_core::observe::nvme_log::{EBS_LENGTH, LOG_ID, LogPage};

/// Reads a volume's log page; tests answer with recorded and made-up pages.
pub trait LimitsReader {
    /// The page of the device with this kernel name; nothing when it has none or it may not be read.
    fn read(&self, device: &str) -> Option<LogPage>;
}

/// Asks `nvme get-log`; needs root. Only EBS volumes are asked.
pub struct NvmeCli {
    sys: Sys,
    runner: Box<dyn Runner + Send + Sync>,
}

impl NvmeCli {
    /// For this host.
    pub fn host() -> NvmeCli {
        NvmeCli { sys: Sys::host(), runner: Box::new(Real) }
    }
}

impl LimitsReader for NvmeCli {
    fn read(&self, device: &str) -> Option<LogPage> {
        if classify_disk(&self.sys, device) != Kind::Ebs {
            return None;
        }
        let (id, length) = (format!("--log-id={LOG_ID:#x}"), format!("--log-len={EBS_LENGTH}"));
        let node = format!("/dev/{device}");
        let arguments = ["get-log", &node, "--namespace-id=1", &id, &length, "--raw-binary"];
        let output = self.runner.run("nvme", &arguments).map_err(|e| tracing::debug!("{e}")).ok()?;
        if output.status != Some(0) {
            tracing::debug!("nvme {arguments:?}: {}", output.stderr.trim());
            return None;
        }
        LogPage::parse(&output.stdout).map_err(|e| tracing::debug!("{device}: {e}")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandError, Output};
    use crate::sys::tree::unpack;

    /// Answers like `nvme get-log --raw-binary` with a made-up page, and checks what it is asked.
    struct Nvme;

    impl Runner for Nvme {
        fn run_with(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, CommandError> {
            assert_eq!((program, arguments[1]), ("nvme", "/dev/nvme3n1"));
            assert!(
                arguments.contains(&"--log-id=0xd0") && arguments.contains(&"--log-len=4096"),
                "{arguments:?}"
            );
            let mut stdout = vec![0; 4096];
            stdout[..4].copy_from_slice(&0x3C23_B510u32.to_le_bytes());
            stdout[56] = 9;
            Ok(Output { status: Some(0), stdout, stderr: String::new() })
        }
    }

    #[test]
    fn only_ebs_volumes_are_asked() {
        let tree = include_str!("../../tests/trees/arrays.tree")
            .replace("|QEMU NVMe Ctrl", "|Amazon Elastic Block Store");
        let root = unpack(&tree);
        let reader = NvmeCli { sys: Sys::below(root.path()), runner: Box::new(Nvme) };
        let page = reader.read("nvme3n1").and_then(|p| p.exceeded).expect("a page");
        assert_eq!(page.volume_iops.0, 9_000);
        assert_eq!(reader.read("vdb"), None);
        assert_eq!(reader.read("md0"), None);
    }
}
