//! Manifest text of a record: YAML documents, each with the template it came from.

use std::fmt::Write as _;

use helm_template::value::Str;
use helm_template::{json, yaml};
use kube_apply::Object;

/// Appends one document in Helm's record format.
pub fn write_document(text: &mut String, source: &str, content: &str) {
    // Writing to a `String` cannot fail.
    let _ = write!(text, "---\n# Source: {source}\n{content}\n");
}

/// Splits a text at document separators. The concatenated parts equal the input.
pub fn split_documents(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut begin, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") && at > begin {
            documents.push(&text[begin..at]);
            begin = at;
        }
        at = at.saturating_add(line.len());
    }
    if at > begin {
        documents.push(&text[begin..at]);
    }
    documents
}

/// Serializes an object as `toYaml` does, without the trailing line break.
pub fn to_yaml(object: &Object) -> Result<String, Str> {
    let data = json::parse(object.value().to_string())?;
    let text = yaml::write(&data).map_err(|error| Str::from(error.to_string()))?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_without_loss() {
        for (text, documents) in [
            ("", 0),
            ("a: 1\n", 1),
            ("---\na: 1\n---\nb: |\n  ---\n  x\n", 2),
            ("a: 1\n--- # two\nb: 2", 2),
            ("---\n---\na: 1\n", 2),
        ] {
            let cut = split_documents(text);
            assert_eq!((cut.len(), cut.concat().as_str()), (documents, text));
        }
    }

    #[test]
    fn object_is_serialized_as_by_helm() {
        let text =
            "apiVersion: v1\ndata:\n  m: \"1\"\nkind: ConfigMap\nmetadata:\n  name: a\nspec:\n  replicas: 3";
        let object = &Object::parse_all(text).unwrap()[0];
        assert_eq!(to_yaml(object).unwrap(), text);
    }
}
