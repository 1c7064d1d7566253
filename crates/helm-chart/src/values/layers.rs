//! User values: files and `--set` flags, layered in Helm's order.

use bytes::Bytes;
use helm_template::data::{Data, Members};
use helm_template::json;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::explain::{Layer, Origin};
use super::read::read;
use crate::set::{self, Kind};

/// A source of user values.
#[derive(Clone, Debug)]
pub enum Source {
    /// `--values`: a file and its content.
    File { name: Str, text: Bytes },
    /// A `--set` flag and its argument.
    Set(Kind, Str),
}

impl Source {
    /// Files come first, then each kind of `--set`, whatever their order on the command line.
    fn rank(&self) -> usize {
        match self {
            Self::File { .. } => 0,
            Self::Set(kind, _) => 1 + *kind as usize,
        }
    }

    fn origin(&self) -> Origin {
        match self {
            Self::File { name, .. } => Origin::File(name.clone()),
            Self::Set(kind, line) => Origin::Set(*kind, line.clone()),
        }
    }

    fn apply(&self, values: &mut Members, profile: Profile, open: &mut Open) -> Result<(), Str> {
        match self {
            Self::File { name, text } => {
                let read = read(text, profile)
                    .map_err(|error| Str::from(format!("failed to parse {name}: {error}")))?;
                overlay(values, read);
                Ok(())
            }
            Self::Set(Kind::Json, line) => json_line(line, values, profile),
            Self::Set(kind, line) => set::apply(*kind, line, values, profile, open)
                .map_err(|error| format!("failed parsing {} data: {error}", kind.flag()).into()),
        }
    }
}

/// Reads a file named by `--set-file`.
pub type Open<'o> = dyn FnMut(&str) -> Result<Str, Str> + 'o;

/// Merges all sources.
pub fn user_values(sources: &[Source], profile: Profile, open: &mut Open) -> Result<Members, Str> {
    let mut values = Members::new();
    for source in in_order(sources) {
        source.apply(&mut values, profile, open)?;
    }
    Ok(values)
}

/// Values of each source, from the weakest to the strongest.
pub fn layers(sources: &[Source], profile: Profile, open: &mut Open) -> Result<Vec<Layer>, Str> {
    let layer = |source: &Source| {
        let mut values = Members::new();
        source.apply(&mut values, profile, open)?;
        Ok(Layer { origin: source.origin(), values })
    };
    in_order(sources).into_iter().map(layer).collect()
}

fn in_order(sources: &[Source]) -> Vec<&Source> {
    let mut ordered: Vec<_> = sources.iter().collect();
    ordered.sort_by_key(|source| source.rank());
    ordered
}

/// `--set-json`; in Helm 4 also a whole object.
fn json_line(line: &str, values: &mut Members, profile: Profile) -> Result<(), Str> {
    if profile == Profile::Helm4 && line.trim().starts_with('{') {
        let Ok(Data::Map(members)) = json::parse(line.trim()) else {
            return Err(format!("failed parsing --set-json data JSON: {line}").into());
        };
        overlay(values, members);
        return Ok(());
    }
    set::apply(Kind::Json, line, values, profile, &mut |_| Err("no file is read here".into()))
        .map_err(|_| format!("failed parsing --set-json data {line}").into())
}

/// Merges `over` over `values`: tables are merged, other values replaced. Nulls are kept to delete defaults later.
pub fn overlay(values: &mut Members, over: Members) {
    for (key, value) in over {
        match (values.get_mut(&key), value) {
            (Some(Data::Map(below)), Data::Map(above)) => overlay(below, above),
            (_, value) => {
                values.insert(key, value);
            }
        }
    }
}
