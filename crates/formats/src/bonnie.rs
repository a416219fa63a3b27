//! Results as bonnie++'s CSV, format 1.98, which `bon_csv2html` and `bon_csv2txt` read.

use ebbtide_model::profile::{BONNIE_SEEKERS, BONNIE_SEEKS};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::Bytes;

/// Fields of the format (bon_csv2html(1)).
const FIELDS: usize = 50;
/// Tests that were faster than this have no result (bonnie++'s MinTime).
const TOO_FAST: f64 = 0.5;

/// What the line says beside the results.
#[derive(Debug, Clone, Copy)]
pub struct BonnieHost<'a> {
    /// Name of the machine.
    pub name: &'a str,
    /// Our name and version, where bonnie++ has its own.
    pub version: &'a str,
    /// The session's seed, which stands where bonnie++ has its own.
    pub seed: u64,
    /// Bytes of the file.
    pub size: Bytes,
}

/// One line; `steps` are the profile's steps by name.
pub fn csv(host: &BonnieHost<'_>, steps: &[(&str, &TrialSamples)]) -> String {
    let mut fields = vec![String::new(); FIELDS];
    // A comma would be a field of its own.
    fields[0] = "1.98".to_owned();
    fields[1] = host.version.to_owned();
    fields[2] = host.name.replace([',', '\n'], "_");
    fields[3] = "1".to_owned();
    fields[4] = host.seed.to_string();
    fields[5] = format!("{}M", host.size.0 >> 20);
    fields[7] = BONNIE_SEEKS.to_string();
    fields[8] = BONNIE_SEEKERS.to_string();
    for (name, at, latency) in [("write", 11, 39), ("rewrite", 13, 40), ("read", 17, 42), ("seeks", 19, 43)] {
        let Some((_, samples)) = steps.iter().find(|(step, _)| *step == name) else { continue };
        let seconds = samples.elapsed.as_secs_f64();
        let (read, write) = (&samples.array.read, &samples.array.write);
        let amount = match name {
            "seeks" => read.count.ops as f64,
            // KiB; of a rewrite each block counts once.
            "read" => read.count.bytes as f64 / 1024.0,
            _ => write.count.bytes as f64 / 1024.0,
        };
        let cpu = (samples.cpu.load_user.0 + samples.cpu.load_system.0) as f64 / 1e9;
        if seconds < TOO_FAST {
            (fields[at], fields[at + 1]) = ("+++++".to_owned(), "+++".to_owned());
        } else {
            fields[at] = if name == "seeks" {
                format!("{:.1}", amount / seconds)
            } else {
                format!("{:.0}", amount / seconds)
            };
            fields[at + 1] = format!("{:.0}", cpu / seconds * 100.0);
        }
        let most = read.latency.max().max(write.latency.max()).unwrap_or(0);
        fields[latency] = format!("{}us", most / 1000);
    }
    fields.join(",") + "\n"
}
