//! What somebody does to what runs.

use super::*;

impl Machine {
    /// Somebody freezes the ext4 that is mounted, or ends that: its superblock says whether there is something to replay.
    pub fn freezes(&self, device: &str, is_frozen: bool) {
        let mut bytes = vec![0; 4096];
        bytes[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        bytes[1024 + 0x5c] = 0x3c;
        bytes[1024 + 0x60] = if is_frozen { 0xc2 } else { 0xc6 };
        fs::write(self.at(device), bytes).expect("writes");
    }

    /// The array runs under another name alone.
    pub fn runs_as(&self, name: &str) {
        let mut running = self.running.borrow_mut();
        let uuid = running.remove("md:/dev/md/data").expect("runs");
        running.insert(format!("md:{name}"), uuid);
        drop(running);
        self.publish();
        fs::remove_dir_all(self.at("/sys/class/block/data")).expect("removes");
    }

    /// So much is swapped out, and so much memory is free, in KiB.
    pub fn swaps_out(&self, out: u64, free: u64) {
        self.edit("/proc/swaps", |text| text.replace(" 1000 0 ", &format!(" 1000 {out} ")));
        self.put("/proc/meminfo", &format!("MemTotal: 100000 kB\nMemAvailable: {free} kB\n"));
    }

    /// The UUID of what `kind` is on it.
    pub fn uuid_of(&self, kind: &str) -> String {
        let disks = self.disks.borrow();
        let on = disks.iter().find(|(key, on)| key.starts_with("on:") && on.starts_with(&format!("{kind} ")));
        on.and_then(|(_, on)| on.split(' ').nth(2)).expect("has one").to_owned()
    }
}
