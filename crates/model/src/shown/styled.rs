//! Text with a style. Its data is escaped on the way in, so that every escape sequence in it is the program's own.

use super::escape;
use std::fmt;
use std::ops::Deref;

/// What a piece of text means; the terminal's own palette gives it a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text without any mark.
    Plain,
    /// The most important of what is shown.
    Strong,
    /// What may be passed over.
    Faint,
    /// A change for the better.
    Good,
    /// A change for the worse.
    Bad,
    /// To be looked at.
    Caution,
}

impl Paint {
    /// `text` in this colour when `color`; the codes are those of ECMA-48 (SGR).
    pub fn apply(self, text: &str, color: bool) -> Styled {
        let code = match self {
            Paint::Plain => return Styled::plain(text),
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Caution => "33",
        };
        if !color || text.is_empty() {
            return Styled::plain(text);
        }
        Styled(format!("\u{1b}[{code}m{}\u{1b}[0m", escape(text)))
    }
}

/// Text in which each piece has a style that a terminal may show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Styled(String);

impl Styled {
    /// `text` without a style.
    pub fn plain(text: &str) -> Styled {
        Styled(escape(text).into_owned())
    }

    /// This and then `other`.
    #[must_use]
    pub fn then(mut self, other: &Styled) -> Styled {
        self.0.push_str(&other.0);
        self
    }

    /// `lines` one below the other, each with its end.
    pub fn lines(lines: &[Styled]) -> Styled {
        let mut text = String::new();
        for line in lines {
            text.push_str(&line.0);
            text.push('\n');
        }
        Styled(text)
    }

    /// Without blanks at the end.
    #[must_use]
    pub fn trim_end(&self) -> Styled {
        Styled(self.0.trim_end().to_owned())
    }

    /// The text with its escape sequences.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Deref for Styled {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Styled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<&str> for Styled {
    fn from(text: &str) -> Styled {
        Styled::plain(text)
    }
}

impl From<String> for Styled {
    fn from(text: String) -> Styled {
        Styled::plain(&text)
    }
}
