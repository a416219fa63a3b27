//! Questions that are asked once.

use super::{CommandError, Output, Runner};
use rustix::fs::fstat;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

/// Answers from memory a question that was asked before, until another program is run or something is waited for. Whoever writes asks the
/// device itself once more, at the door.
pub struct Remembering<R> {
    runner: R,
    answers: RefCell<BTreeMap<Question, Output>>,
}

/// A program with its arguments, and the file that it is asked about: its file system, its number there, and that of the device.
type Question = (Vec<String>, Option<(u64, u64, u64)>);

/// Whether a program only tells what there is of arrays, volumes and mappings, or what is on a device.
fn asks(words: &[&str]) -> bool {
    matches!(
        words,
        ["pvs" | "vgs" | "lvs" | "blkid", ..]
            | ["mdadm", "--detail" | "--examine", ..]
            | ["cryptsetup", "status", ..]
            | ["dmsetup", "table", ..]
    )
}

impl<R: Runner> Remembering<R> {
    /// Runs what it does not know with `runner`.
    pub fn new(runner: R) -> Remembering<R> {
        Remembering { runner, answers: RefCell::default() }
    }

    /// What `run`, which runs `words` on `file`, says or has said.
    fn answer(
        &self,
        words: &[&str],
        file: Option<&File>,
        run: impl FnOnce() -> Result<Output, CommandError>,
    ) -> Result<Output, CommandError> {
        let Some(file) = file.map(fstat).transpose().ok().filter(|_| asks(words)) else {
            self.forget();
            return run();
        };
        let file = file.map(|file| (file.st_dev, file.st_ino, file.st_rdev));
        let question = (words.iter().map(|&word| word.to_owned()).collect(), file);
        if let Some(answer) = self.answers.borrow().get(&question) {
            return Ok(answer.clone());
        }
        let answer = run()?;
        self.answers.borrow_mut().insert(question, answer.clone());
        Ok(answer)
    }
}

impl<R: Runner> Runner for Remembering<R> {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        let run = || self.runner.run_with(program, arguments, input);
        self.answer(&[&[program], arguments].concat(), None, run)
    }

    fn run_on(&self, program: &str, arguments: &[&str], file: &File) -> Result<Output, CommandError> {
        let run = || self.runner.run_on(program, arguments, file);
        self.answer(&[&[program], arguments].concat(), Some(file), run)
    }

    fn waits(&self, why: &str, left: Duration) {
        self.runner.waits(why, left);
    }

    fn forget(&self) {
        self.answers.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counting(Cell<u8>);

    impl Runner for Counting {
        fn run_with(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, CommandError> {
            self.0.set(self.0.get() + 1);
            let said = format!("{program} {} {}", arguments.join(" "), self.0.get());
            Ok(Output { status: Some(0), stdout: said.into_bytes(), stderr: String::new() })
        }
    }

    #[test]
    fn a_question_is_asked_again_when_something_was_done_or_waited_for() {
        let runner = Remembering::new(Counting(Cell::new(0)));
        let said = |program: &str, arguments: &[&str]| {
            runner.run(program, arguments).expect("answers").text().into_owned()
        };
        let examine = ["--examine", "/dev/sda"];
        assert_eq!(said("mdadm", &examine), "mdadm --examine /dev/sda 1");
        assert_eq!(said("mdadm", &examine), "mdadm --examine /dev/sda 1");
        assert_eq!(said("mdadm", &["--examine", "/dev/sdb"]), "mdadm --examine /dev/sdb 2");
        assert_eq!(said("mdadm", &["--stop", "/dev/md0"]), "mdadm --stop /dev/md0 3");
        assert_eq!(said("mdadm", &examine), "mdadm --examine /dev/sda 4");
        runner.forget();
        assert_eq!(said("mdadm", &examine), "mdadm --examine /dev/sda 5");
        assert_eq!(said("udevadm", &["settle"]), "udevadm settle 6");
        assert_eq!(said("udevadm", &["settle"]), "udevadm settle 7");
    }
}
