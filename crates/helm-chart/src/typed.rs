//! Data of a declared form, as `sigs.k8s.io/yaml` decodes a text into a Go struct.
//!
//! Keys are matched without regard to case, numbers and truths become texts where a text is due, and what has another
//! form is an error in Go's words. What comes out has the declared keys only, each with a value of its form.

use helm_template::data::{Data, Members};
use helm_template::go::{Form, format_float};
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::moment;

/// What a value has to be.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Text,
    Flag,
    Time,
    Any,
    List(&'static Shape),
    Map(&'static Shape),
    Struct(&'static Struct),
    /// A shape that Go has given a name.
    Named(&'static str, &'static Shape),
}

/// A Go struct, pointed to by what holds it.
pub(crate) struct Struct {
    pub package: Package,
    pub name: &'static str,
    pub fields: &'static [Field],
    /// A struct whose fields are this one's too.
    pub embedded: Option<&'static Struct>,
}

pub(crate) type Field = (&'static str, Shape);

/// The Go package of a type: errors name it.
#[derive(Clone, Copy)]
pub(crate) enum Package {
    Chart,
    Loader,
    Repo,
}

impl Package {
    fn name(self, profile: Profile) -> &'static str {
        match (self, profile) {
            (Self::Chart, Profile::Helm3) => "chart",
            (Self::Chart, Profile::Helm4) => "v2",
            (Self::Loader, _) => "loader",
            (Self::Repo, _) => "repo",
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

/// Brings data to a shape. Nulls that Go would not see are left out.
pub(crate) fn decode(data: Data, shape: Shape, profile: Profile, strict: bool) -> Result<Data, Str> {
    let mut decoder = Decoder { profile, strict, within: None, path: Vec::new(), first: None };
    let data = decoder.value(data, shape, true)?;
    match decoder.first {
        Some(error) => Err(error),
        None => Ok(data.unwrap_or_default()),
    }
}

struct Decoder {
    profile: Profile,
    /// Refuse keys that a struct does not know.
    strict: bool,
    within: Option<&'static Struct>,
    path: Vec<&'static str>,
    /// Go goes on after a wrong type and tells the first at the end.
    first: Option<Str>,
}

impl Decoder {
    /// `coerce`: whether numbers and truths may become texts. Nothing: a null where Go leaves what is there.
    fn value(&mut self, data: Data, shape: Shape, coerce: bool) -> Result<Option<Data>, Str> {
        Ok(Some(match (shape, data) {
            (Shape::Named(_, inner), data @ (Data::List(_) | Data::Map(_) | Data::Null)) => {
                return self.value(data, *inner, coerce);
            }
            (Shape::Text | Shape::Flag | Shape::Time, Data::Null) => return Ok(None),
            (Shape::Any, data) | (_, data @ Data::Null) => data,
            (Shape::Text, text @ Data::String(_)) => text,
            (Shape::Text, data @ (Data::Bool(_) | Data::Int(_) | Data::Float(_))) if coerce => {
                Data::string(scalar_text(&data))
            }
            (Shape::Flag, flag @ Data::Bool(_)) => flag,
            (Shape::Time, Data::String(text)) => Data::string(moment::normal(&text)?),
            (Shape::Time, _) => return Err("Time.UnmarshalJSON: input is not a JSON string".into()),
            (Shape::List(of), Data::List(items)) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.push(self.value(item, *of, coerce)?.unwrap_or_else(|| zero(*of)));
                }
                Data::List(list)
            }
            (Shape::Map(of), Data::Map(members)) => {
                let mut map = Members::new();
                for (key, value) in members {
                    let value = self.value(value, *of, coerce)?.unwrap_or_else(|| zero(*of));
                    map.insert(key, value);
                }
                Data::Map(map)
            }
            (Shape::Struct(of), Data::Map(members)) => self.members(members, of, coerce)?,
            (shape, data) => {
                self.wrong(&data, shape);
                return Ok(None);
            }
        }))
    }

    fn members(&mut self, members: Members, of: &'static Struct, coerce: bool) -> Result<Data, Str> {
        let outer = self.within.replace(of);
        let mut found = Members::new();
        for (key, value) in members {
            let Some((&(name, shape), embedded)) = of.field(&key) else {
                if self.strict {
                    self.first.get_or_insert_with(|| {
                        format!("json: unknown field {}", helm_template::go::quote(&key)).into()
                    });
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
            // sigs.k8s.io/yaml does not look into embedded structs for the forms of their fields.
            let value = self.value(value, shape, coerce && embedded.is_none())?;
            self.path.truncate(depth);
            if let Some(value) = value {
                found.insert(name.into(), value);
            }
        }
        self.within = outer;
        Ok(Data::Map(found))
    }

    fn wrong(&mut self, data: &Data, shape: Shape) {
        if self.first.is_some() {
            return;
        }
        let given = match data {
            Data::Null => "null",
            Data::Bool(_) => "bool",
            Data::Int(_) | Data::Float(_) => "number",
            Data::String(_) => "string",
            Data::List(_) => "array",
            Data::Map(_) => "object",
        };
        let wanted = shape.go_name(self.profile);
        self.first = Some(
            match self.within {
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
    /// The field that a key means, and the embedded struct that it is of: the same spelling before the same letters.
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

/// What stands in a new list or map where null was given.
fn zero(shape: Shape) -> Data {
    match shape {
        Shape::Text | Shape::Time => Data::string(""),
        Shape::Flag => Data::Bool(false),
        _ => Data::Null,
    }
}

/// A plain scalar of YAML as the text it becomes where a text is due. Floats are printed with the precision of 32 bits.
fn scalar_text(data: &Data) -> String {
    match data {
        Data::Bool(truth) => truth.to_string(),
        Data::Int(n) => n.to_string(),
        #[expect(clippy::cast_possible_truncation, reason = "that is what Go does here")]
        Data::Float(n) => {
            let shortest = format!("{:e}", *n as f32);
            format_float(shortest.parse().unwrap_or(*n), Form::General, None)
        }
        _ => String::new(),
    }
}
