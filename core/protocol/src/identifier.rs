//! How a request names a stream, topic, consumer group or user: by number or by name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A name of 1 to 255 bytes of UTF-8, case-sensitive, not normalised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Box<str>);

/// Why a text is not a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 255 bytes, this one has {0}")]
pub struct InvalidName(pub usize);

impl Name {
    /// Checks the length.
    ///
    /// # Errors
    /// [`InvalidName`] when `text` is empty or longer than 255 bytes.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, InvalidName> {
        let text = text.into();
        if text.is_empty() || text.len() > 255 { Err(InvalidName(text.len())) } else { Ok(Self(text)) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Name::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0.into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number or a name, as requests carry it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Identifier {
    /// The numeric id.
    Id(u32),
    /// The name.
    Name(Name),
}

impl Identifier {
    /// Reads an identifier out of a URL path or a command line: text that parses as `u32` is a number, all else a name.
    ///
    /// # Errors
    /// [`InvalidName`] when the text is neither.
    pub fn from_text(text: &str) -> Result<Self, InvalidName> {
        match text.parse::<u32>() {
            Ok(id) => Ok(Identifier::Id(id)),
            Err(_) => Name::new(text).map(Identifier::Name),
        }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identifier::Id(id) => write!(f, "{id}"),
            Identifier::Name(name) => write!(f, "{name}"),
        }
    }
}
