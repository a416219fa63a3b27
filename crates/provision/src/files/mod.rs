//! Lines of `ebb`'s in the host's files: put in and taken out so that everything else stays to the byte.

mod entries;
#[cfg(test)]
mod tests;

pub use entries::parts;
pub(crate) use entries::started_by_the_kernel;

use ebbtide_model::shown::{Shown, excerpt};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the host mounts at boot (fstab(5)).
pub const FSTAB: &str = "/etc/fstab";

/// What is `ebb`'s of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Path of the file.
    pub path: PathBuf,
    /// Whether the whole file is `ebb`'s, or a block of lines in it.
    pub whole: bool,
    /// Whether the file is a program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// The lines, each with its end.
    pub lines: String,
}

/// What a file that is wholly `ebb`'s begins with.
fn mark(name: &str) -> String {
    format!("# ebb: {name} (written by `ebb apply`; `ebb undo {name}` removes it)\n")
}

fn begin(name: &str, glued: bool) -> String {
    // The last line before had no end: taking the block out takes away the one that it was given.
    let glued = if glued { ", the line before had no end" } else { "" };
    format!("# ebb: begin {name} (written by `ebb apply`{glued})\n")
}

fn end(name: &str) -> String {
    format!("# ebb: end {name}\n")
}

impl Part {
    /// A block of `lines` in the file `path`.
    pub fn block(path: impl Into<PathBuf>, lines: String) -> Part {
        Part { path: path.into(), whole: false, executable: false, lines }
    }

    /// A file of `ebb`'s own for the array `name`.
    pub fn file(path: impl Into<PathBuf>, name: &str, lines: &str) -> Part {
        Part { path: path.into(), whole: true, executable: false, lines: mark(name) + lines }
    }

    /// A program of `ebb`'s own for the array `name`; the first of `lines` says what interprets it.
    pub fn program(path: impl Into<PathBuf>, name: &str, lines: &str) -> Part {
        let (first, rest) = lines.split_once('\n').unwrap_or((lines, ""));
        Part {
            path: path.into(),
            whole: true,
            executable: true,
            lines: format!("{first}\n{}{rest}", mark(name)),
        }
    }

    /// The text of its file with it, once, where `now` is the text now, and parts of earlier designs may be there in its place. A block that is
    /// there already keeps its place, and what somebody wrote in it.
    ///
    /// # Errors
    /// When the file has something else under the name of `ebb`'s own, or half of a block.
    pub fn put(&self, name: &str, now: Option<&str>, earlier: &[Part]) -> Result<String, FileError> {
        if self.whole {
            return match now {
                Some(now) if !now.is_empty() && !is_marked(now) => {
                    Err(self.error("it is not ebb's, and ebb's own file would take its place; move it away"))
                }
                _ => Ok(self.lines.clone()),
            };
        }
        let now = now.unwrap_or_default();
        if let Some(found) = self.find(name, now)? {
            let theirs = self.without_ours(name, &now[found.start..found.end], earlier);
            let block = format!("{}{}{theirs}{}", begin(name, found.glued), self.lines, end(name));
            if block.lines().eq(now[found.start..found.end].lines()) {
                return Ok(now.to_owned());
            }
            return Ok(format!("{}{block}{}", &now[..found.start], &now[found.end..]));
        }
        let glued = !now.is_empty() && !now.ends_with('\n');
        let separator = if glued { "\n" } else { "" };
        Ok(format!("{now}{separator}{}{}{}", begin(name, glued), self.lines, end(name)))
    }

    /// The text of its file without it and those of `earlier` designs, where `now` is the text now; nothing where the whole file goes.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn take(&self, name: &str, now: &str, earlier: &[Part]) -> Result<Option<String>, FileError> {
        if self.whole {
            return if is_marked(now) { Ok(None) } else { Ok(Some(now.to_owned())) };
        }
        let Some(found) = self.find(name, now)? else { return Ok(Some(now.to_owned())) };
        let theirs = self.without_ours(name, &now[found.start..found.end], earlier);
        let (before, rest) = (&now[..found.start], &format!("{theirs}{}", &now[found.end..]));
        if !found.glued {
            return Ok(Some(format!("{before}{rest}")));
        }
        Ok(Some(match (before.strip_suffix('\n'), next_block(rest)) {
            (Some(before), _) if rest.is_empty() => before.to_owned(),
            // The block after it takes over what is to be taken away.
            (_, Some(next)) => format!("{before}{}{}", begin(next, true), &rest[begin(next, false).len()..]),
            // Lines of somebody else's need the end of the line before.
            _ => format!("{before}{rest}"),
        }))
    }

    /// The lines of `block` that are neither its first, its last, nor what was put there, edited or not.
    fn without_ours(&self, name: &str, block: &str, earlier: &[Part]) -> String {
        let earlier = earlier.iter().filter(|part| part.path == self.path);
        let mut ours: Vec<&str> =
            std::iter::once(self).chain(earlier).flat_map(|part| part.lines.lines()).collect();
        let all = ours.clone();
        let theirs = block.split_inclusive('\n').filter(|line| {
            let line = line.trim_end_matches(['\r', '\n']);
            let marks = [begin(name, false), begin(name, true), end(name)];
            if marks.iter().any(|mark| mark.trim_end() == line) {
                return false;
            }
            match ours.iter().position(|own| *own == line) {
                Some(at) => {
                    ours.remove(at);
                    false
                }
                None => !all.iter().any(|own| is_edited(own, line)),
            }
        });
        theirs.collect()
    }

    /// Whether it is in `now` as it should be.
    pub fn stands(&self, name: &str, now: Option<&str>) -> bool {
        now.is_some_and(|now| self.put(name, Some(now), &[]).is_ok_and(|wanted| wanted == now))
    }

    fn find(&self, name: &str, now: &str) -> Result<Option<Block>, FileError> {
        let mut found: Option<Block> = None;
        let mut at = 0;
        for line in now.split_inclusive('\n') {
            let whole = line.trim_end_matches(['\r', '\n']);
            let starts = [false, true].into_iter().find(|glued| begin(name, *glued).trim_end() == whole);
            if let Some(glued) = starts {
                if found.is_some() {
                    return Err(self.error(&format!("the block of {name} begins twice in it; remove one")));
                }
                found = Some(Block { start: at, end: 0, glued });
            }
            at += line.len();
            if whole == end(name).trim_end() {
                match &mut found {
                    Some(found) if found.end == 0 => found.end = at,
                    _ => {
                        return Err(self.error(&format!(
                            "the block of {name} ends in it without a beginning; remove that line"
                        )));
                    }
                }
            }
        }
        match found {
            Some(found) if found.end == 0 => {
                let (number, line) = self.last_own(now, found.start);
                Err(self.error(&format!(
                    "the block of {name} has no end in it; add the line `{}` after line {number}, {}",
                    end(name).trim_end(),
                    excerpt(line)
                )))
            }
            found => Ok(found),
        }
    }

    /// The last line of a block without an end that is `ebb`'s, where its first begins at the byte `start` of `now`: its number, and it.
    fn last_own<'a>(&self, now: &'a str, start: usize) -> (usize, &'a str) {
        let first = now[..start].lines().count() + 1;
        let block = now[start..].lines().enumerate().map(|(index, line)| (first + index, line));
        let is_own = |line: &str| self.lines.lines().any(|own| own == line || is_edited(own, line));
        block
            .take_while(|(number, line)| *number == first || !line.starts_with("# ebb: "))
            .filter(|(number, line)| *number == first || is_own(line))
            .last()
            .unwrap_or((first, ""))
    }

    fn error(&self, what: &str) -> FileError {
        FileError { path: self.path.clone(), what: what.to_owned() }
    }
}

/// Whether `line` is `own` with changes: it is of the same device, array or place. Swap's place is none, and mdadm's lines begin with the same word.
fn is_edited(own: &str, line: &str) -> bool {
    let names = if own.starts_with("ARRAY ") { 3 } else { 2 };
    let mut words = own.split_whitespace().zip(line.split_whitespace()).take(names);
    words.any(|(own, word)| own == word && !["none", "ARRAY"].contains(&word))
}

/// The lines of `text` that are in no block of `ebb`'s, of whatever array; none of a file of `ebb`'s own.
pub fn others(text: &str) -> Vec<&str> {
    if is_marked(text) {
        return Vec::new();
    }
    let mut is_ours = false;
    let theirs = text.lines().filter(|line| {
        is_ours |= line.starts_with("# ebb: begin ");
        let keep = !is_ours;
        is_ours &= !line.starts_with("# ebb: end ");
        keep
    });
    theirs.collect()
}

/// Whether a file is one of `ebb`'s own.
fn is_marked(text: &str) -> bool {
    // A script's first line is not for it.
    let is_mark = |line: &str| line.starts_with("# ebb: ") && line.contains("(written by `ebb ");
    text.lines().take(2).any(|line| is_mark(line) && !line.starts_with("# ebb: begin "))
}

/// The array whose block `text` begins with, where that is not glued.
fn next_block(text: &str) -> Option<&str> {
    let name = text.strip_prefix("# ebb: begin ")?.split(' ').next()?;
    text.starts_with(&begin(name, false)).then_some(name)
}

/// A block in a text: where it starts and ends.
struct Block {
    start: usize,
    end: usize,
    glued: bool,
}

/// A file that is not as `ebb` left it, and why nothing is done to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", path.shown())]
pub struct FileError {
    /// Path of the file.
    pub path: PathBuf,
    /// What is wrong and what to do.
    pub what: String,
}
