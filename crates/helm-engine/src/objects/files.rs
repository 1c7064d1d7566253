//! `.Files`: the files of a chart besides templates and values.

use std::any::Any;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;

use bytes::Bytes;
use helm_chart::File;
use helm_template::data::{Data, Members};
use helm_template::go::{base64, print_bytes};
use helm_template::profile::Profile;
use helm_template::value::{Kind, List, Method, Object, Str, Type, Value, negligible_cost};
use helm_template::yaml;

use crate::glob::Glob;

/// Files sorted by name.
pub struct FilesObject {
    entries: Vec<Rc<FileObject>>,
    profile: Profile,
    /// The printed form, cached because it is long and charts that accidentally use their root context as a key request it repeatedly.
    printed: OnceCell<String>,
}

/// A file. Conversions for templates are cached.
struct FileObject {
    name: Str,
    data: Bytes,
    text: OnceCell<Value>,
    bytes: OnceCell<Value>,
    lines: OnceCell<Value>,
}

impl FileObject {
    fn text(&self) -> Value {
        self.text.get_or_init(|| Value::string_from_bytes(self.data.to_vec())).clone()
    }

    fn bytes(&self) -> Value {
        self.bytes.get_or_init(|| Value::Bytes(self.data.as_ref().into())).clone()
    }

    fn lines(&self) -> Value {
        let split = || {
            let text = self.data.strip_suffix(b"\n").unwrap_or(&self.data);
            let lines = text.split(|byte| *byte == b'\n');
            List::strings(lines.map(|line| String::from_utf8_lossy(line).into_owned())).into()
        };
        self.lines.get_or_init(split).clone()
    }

    fn base(&self) -> Str {
        self.name.rsplit('/').next().unwrap_or_default().into()
    }
}

impl FilesObject {
    /// Of two files with the same name, the later wins.
    pub fn new(files: &[File], profile: Profile) -> Self {
        let mut entries: Vec<_> = files
            .iter()
            .rev()
            .map(|File { name, data }| {
                let (text, bytes, lines) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
                Rc::new(FileObject { name: name.clone(), data: data.clone(), text, bytes, lines })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|later, earlier| later.name == earlier.name);
        Self { entries, profile, printed: OnceCell::new() }
    }

    fn get(&self, name: &str) -> Option<&FileObject> {
        let at = self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        self.entries.get(at).map(Rc::as_ref)
    }

    /// The files that match a pattern. A malformed pattern matches all files.
    fn glob(&self, pattern: &str) -> Self {
        let glob = Glob::new(pattern);
        let found = |entry: &&Rc<FileObject>| glob.as_ref().is_none_or(|glob| glob.matches(&entry.name));
        let entries = self.entries.iter().filter(found).cloned().collect();
        Self { entries, profile: self.profile, printed: OnceCell::new() }
    }

    /// Encodes a map keyed by base name. Of two files with the same base name the last wins; in Go either may win.
    fn as_yaml(&self, content: impl Fn(&FileObject) -> Data) -> Value {
        let members: Members = self.entries.iter().map(|entry| (entry.base(), content(entry))).collect();
        // An encoding error gives an empty string, as with `toYaml`.
        let text = yaml::write(&Data::Map(members)).unwrap_or_default();
        text.strip_suffix('\n').unwrap_or(&text).into()
    }

    fn lines(&self, name: &str) -> Result<Value, Str> {
        match (self.get(name), self.profile) {
            // Helm 3 reads the last byte without checking that there is one.
            (Some(entry), Profile::Helm3) if entry.data.is_empty() => {
                Err("runtime error: index out of range [-1]".into())
            }
            (Some(entry), _) if !entry.data.is_empty() => Ok(entry.lines()),
            _ => Ok(List::strings::<Str>([]).into()),
        }
    }
}

impl Object for FilesObject {
    fn type_name(&self) -> &'static str {
        "engine.files"
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn print(&self) -> Cow<'_, str> {
        self.printed.get_or_init(|| print_files(&self.entries)).into()
    }

    fn extent(&self) -> usize {
        let sizes = self.entries.iter().map(|entry| entry.name.len() + 4 * entry.data.len());
        sizes.fold(1, usize::saturating_add)
    }

    fn is_true(&self) -> bool {
        !self.entries.is_empty()
    }

    /// A missing file reads as empty.
    fn field(&self, name: &str) -> Option<Value> {
        Some(self.get(name).map_or_else(|| Value::Bytes([].into()), FileObject::bytes))
    }

    fn method(&self, name: &str) -> Option<Method> {
        METHODS.iter().find(|(known, ..)| *known == name).map(|(_, params, weight, run)| Method {
            params,
            variadic: false,
            cost: *weight,
            run: *run,
        })
    }

    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        Some(self.entries.iter().map(|entry| (Value::String(entry.name.clone()), entry.bytes())).collect())
    }

    fn length(&self) -> Option<usize> {
        Some(self.entries.len())
    }

    fn data(&self) -> Result<Data, Str> {
        let files = self.entries.iter().map(|entry| (entry.name.clone(), Data::string(base64(&entry.data))));
        Ok(Data::Map(files.collect()))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Self>() else { return false };
        let same = |(a, b): (&Rc<FileObject>, &Rc<FileObject>)| a.name == b.name && a.data == b.data;
        self.entries.len() == other.entries.len() && self.entries.iter().zip(&other.entries).all(same)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn print_files(files: &[Rc<FileObject>]) -> String {
    let mut out = String::from("map[");
    for (at, entry) in files.iter().enumerate() {
        out.push_str(if at > 0 { " " } else { "" });
        out.push_str(&entry.name);
        out.push(':');
        out.push_str(&print_bytes(&entry.data));
    }
    out.push(']');
    out
}

type MethodCost = fn(&dyn Object, &[Value]) -> usize;
type MethodBody = fn(&dyn Object, &[Value]) -> Result<Value, Str>;

#[rustfmt::skip]
const METHODS: &[(&str, &[Type], MethodCost, MethodBody)] = &[
    ("Get",       &[Type::String], negligible_cost,    |files, args| {
        Ok(downcast(files)?.get(&name_argument(args)).map_or_else(|| "".into(), FileObject::text))
    }),
    ("GetBytes",  &[Type::String], negligible_cost,    |files, args| {
        Ok(downcast(files)?.get(&name_argument(args)).map_or_else(|| Value::Bytes([].into()), FileObject::bytes))
    }),
    ("Glob",      &[Type::String], glob_cost, |files, args| Ok(Value::Object(Rc::new(downcast(files)?.glob(&name_argument(args)))))),
    ("Lines",     &[Type::String], negligible_cost,    |files, args| downcast(files)?.lines(&name_argument(args))),
    ("AsConfig",  &[],             total_size,   |files, _| {
        Ok(downcast(files)?.as_yaml(|entry| Data::string(String::from_utf8_lossy(&entry.data))))
    }),
    ("AsSecrets", &[],             total_size,   |files, _| Ok(downcast(files)?.as_yaml(|entry| Data::string(base64(&entry.data))))),
];

/// Cost of matching a pattern against every name, character by character.
fn glob_cost(object: &dyn Object, args: &[Value]) -> usize {
    const PER_LETTER: usize = 64;
    let Ok(files) = downcast(object) else { return 0 };
    let letters: usize = files.entries.iter().map(|entry| entry.name.len()).sum();
    letters.saturating_mul(PER_LETTER.max(4 * name_argument(args).len()))
}

fn total_size(object: &dyn Object, _: &[Value]) -> usize {
    object.extent()
}

fn downcast(object: &dyn Object) -> Result<&FilesObject, Str> {
    object.as_any().downcast_ref().ok_or_else(|| "internal error: no files".into())
}

fn name_argument(args: &[Value]) -> Cow<'_, str> {
    args.first().and_then(Value::text).unwrap_or_default()
}
