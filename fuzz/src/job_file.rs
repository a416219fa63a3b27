//! fio's job files; nothing can be included.
use ebbtide_formats::fio::jobfile::{self, JobFileContext};
use ebbtide_model::units::Bytes;

struct Nothing;

impl JobFileContext for Nothing {
    fn include(&self, name: &str, _from: &str) -> std::io::Result<String> {
        Err(std::io::Error::other(format!("no {name}")))
    }

    fn variable(&self, _name: &str) -> String {
        String::new()
    }

    fn length(&self, _name: &str) -> Option<Bytes> {
        Some(Bytes(1 << 30))
    }
}

pub(crate) fn target(text: &str) {
    let _ = jobfile::parse(text, "fuzz.fio", &[], &Nothing);
}
