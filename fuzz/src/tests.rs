//! The corpus, and inputs made of it by edits: always the same ones, so that what fails here fails again.

use crate::{TARGETS, Target};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs;
use std::panic::catch_unwind;

/// Inputs for each target: seconds of a processor for all of them.
const INPUTS: u64 = 500;
const EDITS_MOST: usize = 6;
/// Words in which parsers have erred.
const WORDS: [&str; 20] = [
    "0",
    "-1",
    "18446744073709551615",
    "1e308",
    "1e-308",
    "NaN",
    "inf",
    "0.5",
    "\0",
    "\u{1b}[31m",
    "\u{a0}",
    "é",
    "\r\n",
    "\n",
    "\t",
    ",",
    "\"",
    "[",
    "{",
    "=",
];

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    /// A piece of `bytes`: mostly a short one.
    fn piece(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let begin = self.below(bytes.len() + 1);
        let most = if self.below(4) == 0 { bytes.len() } else { 12 };
        begin..(begin + self.below(most + 1)).min(bytes.len())
    }

    fn edit(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let place = self.piece(bytes);
        let new = match self.below(5) {
            0 => Vec::new(),
            1 => bytes[self.piece(bytes)].to_vec(),
            2 => other[self.piece(other)].to_vec(),
            3 => vec![self.below(256) as u8],
            _ => WORDS[self.below(WORDS.len())].as_bytes().to_vec(),
        };
        let end = if self.below(2) == 0 { place.start } else { place.end };
        bytes.splice(place.start..end, new);
    }
}

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let directory = format!("{}/corpus/{}", env!("CARGO_MANIFEST_DIR"), target.name);
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Looks at an input; where that panics, the input is told.
fn look(target: &'static Target, bytes: &[u8]) {
    if catch_unwind(|| target.look(bytes)).is_err() {
        panic!("target {}: {:?}", target.name, String::from_utf8_lossy(bytes));
    }
}

fn try_all(target: &'static Target) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "{} has no corpus", target.name);
    corpus.iter().for_each(|bytes| look(target, bytes));
    for seed in 0..INPUTS {
        let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut bytes = corpus[dice.below(corpus.len())].clone();
        let other = &corpus[dice.below(corpus.len())];
        for _ in 0..=dice.below(EDITS_MOST) {
            dice.edit(&mut bytes, other);
        }
        look(target, &bytes);
    }
}

#[test]
fn nothing_panics_on_what_is_made_of_the_corpus() {
    std::thread::scope(|scope| {
        for target in &TARGETS {
            std::thread::Builder::new()
                .name(target.name.to_owned())
                .spawn_scoped(scope, || try_all(target))
                .unwrap();
        }
    });
}
