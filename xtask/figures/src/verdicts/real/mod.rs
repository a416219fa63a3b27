//! `cargo xtask verdicts --real`: how often the verdicts are right on real devices of this machine.
//!
//! Each case makes its cause on real devices (a throttle, hogs on the load's processor, a neighbour, a slow member...),
//! runs `ebb` as users run it, and looks which verdict comes first. That the cause is there does not rest on the rules
//! that are judged: the same load runs once more for a moment with that cause taken away, and is faster then; or `fio` and
//! the kernel's own counters say it. A case in which it is not there is void, and counts for nothing.

mod around;
mod case;
mod draw;
mod judge;
mod load;
mod oracle;
mod page;
mod said;
mod test_bed;

use super::Options;
use crate::{packages, pages};
use case::Case;
use judge::{Judged, Outcome};
use std::time::Instant;
use test_bed::TestBed;

/// The cases that `options` ask for.
fn cases(options: &Options) -> Result<Vec<Case>, String> {
    let mut only: Vec<(&str, Option<u64>)> = Vec::new();
    for one in &options.only {
        let (class, seed) = match one.split_once(':') {
            Some((class, seed)) => {
                (class, Some(seed.parse().map_err(|_| format!("{one}: write CLASS:SEED"))?))
            }
            None => (one.as_str(), None),
        };
        if !draw::CLASSES.iter().any(|(name, ..)| *name == class) {
            let known: Vec<&str> = draw::CLASSES.iter().map(|(name, ..)| *name).collect();
            return Err(format!("there is no class {class:?}, but {}", known.join(", ")));
        }
        only.push((class, seed));
    }
    let named = |case: &Case| {
        let is =
            |(class, seed): &(&str, Option<u64>)| *class == case.class && seed.is_none_or(|s| s == case.seed);
        only.is_empty() || only.iter().any(is)
    };
    Ok(draw::all(!options.tuning).into_iter().filter(named).collect())
}

/// Runs the real cases that are asked for.
///
/// # Errors
/// Without root, when devices cannot be made, when `ebb` fails, or when the page cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    let cases = cases(options)?;
    if options.list {
        for case in &cases {
            println!("{} {}: {case}", case.class, case.seed);
        }
        println!("{} cases", cases.len());
        return Ok(());
    }
    if !packages::is_root() {
        return Err(
            "real cases are made of loop devices, cgroups and neighbours: run this as root".to_owned()
        );
    }
    for program in ["fio", "losetup", "taskset", "timeout", "blockdev", "chrt"] {
        if !packages::on_path(program) {
            return Err(format!("{program} is missing, which real cases are made with"));
        }
    }
    let ebb = match &options.ebb {
        Some(path) => path.clone(),
        None => crate::run::built("--package ebbtide", "ebb")?,
    };
    // The path that it has from elsewhere too.
    let ebb = std::fs::canonicalize(&ebb).map_err(|error| format!("{ebb}: {error}"))?;
    let start = Instant::now();
    let test_bed = TestBed::new(&ebb.to_string_lossy())?;
    let mut judged: Vec<Judged> = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let one = judge::judge(&test_bed, case);
        println!("{:3}/{} {}", index + 1, cases.len(), page::line(&one));
        judged.push(one);
    }
    drop(test_bed);
    let table = page::table(&judged);
    println!("\n{table}\n{:.0} s", start.elapsed().as_secs_f64());
    if !options.tuning && options.only.is_empty() {
        let path = pages::root().join("docs/explanation/verdict-accuracy.md");
        let page = pages::read(&path)?;
        pages::write(&path, &pages::between(&page, page::COMMAND, None, &table)?)?;
    }
    match judged.iter().filter(|one| matches!(one.outcome, Outcome::Failed(_))).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} cases could not be run")),
    }
}
