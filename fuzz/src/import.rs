//! The JSON of fio and the CSV of bonnie++: what is understood becomes a session and is analysed.
use ebbtide_analysis::analyse;
use ebbtide_formats::import;
use ebbtide_model::units::UnixTime;

pub(crate) fn target(text: &str) {
    for imported in import::parse(text).unwrap_or_default() {
        let session = import::session(imported, "id".to_owned(), "0", UnixTime::EPOCH);
        let _ = analyse(&session);
    }
}
