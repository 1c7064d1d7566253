//! The alphabet of the searched text: ASCII or Unicode.
//!
//! A class that is all of Unicode except a few characters takes a hundred times longer to compile than the same class limited to
//! ASCII, and most texts are ASCII.

use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition};

/// The set of characters that occur in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alphabet {
    Ascii,
    Unicode,
}

impl Alphabet {
    /// The alphabet of a text.
    pub fn from_text(text: &[u8]) -> Self {
        if text.is_ascii() { Self::Ascii } else { Self::Unicode }
    }

    /// An equivalent expression for texts of this alphabet. Recursion depth is limited by the translation that produced the syntax.
    pub(super) fn narrow(self, syntax: Hir) -> Hir {
        match self {
            Self::Unicode => syntax,
            Self::Ascii => ascii(&syntax),
        }
    }
}

fn ascii(syntax: &Hir) -> Hir {
    match syntax.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Look(_) | HirKind::Class(Class::Bytes(_)) => {
            syntax.clone()
        }
        HirKind::Class(Class::Unicode(set)) => {
            let mut set = set.clone();
            set.intersect(&ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7f')]));
            Hir::class(Class::Unicode(set))
        }
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            Hir::repetition(Repetition { min: *min, max: *max, greedy: *greedy, sub: Box::new(ascii(sub)) })
        }
        HirKind::Capture(Capture { index, name, sub }) => {
            Hir::capture(Capture { index: *index, name: name.clone(), sub: Box::new(ascii(sub)) })
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(ascii).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(ascii).collect()),
    }
}
