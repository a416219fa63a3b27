//! What parses outside text, as functions that may be given anything: tests give them the corpus and inputs made of it, `cargo xtask fuzz`
//! what libFuzzer finds.
// The tree of files that a target looks at is made by it.
#![allow(clippy::disallowed_methods)]

mod aws;
mod catalog;
mod experiment;
mod import;
mod iostat;
mod job_file;
mod log_page;
mod need;
mod shown;
mod sysfs;
mod tables;
#[cfg(test)]
mod tests;

/// What a target looks at.
enum Input {
    Text(fn(&str)),
    Bytes(fn(&[u8])),
}

/// A parser, or several of one kind of text.
pub struct Target {
    /// Its name, which its file and its corpus have too.
    pub name: &'static str,
    input: Input,
}

impl Target {
    /// Looks at `bytes`; a target of text at those before the first that is none.
    ///
    /// # Panics
    /// Where a parser does, or says what cannot be.
    pub fn look(&self, bytes: &[u8]) {
        match self.input {
            Input::Bytes(look) => look(bytes),
            Input::Text(look) => look(bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())),
        }
    }
}

const fn text(name: &'static str, look: fn(&str)) -> Target {
    Target { name, input: Input::Text(look) }
}

/// All there are.
pub const TARGETS: [Target; 11] = [
    text("aws", aws::target),
    text("catalog", catalog::target),
    text("experiment", experiment::target),
    text("import", import::target),
    text("iostat", iostat::target),
    text("job_file", job_file::target),
    Target { name: "log_page", input: Input::Bytes(log_page::target) },
    text("need", need::target),
    text("shown", shown::target),
    text("sysfs", sysfs::target),
    text("tables", tables::target),
];
