//! Reading a file of values.

use std::borrow::Cow;

use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;

use super::layers::overlay;

/// The values in a text: of its only document in Helm 3, of all its documents one over the other in Helm 4.
pub fn read(text: &[u8], profile: Profile) -> Result<Members, Str> {
    if profile == Profile::Helm3 {
        return table(yaml::parse(text)?);
    }
    let mut values = Members::new();
    for document in documents(text) {
        let document = document.map_err(|bad| {
            Str::from(format!("error reading yaml document: yaml: invalid Yaml document separator: {bad}"))
        })?;
        let read = yaml::parse(&document).and_then(table);
        overlay(
            &mut values,
            read.map_err(|error| Str::from(format!("cannot unmarshal yaml document: {error}")))?,
        );
    }
    Ok(values)
}

fn table(data: Data) -> Result<Members, Str> {
    let found = match data {
        Data::Map(members) => return Ok(members),
        Data::Null => return Ok(Members::new()),
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "number",
        Data::String(_) => "string",
        Data::List(_) => "array",
    };
    Err(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
         map[string]interface {{}}"
    )
    .into())
}

/// The documents of a text, cut at lines that begin with `---`. Only a comment may follow on such a line; anything else
/// is the error, and the end.
fn documents(text: &[u8]) -> Vec<Result<Cow<'_, [u8]>, String>> {
    let mut documents = Vec::new();
    let mut document: Vec<u8> = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = String::from_utf8_lossy(rest);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                documents.push(Err(rest.to_owned()));
                return documents;
            }
            if !document.is_empty() {
                documents.push(Ok(Cow::Owned(std::mem::take(&mut document))));
                continue;
            }
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        document.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        document.push(b'\n');
    }
    if !document.is_empty() {
        documents.push(Ok(Cow::Owned(document)));
    }
    documents
}
