//! Expected types of a document: where a string is expected, numbers and booleans are converted to strings.

/// The expected type of a document, as far as `sigs.k8s.io/yaml` uses Go types for conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Any,
    /// A string. `1` and `true` are converted as Go formats them.
    Text,
    List(&'static Shape),
    Map(&'static Shape),
    /// The fields of a struct, by their JSON names.
    Struct(&'static [(&'static str, Shape)]),
}

impl Shape {
    pub(super) fn item(&self) -> Option<&'static Self> {
        match self {
            Self::List(item) => Some(item),
            _ => None,
        }
    }

    /// The shape of a member. An exact match takes precedence; otherwise case is ignored.
    pub(super) fn member(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(value) => Some(value),
            Self::Struct(members) => members
                .iter()
                .find(|(name, _)| *name == key)
                .or_else(|| members.iter().find(|(name, _)| eq_ignore_case(name, key)))
                .map(|(_, shape)| shape),
            _ => None,
        }
    }
}

/// Compares names ignoring case as Go does: the Kelvin sign and the long s count as `k` and `s`.
pub(super) fn eq_ignore_case(name: &str, key: &str) -> bool {
    let fold = |c: char| match c {
        '\u{212A}' => 'k',
        '\u{17F}' => 's',
        _ => c.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(key.chars().map(fold))
}
