//! Words for what a design may have as its layout.

use ebbtide_model::layout::LayoutName;
use std::str::FromStr;
use strum::{EnumString, VariantNames};

/// Copies on different hosts, as a word.
pub(super) const REPLICATED: &str = "replicated";

/// What a design may have as its layout: one of the layouts, or what is made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DesignLayout {
    /// A layout of its own.
    Plain(LayoutName),
    /// Copies on different hosts.
    Replicated,
}

impl DesignLayout {
    /// The layout of its own, where it is one.
    pub(super) fn plain(self) -> Option<LayoutName> {
        match self {
            DesignLayout::Plain(layout) => Some(layout),
            DesignLayout::Replicated => None,
        }
    }
}

/// The words for [`DesignLayout`].
const WORDS: [&str; LayoutName::VARIANTS.len() + 1] = {
    let mut words = [REPLICATED; LayoutName::VARIANTS.len() + 1];
    let mut index = 0;
    while index < LayoutName::VARIANTS.len() {
        words[index] = LayoutName::VARIANTS[index];
        index += 1;
    }
    words
};

impl VariantNames for DesignLayout {
    const VARIANTS: &'static [&'static str] = &WORDS;
}

impl FromStr for DesignLayout {
    type Err = strum::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            REPLICATED => Ok(DesignLayout::Replicated),
            text => text.parse().map(DesignLayout::Plain),
        }
    }
}

/// How arrays of copies make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Over {
    /// Chunks go to them in turn.
    Stripe,
    /// One after the other.
    Linear,
}
