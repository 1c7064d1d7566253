//! Compares two versions of a workspace token by token.
//!
//! A renaming is accepted under these rules:
//! - The tokens are equal except for identifiers.
//! - A variable refers to the same binding as before, whatever its name.
//! - A name changes only as some definition of that name in the workspace changed. So if all definitions of a name got
//!   one new name, each of its uses has that name.
//! - Within a function, type, trait or `impl`, one name becomes one name, and no two names become one. Exceptions need
//!   several definitions of the name and different qualifiers: `a.told` and `b.told`, but not `a.told` twice.
//! - Lifetimes are mapped one to one within an item.

use std::collections::{BTreeMap, BTreeSet};

use super::resolve::{Class, Definition, Name, Reference, Resolved, is_keyword, resolve};
use super::tokens::{Token, TokenKind};

/// New names by class and old name, as definitions changed.
#[derive(Default)]
pub struct Definitions(BTreeMap<(Class, String), BTreeSet<String>>);

impl Definitions {
    pub fn insert(&mut self, class: Class, old: &str, new: &str) {
        self.0.entry((class, old.to_owned())).or_default().insert(new.to_owned());
    }

    fn insert_definition(&mut self, definition: Definition, old: &str, new: &str) {
        let classes: &[Class] = match definition {
            Definition::None => &[],
            Definition::Item => &[Class::Item],
            Definition::Field => &[Class::Field],
            Definition::Function => &[Class::Item, Class::Method],
        };
        for class in classes {
            self.insert(*class, old, new);
        }
    }

    /// Definitions whose name changed, with the old and the new name.
    pub fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self
            .0
            .iter()
            .flat_map(|((_, old), news)| news.iter().map(move |new| (old.as_str(), new.as_str())));
        pairs.filter(|(old, new)| old != new)
    }

    /// Whether a use of `old` may have become `new`. An unchanged name may be defined outside of the workspace.
    fn allow(&self, class: Class, old: &str, new: &str) -> bool {
        old == new || self.0.get(&(class, old.to_owned())).is_some_and(|news| news.contains(new))
    }
}

/// A difference with the line in the new file.
pub type Difference = (usize, String);

/// A file whose names can be checked once all definitions are known.
pub struct RenamedFile {
    names: Vec<NameUse>,
    pub differences: Vec<Difference>,
    pub variables: usize,
}

struct NameUse {
    line: usize,
    item: usize,
    old: String,
    new: String,
    name: Name,
}

/// Compares the tokens and variables of a file, and collects the definitions in it.
pub fn compare_tokens(old: &[Token], new: &[Token], definitions: &mut Definitions) -> RenamedFile {
    let same = old.iter().zip(new).take_while(|(old, new)| is_alike(old, new)).count();
    let mut file = RenamedFile { names: Vec::new(), differences: Vec::new(), variables: 0 };
    if same < old.len().max(new.len()) {
        let line = new.get(same).or(new.last()).map_or(0, |token| token.line);
        file.differences.push((line, describe_difference(&old[same..], &new[same..])));
        // The definitions around the difference are needed to check other files.
        let (before, after) = (resolve(old), resolve(new));
        let is_same = |(old, new): &(&Token, &Token)| is_alike(old, new);
        let tail = old[same..].iter().rev().zip(new[same..].iter().rev()).take_while(is_same).count();
        let ends = (1..=tail).map(|back| (old.len() - back, new.len() - back));
        for (old_at, new_at) in (0..same).map(|at| (at, at)).chain(ends) {
            if let (Some(name), Some(_)) = (name_at(&before, old_at), name_at(&after, new_at)) {
                definitions.insert_definition(name.definition, text(&old[old_at]), text(&new[new_at]));
            }
        }
        return file;
    }
    let (before, after) = (resolve(old), resolve(new));
    for at in 0..old.len() {
        let line = new[at].line;
        let (old, new) = (text(&old[at]), text(&new[at]));
        match (&before.references[at], &after.references[at]) {
            (Reference::Fixed, Reference::Fixed) => {}
            (Reference::Binding, Reference::Binding) => file.variables += usize::from(old != new),
            (Reference::Variable(a), Reference::Variable(b)) if a == b => {}
            (Reference::Name(name), Reference::Name(_)) => {
                definitions.insert_definition(name.definition, old, new);
                let (old, new) = (old.to_owned(), new.to_owned());
                file.names.push(NameUse { line, item: before.items[at], old, new, name: name.clone() });
            }
            (Reference::Variable(_), Reference::Variable(_)) => {
                file.differences.push((line, format!("`{old}` became `{new}`, another variable")));
            }
            (_, _) => file
                .differences
                .push((line, format!("`{old}` became `{new}`: one is a variable, the other is not"))),
        }
    }
    file
}

fn name_at(resolved: &Resolved, at: usize) -> Option<&Name> {
    match &resolved.references[at] {
        Reference::Name(name) => Some(name),
        _ => None,
    }
}

/// Checks the names of a file against the definitions of the workspace. Returns the number of uses whose new name
/// depends on their type, because the name has several definitions: for them the compiler is the witness.
pub fn check_names(file: &mut RenamedFile, definitions: &Definitions) -> usize {
    let mut forward = Mapping::default();
    let mut backward = Mapping::default();
    for NameUse { line, item, old, new, name } in &file.names {
        let class = name.class;
        if class != Class::Lifetime && !definitions.allow(class, old, new) {
            file.differences.push((*line, format!("`{old}` became `{new}`, but no definition did")));
        }
        let is_strict = class == Class::Lifetime;
        if let Some(other) = forward.insert((*item, class, old), new, name.qualifier.as_deref(), is_strict) {
            file.differences.push((*line, format!("`{old}` became `{other}` before, and `{new}` here")));
        }
        if let Some(other) = backward.insert((*item, class, new), old, name.qualifier.as_deref(), is_strict) {
            file.differences.push((*line, format!("both `{other}` and `{old}` became `{new}`")));
        }
    }
    let ambiguous = |item: &NameUse| forward.is_ambiguous(&(item.item, item.name.class, &item.old));
    file.names.iter().filter(|item| ambiguous(item)).count()
}

/// A name with the item that it is used in.
type ScopedName<'a> = (usize, Class, &'a str);

/// The images of the names of an item, with the qualifier of each use.
#[derive(Default)]
struct Mapping<'a>(BTreeMap<ScopedName<'a>, BTreeMap<&'a str, BTreeSet<Option<&'a str>>>>);

impl<'a> Mapping<'a> {
    /// Adds an image of `name`. Returns a different image that it has with the same qualifier.
    fn insert(
        &mut self,
        name: ScopedName<'a>,
        image: &'a str,
        qualifier: Option<&'a str>,
        is_strict: bool,
    ) -> Option<&'a str> {
        let images = self.0.entry(name).or_default();
        images.entry(image).or_default().insert(qualifier);
        let conflicts = |(other, qualifiers): &(&&'a str, &BTreeSet<_>)| {
            **other != image && (is_strict || qualifiers.contains(&qualifier))
        };
        images.iter().find(conflicts).map(|(other, _)| *other)
    }

    fn is_ambiguous(&self, name: &ScopedName<'a>) -> bool {
        self.0.get(name).is_some_and(|images| images.len() > 1)
    }
}

/// Compares two files that may differ in string literals only, and returns these: line, old, new.
pub fn compare_prose(old: &[Token], new: &[Token]) -> Result<Vec<(usize, String, String)>, Difference> {
    let mut literals = Vec::new();
    let longest = old.len().max(new.len());
    for at in 0..longest {
        match (old.get(at), new.get(at)) {
            (Some(old), Some(new)) if old.kind == new.kind => {}
            (
                Some(Token { kind: TokenKind::Text(old), .. }),
                Some(Token { kind: TokenKind::Text(new), line }),
            ) => {
                literals.push((*line, old.clone(), new.clone()));
            }
            _ => {
                let line = new.get(at).or(new.last()).map_or(0, |token| token.line);
                return Err((
                    line,
                    describe_difference(&old[at.min(old.len())..], &new[at.min(new.len())..]),
                ));
            }
        }
    }
    Ok(literals)
}

/// Whether two tokens are equal, or identifiers of which neither is a keyword.
fn is_alike(old: &Token, new: &Token) -> bool {
    match (&old.kind, &new.kind) {
        (TokenKind::Ident(old), TokenKind::Ident(new)) => {
            old == new || (!is_keyword(old) && !is_keyword(new))
        }
        (TokenKind::Capture(_), TokenKind::Capture(_)) => true,
        (old, new) => old == new,
    }
}

fn text(token: &Token) -> &str {
    match &token.kind {
        TokenKind::Ident(text)
        | TokenKind::Text(text)
        | TokenKind::Capture(text)
        | TokenKind::Number(text) => text,
        _ => "",
    }
}

fn describe_difference(old: &[Token], new: &[Token]) -> String {
    format!("`{}` became `{}`", excerpt(old), excerpt(new))
}

fn excerpt(tokens: &[Token]) -> String {
    let text = |token: &Token| match &token.kind {
        TokenKind::Mark(mark, true) => mark.to_string(),
        TokenKind::Mark(mark, false) | TokenKind::Open(mark) | TokenKind::Close(mark) => format!("{mark} "),
        _ => format!("{} ", text(token)),
    };
    tokens.iter().take(12).map(text).collect::<String>().trim_end().to_owned()
}
