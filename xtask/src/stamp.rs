//! Content hashes of a set of files. They detect accidental changes, not malicious ones.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// All files below a folder of the project, sorted, with their paths in the project.
pub fn files_below(root: &Path, folder: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(root.join(folder)).with_context(|| format!("cannot read {folder}"))?;
    for entry in entries {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            files.extend(files_below(root, &name)?);
        } else {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
            files.push((name, bytes));
        }
    }
    files.sort();
    Ok(files)
}

/// One line per file: content hash and name.
pub fn from_files(files: &[(String, Vec<u8>)]) -> String {
    files.iter().fold(String::new(), |mut stamp, (name, bytes)| {
        writeln!(stamp, "{:016x}  {name}", fnv1a(bytes)).expect("writing to a String cannot fail");
        stamp
    })
}

/// Names of the files for which two stamps differ.
pub fn differences(ours: &str, theirs: &str) -> Vec<String> {
    let mut names: Vec<String> = [(ours, theirs), (theirs, ours)]
        .into_iter()
        .flat_map(|(a, b)| a.lines().filter(|line| !b.lines().any(|other| other == *line)))
        .filter_map(|line| Some(line.split_once("  ")?.1.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// FNV-1a, 64 bits: the standard library's hash may change from one release to the next.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_matches_known_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn differences_names_changed_added_and_missing_files() {
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let before = from_files(&[file("changed", "1"), file("gone", ""), file("same", "s")]);
        let after = from_files(&[file("changed", "2"), file("new", ""), file("same", "s")]);
        assert_eq!(differences(&before, &after), ["changed", "gone", "new"]);
        assert!(differences(&before, &before).is_empty());
    }
}
