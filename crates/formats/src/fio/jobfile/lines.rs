//! From text to sections of options.

use super::{JobFileContext, JobFileError, Mistake, Place};

/// Includes inside each other beyond which they are a circle.
const DEPTH_MAX: usize = 16;
/// Includes in all beyond which nobody wrote them: a few files that include one another several times are read without an end.
const INCLUDES_MAX: usize = 1000;
/// Options beyond which a file is no job file.
const OPTIONS_MAX: usize = 100_000;

/// One option as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) place: Place,
    pub(super) name: String,
    /// Absent where there is no `=`: a switch that is turned on.
    pub(super) value: Option<String>,
}

/// One section: `[name]` and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) options: Vec<Given>,
}

/// The sections of `text` in their order, and the lines that cannot be read.
pub(super) fn sections(
    text: &str,
    file: &str,
    surroundings: &dyn JobFileContext,
) -> (Vec<Section>, Vec<JobFileError>) {
    let mut reader =
        Reader { surroundings, sections: Vec::new(), includes: 0, options: 0, wrong: Vec::new() };
    reader.read(text, file, 0);
    (reader.sections, reader.wrong)
}

struct Reader<'a> {
    surroundings: &'a dyn JobFileContext,
    sections: Vec<Section>,
    includes: usize,
    options: usize,
    wrong: Vec<JobFileError>,
}

impl Reader<'_> {
    fn read(&mut self, text: &str, file: &str, depth: usize) {
        for (index, line) in text.lines().enumerate() {
            if self.options > OPTIONS_MAX || self.includes > INCLUDES_MAX {
                return;
            }
            let place = Place { file: file.to_owned(), line: index + 1 };
            if let Err(mistake) = self.line(line, place.clone(), depth) {
                self.wrong.push(JobFileError { place, mistake });
            }
        }
    }

    fn line(&mut self, line: &str, place: Place, depth: usize) -> Result<(), Mistake> {
        // fio cuts a line at either sign, wherever it stands.
        let line = line.split([';', '#']).next().unwrap_or("").trim();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix('[') {
            if depth > 0 {
                return Err(Mistake::SectionInInclude);
            }
            let name = rest.strip_suffix(']').unwrap_or(rest).trim().to_owned();
            self.sections.push(Section { place, name, options: Vec::new() });
            return if rest.ends_with(']') { Ok(()) } else { Err(Mistake::OpenHeading(line.to_owned())) };
        }
        if let Some(name) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
            let name = name.trim().to_owned();
            if depth >= DEPTH_MAX {
                return Err(Mistake::Circle { name, most: DEPTH_MAX });
            }
            self.includes += 1;
            if self.includes > INCLUDES_MAX {
                return Err(Mistake::TooManyIncludes(INCLUDES_MAX));
            }
            let included = self.surroundings.include(&name, &place.file);
            let included = included.map_err(|error| Mistake::Include { name: name.clone(), error })?;
            self.read(&included, &name, depth + 1);
            return Ok(());
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(Mistake::TooMany(OPTIONS_MAX));
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(self.expand(value.trim())?)),
            None => (line, None),
        };
        let Some(section) = self.sections.last_mut() else {
            return Err(Mistake::NoSection(line.to_owned()));
        };
        section.options.push(Given { place, name: name.to_owned(), value });
        Ok(())
    }

    /// `${NAME}` replaced by the variable's value; what it holds is not looked at again.
    fn expand(&self, value: &str) -> Result<String, Mistake> {
        let mut text = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, tail) =
                after.split_once('}').ok_or_else(|| Mistake::OpenVariable(value.to_owned()))?;
            text.push_str(before);
            text.push_str(&self.surroundings.variable(name));
            rest = tail;
        }
        text.push_str(rest);
        Ok(text)
    }
}
