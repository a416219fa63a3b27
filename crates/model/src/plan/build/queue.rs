//! Tunables of queues: sizes in bytes become the units that the kernel counts in.

use super::{BuildAction, BuildPlanError, BuildStep, BuildUndo, Planner, QueueAttribute, QueueSetting};
use crate::units::Bytes;

/// Bytes as KiB, the unit of `read_ahead_kb` and `max_sectors_kb`; rounded down.
pub(super) fn kib(bytes: Bytes) -> u64 {
    bytes.0 / Bytes::KIB
}

impl Planner<'_> {
    /// Limits requests to the members' disks, before anything is built on them: arrays take over the limits of their members.
    pub(super) fn limit_members(&mut self) -> Result<(), BuildPlanError> {
        let largest = self.design.stack.max_sectors.map(|size| kib(size).to_string());
        self.set_on_members(&[(QueueAttribute::MaxSectorsKb, largest)])
    }

    /// Tunes the members' disks in what arrays over them need not know.
    pub(super) fn tune_members(&mut self) -> Result<(), BuildPlanError> {
        let stack = &self.design.stack;
        // The scheduler first: a change of it resets the depth.
        let settings = [
            (QueueAttribute::Scheduler, stack.scheduler.clone()),
            (QueueAttribute::NrRequests, stack.queue_depth.map(|depth| depth.to_string())),
        ];
        self.set_on_members(&settings)
    }

    fn set_on_members(
        &mut self,
        settings: &[(QueueAttribute, Option<String>)],
    ) -> Result<(), BuildPlanError> {
        for volume in self.design.members() {
            let device = self.device_of(volume)?;
            for (attribute, value) in settings {
                if let Some(value) = value {
                    self.set(&device, *attribute, value.clone());
                }
            }
        }
        Ok(())
    }

    /// Tunes the arrays, and `device`, which trials or the file system use.
    pub(super) fn tune_arrays(&mut self, device: &str) {
        for (array, attribute, value) in std::mem::take(&mut self.on_arrays) {
            self.set(&array, attribute, value.to_string());
        }
        if let Some(readahead) = self.design.stack.readahead {
            self.set(device, QueueAttribute::ReadAheadKb, kib(readahead).to_string());
        }
    }

    fn set(&mut self, device: &str, attribute: QueueAttribute, value: String) {
        let setting = QueueSetting { device: device.to_owned(), attribute, value };
        let undo = BuildUndo::RestoreQueue { set: setting.clone(), old: None };
        self.steps.push(BuildStep { action: BuildAction::SetQueue(setting), undo: Some(undo) });
    }
}
