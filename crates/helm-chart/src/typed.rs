//! Decodes data into a declared shape, as `sigs.k8s.io/yaml` decodes a text into a Go struct.
//!
//! Keys match case-insensitively, and values of another shape are errors with Go's messages. The result contains only
//! declared keys with values of their shape. The YAML parser converts numbers to strings where [`Struct::texts`]
//! expects strings.

use helm_template::data::{Data, Members};
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;

use crate::timestamp;

/// Expected shape of a value.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Text,
    Flag,
    Time,
    Any,
    List(&'static Shape),
    Map(&'static Shape),
    Struct(&'static Struct),
    /// A named Go type.
    Named(&'static str, &'static Shape),
}

/// A Go struct. Declared with [`structure`].
pub(crate) struct Struct {
    pub package: Package,
    pub name: &'static str,
    pub fields: &'static [Field],
    /// An embedded struct, whose fields belong to this one too.
    pub embedded: Option<&'static Struct>,
    /// Where strings are expected. Excludes the embedded struct, which `sigs.k8s.io/yaml` does not look into.
    pub texts: yaml::Shape,
}

/// Declares a struct: package, name, and fields by their JSON names.
macro_rules! structure {
    ($package:ident $name:literal { $($field:literal: $shape:expr,)* } $(embeds $embedded:expr)?) => {
        $crate::typed::Struct {
            package: $crate::typed::Package::$package,
            name: $name,
            fields: &[$(($field, $shape)),*],
            embedded: $crate::typed::structure!(@embedded $($embedded)?),
            texts: ::helm_template::yaml::Shape::Struct(&[$(($field, $crate::typed::texts($shape))),*]),
        }
    };
    (@embedded) => { None };
    (@embedded $embedded:expr) => { Some($embedded) };
}
pub(crate) use structure;

/// Where a shape expects strings.
pub(crate) const fn texts(shape: Shape) -> yaml::Shape {
    match shape {
        Shape::Text => yaml::Shape::Text,
        Shape::List(Shape::Text) => yaml::Shape::List(&yaml::Shape::Text),
        Shape::Map(Shape::Text) => yaml::Shape::Map(&yaml::Shape::Text),
        Shape::List(Shape::Struct(of)) => yaml::Shape::List(&of.texts),
        Shape::Struct(of) => of.texts,
        _ => yaml::Shape::Any,
    }
}

pub(crate) type Field = (&'static str, Shape);

/// Go package of a type, named in errors.
#[derive(Clone, Copy)]
pub(crate) enum Package {
    Chart,
    Loader,
    Provenance,
    Repo,
    Rules,
}

impl Package {
    fn name(self, profile: Profile) -> &'static str {
        match (self, profile) {
            (Self::Chart, Profile::Helm3) => "chart",
            (Self::Chart, Profile::Helm4) => "v2",
            (Self::Loader, _) => "loader",
            (Self::Provenance, _) => "provenance",
            (Self::Repo, _) => "repo",
            (Self::Rules, _) => "rules",
        }
    }
}

impl Shape {
    fn go_name(self, profile: Profile) -> String {
        match self {
            Self::Text => "string".into(),
            Self::Flag => "bool".into(),
            Self::Time => "time.Time".into(),
            Self::Any => "interface {}".into(),
            Self::List(of) => format!("[]{}{}", of.star(), of.go_name(profile)),
            Self::Map(of) => format!("map[string]{}{}", of.star(), of.go_name(profile)),
            Self::Struct(of) => format!("{}.{}", of.package.name(profile), of.name),
            Self::Named(name, _) => name.into(),
        }
    }

    fn star(self) -> &'static str {
        if matches!(self, Self::Struct(_)) { "*" } else { "" }
    }
}

/// Whether keys must be known and unique.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyMode {
    Any,
    Strict,
}

/// Parses YAML as a struct. Errors match `sigs.k8s.io/yaml`.
pub(crate) fn read(text: &[u8], of: &'static Struct, profile: Profile, keys: KeyMode) -> Result<Data, Str> {
    let data = match keys {
        KeyMode::Any => yaml::parse_as(text, &of.texts)?,
        KeyMode::Strict => yaml::parse_strict(text, &of.texts)?,
    };
    decode(data, Shape::Struct(of), profile, keys)
        .map_err(|error| format!("error unmarshaling JSON: while decoding JSON: {error}").into())
}

/// Decodes data into a shape as Go's JSON decoder does. Nulls that Go would ignore are omitted.
pub(crate) fn decode(data: Data, shape: Shape, profile: Profile, keys: KeyMode) -> Result<Data, Str> {
    let mut decoder = Decoder { profile, keys, current_struct: None, path: Vec::new(), first_error: None };
    let data = decoder.value(data, shape)?;
    match decoder.first_error {
        Some(error) => Err(error),
        None => Ok(data.unwrap_or_default()),
    }
}

struct Decoder {
    profile: Profile,
    keys: KeyMode,
    current_struct: Option<&'static Struct>,
    path: Vec<&'static str>,
    /// Go continues after a type error and reports the first one at the end.
    first_error: Option<Str>,
}

impl Decoder {
    /// `None` for a null where Go keeps the existing value.
    fn value(&mut self, data: Data, shape: Shape) -> Result<Option<Data>, Str> {
        Ok(Some(match (shape, data) {
            (Shape::Named(_, inner), data @ (Data::List(_) | Data::Map(_) | Data::Null)) => {
                return self.value(data, *inner);
            }
            (Shape::Text | Shape::Flag | Shape::Time, Data::Null) => return Ok(None),
            (Shape::Any, data) | (_, data @ Data::Null) => data,
            (Shape::Text, text @ Data::String(_)) => text,
            (Shape::Flag, flag @ Data::Bool(_)) => flag,
            (Shape::Time, Data::String(text)) => Data::string(timestamp::normalize(&text)?),
            (Shape::Time, _) => return Err("Time.UnmarshalJSON: input is not a JSON string".into()),
            (Shape::List(of), Data::List(items)) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.push(self.value(item, *of)?.unwrap_or_else(|| zero(*of)));
                }
                Data::List(list)
            }
            (Shape::Map(of), Data::Map(members)) => {
                let mut map = Members::new();
                for (key, value) in members {
                    let value = self.value(value, *of)?.unwrap_or_else(|| zero(*of));
                    map.insert(key, value);
                }
                Data::Map(map)
            }
            (Shape::Struct(of), Data::Map(members)) => self.members(members, of)?,
            (shape, data) => {
                self.record_type_error(&data, shape);
                return Ok(None);
            }
        }))
    }

    fn members(&mut self, members: Members, of: &'static Struct) -> Result<Data, Str> {
        let outer = self.current_struct.replace(of);
        let mut found = Members::new();
        for (key, value) in members {
            let Some((&(name, shape), embedded)) = of.field(&key) else {
                if self.keys == KeyMode::Strict {
                    self.first_error
                        .get_or_insert_with(|| format!("json: unknown field {}", quote(&key)).into());
                }
                continue;
            };
            let depth = self.path.len();
            if let Some(embedded) = embedded
                && self.profile == Profile::Helm4
            {
                self.path.push(embedded.name);
            }
            self.path.push(name);
            let value = self.value(value, shape)?;
            self.path.truncate(depth);
            if let Some(value) = value {
                // Most keys are spelled like the field; reuse them, because an index has very many.
                found.insert(if &*key == name { key } else { name.into() }, value);
            }
        }
        self.current_struct = outer;
        Ok(Data::Map(found))
    }

    fn record_type_error(&mut self, data: &Data, shape: Shape) {
        if self.first_error.is_some() {
            return;
        }
        let given = yaml::json_kind(data);
        let wanted = shape.go_name(self.profile);
        self.first_error = Some(
            match self.current_struct {
                Some(within) => format!(
                    "json: cannot unmarshal {given} into Go struct field {}.{} of type {wanted}",
                    within.name,
                    self.path.join(".")
                ),
                None => format!("json: cannot unmarshal {given} into Go value of type {wanted}"),
            }
            .into(),
        );
    }
}

impl Struct {
    /// Index and shape of a field, by exact spelling.
    pub fn canonical_field(&self, key: &str) -> Option<(usize, Shape)> {
        let embedded = self.embedded.map_or(&[][..], |embedded| embedded.fields);
        let mut fields = self.fields.iter().chain(embedded).enumerate();
        fields.find(|(_, (name, _))| *name == key).map(|(index, (_, shape))| (index, *shape))
    }

    /// The field that a key denotes, and its embedded struct: exact spelling before case-insensitive.
    fn field(&self, key: &str) -> Option<(&'static Field, Option<&'static Struct>)> {
        let find = |same: fn(&str, &str) -> bool| {
            let of = |fields: &'static [Field]| fields.iter().find(|(name, _)| same(name, key));
            let embedded = self.embedded;
            of(self.fields)
                .map(|field| (field, None))
                .or_else(|| of(embedded?.fields).map(|field| (field, embedded)))
        };
        find(|name, key| name == key).or_else(|| find(str::eq_ignore_ascii_case))
    }
}

/// Zero value in a new list or map where null was given.
fn zero(shape: Shape) -> Data {
    match shape {
        Shape::Text | Shape::Time => Data::string(""),
        Shape::Flag => Data::Bool(false),
        _ => Data::Null,
    }
}
