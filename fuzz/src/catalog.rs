//! A user's catalogue, and what `aws ec2 describe-instance-types` prints; what is understood is asked for limits.
use ebbtide_model::catalog::Catalog;
use ebbtide_model::units::Bytes;

pub(crate) fn target(text: &str) {
    let mut catalog = Catalog::default();
    let read = Catalog::import(text).map(|file| file.to_toml());
    let toml = read.as_deref().unwrap_or(text);
    if catalog.add_file(toml, "fuzz.toml").is_err() {
        // What was imported must be readable.
        assert!(read.is_err(), "{toml}");
        return;
    }
    for gib in [1, 100, 10_000] {
        for t in catalog.types() {
            let _ = catalog.candidates(&t.provider, Bytes(gib << 30));
        }
    }
    for instance in catalog.instances() {
        let _ = (instance.link(), instance.disk_shape());
    }
}
