//! From text to sections of options.

use super::{JobFileContext, JobFileError, Mistake, Place};

/// Includes inside each other beyond which they are a circle.
const DEPTH_MAX: usize = 16;
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

/// The sections of `text` in their order.
pub(super) fn sections(
    text: &str,
    file: &str,
    surroundings: &dyn JobFileContext,
) -> Result<Vec<Section>, JobFileError> {
    let mut reader = Reader { surroundings, sections: Vec::new(), options: 0 };
    reader.read(text, file, 0)?;
    Ok(reader.sections)
}

struct Reader<'a> {
    surroundings: &'a dyn JobFileContext,
    sections: Vec<Section>,
    options: usize,
}

impl Reader<'_> {
    fn read(&mut self, text: &str, file: &str, depth: usize) -> Result<(), JobFileError> {
        for (index, line) in text.lines().enumerate() {
            let place = Place { file: file.to_owned(), line: index + 1 };
            let wrong = |mistake| JobFileError { place: place.clone(), mistake };
            // fio cuts a line at either sign, wherever it stands.
            let line = line.split([';', '#']).next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                if depth > 0 {
                    return Err(wrong(Mistake::SectionInInclude));
                }
                let name =
                    rest.strip_suffix(']').ok_or_else(|| wrong(Mistake::OpenHeading(line.to_owned())))?;
                self.sections.push(Section { place, name: name.trim().to_owned(), options: Vec::new() });
                continue;
            }
            if let Some(name) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
                let name = name.trim().to_owned();
                if depth >= DEPTH_MAX {
                    return Err(wrong(Mistake::Circle { name, most: DEPTH_MAX }));
                }
                match self.surroundings.include(&name, file) {
                    Ok(included) => self.read(&included, &name, depth + 1)?,
                    Err(error) => return Err(wrong(Mistake::Include { name, error })),
                }
                continue;
            }
            let (name, value) = match line.split_once('=') {
                Some((name, value)) => (name.trim(), Some(self.expand(value.trim(), &place)?)),
                None => (line, None),
            };
            self.options += 1;
            if self.options > OPTIONS_MAX {
                return Err(wrong(Mistake::TooMany(OPTIONS_MAX)));
            }
            let Some(section) = self.sections.last_mut() else {
                return Err(wrong(Mistake::NoSection(line.to_owned())));
            };
            section.options.push(Given { place, name: name.to_owned(), value });
        }
        Ok(())
    }

    /// `${NAME}` replaced by the variable's value; what it holds is not looked at again.
    fn expand(&self, value: &str, place: &Place) -> Result<String, JobFileError> {
        let mut text = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, tail) = after.split_once('}').ok_or_else(|| JobFileError {
                place: place.clone(),
                mistake: Mistake::OpenVariable(value.to_owned()),
            })?;
            text.push_str(before);
            text.push_str(&self.surroundings.variable(name));
            rest = tail;
        }
        text.push_str(rest);
        Ok(text)
    }
}
