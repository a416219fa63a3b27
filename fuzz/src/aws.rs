//! What people save of AWS and of their loads: what is understood changes a catalogue, which stays one that can be asked.
use ebbtide_formats::aws::{self, AwsOutput};
use ebbtide_formats::trace;
use ebbtide_model::catalog::{Catalog, VolumeOrder};
use ebbtide_model::units::Bytes;

pub(crate) fn target(text: &str) {
    if let Ok(load) = trace::parse(text, None) {
        assert!(load.bs.0 >= 512 && load.read_percent <= 100, "{load:?}");
    }
    let Ok(AwsOutput::Prices(list)) = aws::parse(text) else { return };
    for region in list.regions() {
        let mut catalog = Catalog::builtin().clone();
        catalog.reprice(&list, Some(region));
        for record in catalog.types() {
            let price =
                record.price_of(&VolumeOrder { size: Bytes(1 << 40), iops: Some(5000.0), throughput: None });
            assert!(price.is_none_or(|price| price >= 0.0), "{record:?}");
        }
    }
}
