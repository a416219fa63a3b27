//! Which of fio's own example job files run here: `EBB_FIO_EXAMPLES=DIRECTORY cargo test -p ebbtide-formats --test
//! fio_examples -- --ignored` reads them all and writes the table of docs/reference/bench.md. They are fio's, and not part of this
//! repository: `examples/` of its sources.
#![allow(clippy::disallowed_methods)]

use ebbtide_formats::fio::jobfile::{JobFileContext, JobFileErrors, parse};
use ebbtide_model::units::Bytes;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/bench.md");
const BEGIN: &str = "<!-- written by the test fio_examples: begin -->\n";
const END: &str = "<!-- written by the test fio_examples: end -->";

/// A host on which every file and device that a job names has 1 GiB.
struct Around<'a>(&'a Path);

impl JobFileContext for Around<'_> {
    fn include(&self, name: &str, _from: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(name))
    }
    /// What an example takes from its environment is there: a size or a device.
    fn variable(&self, name: &str) -> String {
        if name.to_ascii_lowercase().contains("size") { "1g" } else { "/dev/sdx" }.to_owned()
    }
    fn length(&self, _name: &str) -> Option<Bytes> {
        Some(Bytes(Bytes::GIB))
    }
}

/// Engines, targets and commands that are no I/O on files and block devices.
fn is_another_engine(errors: &JobFileErrors) -> bool {
    errors.0.iter().any(|error| error.mistake.to_string().starts_with("ioengine: "))
}

#[test]
#[ignore = "the examples are part of fio's sources; EBB_FIO_EXAMPLES says where they are"]
fn the_table_of_fios_examples_is_current() {
    let directory =
        std::env::var("EBB_FIO_EXAMPLES").expect("EBB_FIO_EXAMPLES names the directory of fio's examples");
    let directory = Path::new(&directory);
    let (mut run, mut engines, mut others) = (Vec::new(), 0, BTreeMap::<String, Vec<String>>::new());
    let mut files: Vec<_> =
        fs::read_dir(directory).expect("is there").map(|entry| entry.expect("is read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "fio"));
    files.sort();
    for path in &files {
        let name = path.file_stem().expect("has one").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("is text");
        match parse(&text, &name, &[], &Around(directory)) {
            Ok(_) => run.push(name),
            Err(error) if is_another_engine(&error) => engines += 1,
            Err(errors) => {
                let first = errors.0.first().map(|error| error.mistake.to_string()).unwrap_or_default();
                let what = first.replace('|', "/");
                others.entry(what).or_default().push(name);
            }
        }
    }
    assert!(run.len() > 7, "{run:?}");
    let refused: usize = others.values().map(Vec::len).sum();
    let mut table = format!(
        "| of fio's {} examples | how many | which |\n| --- | --- | --- |\n| run | {} | {} |\n| are for engines that are no reads \
         and writes of files and block devices | {engines} | |\n",
        files.len(),
        run.len(),
        run.join(", ")
    );
    table += &format!("| ask for something else that is not done | {refused} | |\n");
    for (what, names) in &others {
        table += &format!("| {what} | {} | {} |\n", names.len(), names.join(", "));
    }
    let page = fs::read_to_string(PAGE).expect("is there");
    let (before, rest) = page.split_once(BEGIN).expect("has the table");
    let (_, after) = rest.split_once(END).expect("has the table's end");
    let new = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    if new != page {
        fs::write(PAGE, new).expect("is written");
        panic!("the table was out of date and is written anew: commit it");
    }
}
