//! User values: files and `--set` flags, layered in Helm's order.

use bytes::Bytes;
use helm_template::data::{Data, Members};
use helm_template::json;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::explain::{UserValuesLayer, ValueOrigin};
use super::read::read;
use crate::set::{self, SetFlag};

/// A source of user values.
#[derive(Clone, Debug)]
pub enum ValuesSource {
    /// `--values`: a file and its content.
    File { name: Str, text: Bytes },
    /// A `--set` flag and its argument.
    Set(SetFlag, Str),
}

impl ValuesSource {
    /// Files come first, then each kind of `--set`, whatever their order on the command line.
    fn rank(&self) -> usize {
        match self {
            Self::File { .. } => 0,
            Self::Set(kind, _) => 1 + *kind as usize,
        }
    }

    fn origin(&self) -> ValueOrigin {
        match self {
            Self::File { name, .. } => ValueOrigin::File(name.clone()),
            Self::Set(kind, line) => ValueOrigin::Set(*kind, line.clone()),
        }
    }

    fn apply(&self, values: &mut Members, profile: Profile, open: &mut OpenFile) -> Result<(), Str> {
        match self {
            Self::File { name, text } => {
                let read = read(text, profile)
                    .map_err(|error| Str::from(format!("failed to parse {name}: {error}")))?;
                overlay(values, read);
                Ok(())
            }
            Self::Set(SetFlag::Json, line) => json_line(line, values, profile),
            Self::Set(kind, line) => set::apply(*kind, line, values, profile, open)
                .map_err(|error| format!("failed parsing {} data: {error}", kind.flag()).into()),
        }
    }
}

/// Reads a file named by `--set-file`.
pub type OpenFile<'o> = dyn FnMut(&str) -> Result<Str, Str> + 'o;

/// Merges all sources.
pub fn user_values(sources: &[ValuesSource], profile: Profile, open: &mut OpenFile) -> Result<Members, Str> {
    let mut values = Members::new();
    for source in sorted_sources(sources) {
        source.apply(&mut values, profile, open)?;
    }
    Ok(values)
}

/// Values of each source, from the weakest to the strongest.
pub fn layers(
    sources: &[ValuesSource],
    profile: Profile,
    open: &mut OpenFile,
) -> Result<Vec<UserValuesLayer>, Str> {
    let layer = |source: &ValuesSource| {
        let mut values = Members::new();
        source.apply(&mut values, profile, open)?;
        Ok(UserValuesLayer { origin: source.origin(), values })
    };
    sorted_sources(sources).into_iter().map(layer).collect()
}

fn sorted_sources(sources: &[ValuesSource]) -> Vec<&ValuesSource> {
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
    set::apply(SetFlag::Json, line, values, profile, &mut |_| Err("no file is read here".into()))
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
