//! Where a reader wants text, numbers and truths become text.

/// What is expected of a document: as much of a Go type as matters to `sigs.k8s.io/yaml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Any,
    /// A string: `1` and `true` are taken as they are written by Go.
    Text,
    List(&'static Shape),
    Map(&'static Shape),
    /// The members of a struct, by their names in JSON.
    Struct(&'static [(&'static str, Shape)]),
}

impl Shape {
    pub(super) fn item(&self) -> Option<&'static Self> {
        match self {
            Self::List(item) => Some(item),
            _ => None,
        }
    }

    /// A name counts in any case, but before all others as it is written.
    pub(super) fn member(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(value) => Some(value),
            Self::Struct(members) => members
                .iter()
                .find(|(name, _)| *name == key)
                .or_else(|| members.iter().find(|(name, _)| same_letters(name, key)))
                .map(|(_, shape)| shape),
            _ => None,
        }
    }
}

/// The same name but for the case of its letters; two signs of Unicode also count as the letters they look like.
pub(super) fn same_letters(name: &str, key: &str) -> bool {
    let fold = |c: char| match c {
        '\u{212A}' => 'k',
        '\u{17F}' => 's',
        _ => c.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(key.chars().map(fold))
}
