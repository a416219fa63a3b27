//! Logs of iostat, as text and as JSON.
pub(crate) fn target(text: &str) {
    let _ = ebbtide_formats::iostat::parse(text);
}
