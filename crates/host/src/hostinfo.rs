//! The host in a few words, as sessions keep it.

use crate::sys::{self, Sys};
use ebbtide_model::session::HostInfo;

/// Reads what is known of the host; what cannot be read stays empty.
pub fn host_info(sys: &Sys) -> HostInfo {
    let cpuinfo = sys::text(&sys.proc.join("cpuinfo")).unwrap_or_default();
    let meminfo = sys::text(&sys.proc.join("meminfo")).unwrap_or_default();
    let kernel = sys.proc.join("sys/kernel");
    HostInfo {
        hostname: sys::word(&kernel.join("hostname")).unwrap_or_default(),
        kernel: sys::word(&kernel.join("osrelease")).unwrap_or_default(),
        cpu_model: cpu_model(&cpuinfo).unwrap_or_default().to_owned(),
        cores: cpuinfo.lines().filter(|l| l.starts_with("processor")).count().try_into().unwrap_or(u32::MAX),
        memory_bytes: sys::field_in_kib(&meminfo, "MemTotal:").unwrap_or_default(),
        machine: machine(sys),
    }
}

/// `model name` on x86; ARM's cpuinfo has none, its implementer and part are given then.
fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let model = sys::value(cpuinfo, &["model name"]);
    model.or_else(|| sys::value(cpuinfo, &["CPU part"])).filter(|model| !model.is_empty())
}

/// Vendor and product from the firmware's tables. On EC2 the product is the instance type.
fn machine(sys: &Sys) -> Option<String> {
    let dmi = sys.sys.join("class/dmi/id");
    match (sys::word(&dmi.join("sys_vendor")), sys::word(&dmi.join("product_name"))) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    #[test]
    fn a_recorded_guest() {
        let root = unpack(include_str!("../tests/trees/arrays.tree"));
        let info = host_info(&Sys::below(root.path()));
        assert_eq!((info.hostname.as_str(), info.cores), ("rec", 2));
        assert!(info.kernel.starts_with("6."), "{}", info.kernel);
        assert!(info.memory_bytes > 900 << 20 && info.memory_bytes <= 1 << 30, "{}", info.memory_bytes);
        assert!(!info.cpu_model.is_empty());
        assert_eq!(info.machine, None);
    }

    /// Made up from what EC2's Nitro instances report.
    #[test]
    fn an_instance_type_is_the_product() {
        let root = unpack(
            "f /sys/class/dmi/id/sys_vendor\n|Amazon EC2\nf /sys/class/dmi/id/product_name\n|m5.2xlarge\n",
        );
        assert_eq!(host_info(&Sys::below(root.path())).machine.as_deref(), Some("Amazon EC2 m5.2xlarge"));
    }
}
