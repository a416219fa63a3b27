//! Which cloud a host is in, as its firmware's DMI tables say; no network is asked.

use crate::sys::{self, Sys};
use serde::Serialize;

/// A cloud, and the type of the instance where the firmware tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cloud {
    /// `aws`, `gcp` or `azure`, as the catalogue names providers.
    pub provider: &'static str,
    /// Instance type, for example `m5.large`: EC2's Nitro instances alone tell it.
    pub instance: Option<String>,
}

/// A rule: both texts begin a DMI field.
struct Rule {
    vendor: &'static str,
    product: &'static str,
    provider: &'static str,
    /// Whether the product's name is the instance type.
    product_is_type: bool,
}

/// Nitro instances have their type as product name (`dmidecode`: Manufacturer "Amazon EC2", Product Name "m5.large");
/// EC2's Xen instances have `HVM domU`, which any Xen host may have. Azure has what every Hyper-V host has and is
/// told by its disks alone.
const RULES: &[Rule] = &[
    Rule { vendor: "Amazon EC2", product: "", provider: "aws", product_is_type: true },
    Rule { vendor: "Google", product: "Google Compute Engine", provider: "gcp", product_is_type: false },
];

/// The cloud that this host is in; nothing when the firmware does not tell.
pub fn cloud(sys: &Sys) -> Option<Cloud> {
    let field = |name: &str| sys::word(&sys.sys.join("class/dmi/id").join(name)).unwrap_or_default();
    let (vendor, product) = (field("sys_vendor"), field("product_name"));
    let rule = RULES.iter().find(|r| vendor == r.vendor && product.starts_with(r.product))?;
    let instance = Some(product).filter(|p| rule.product_is_type && p.contains('.'));
    Some(Cloud { provider: rule.provider, instance })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    fn of(vendor: &str, product: &str) -> Option<Cloud> {
        let root = unpack(&format!(
            "f /sys/class/dmi/id/sys_vendor\n|{vendor}\nf /sys/class/dmi/id/product_name\n|{product}\n"
        ));
        cloud(&Sys::below(root.path()))
    }

    #[test]
    fn the_firmware_tells_the_cloud_and_sometimes_the_instance() {
        let instance = |of: Option<Cloud>| of.map(|c| (c.provider, c.instance));
        assert_eq!(instance(of("Amazon EC2", "m5.large")), Some(("aws", Some("m5.large".into()))));
        assert_eq!(instance(of("Google", "Google Compute Engine")), Some(("gcp", None)));
        assert_eq!(of("Xen", "HVM domU"), None);
        assert_eq!(of("Microsoft Corporation", "Virtual Machine"), None);
        assert_eq!(cloud(&Sys::below(unpack("d /sys\n").path())), None);
    }
}
