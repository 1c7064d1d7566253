//! The output of `helm template`.

use bytes::Bytes;
use helm_template::profile::Profile;

use crate::hooks::Hook;
use crate::release::{Crd, Release};
use crate::render::RenderedFile;
use crate::split::{split, trim};

/// The parts of a release to print.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    pub crds: bool,
    pub hooks: bool,
    pub tests: bool,
}

/// Source file and content of a document.
type OutputDocument<'r> = (&'r str, &'r Bytes);

impl Release {
    /// The CRDs, if selected, and the manifests.
    pub fn manifest_documents(&self, shown: OutputOptions) -> impl Iterator<Item = OutputDocument<'_>> {
        let crds = self.crds.iter().filter(move |_| shown.crds);
        let crds = crds.map(|Crd { source, content }| (&**source, content));
        crds.chain(self.manifests.iter().map(|manifest| (&*manifest.source, &manifest.content)))
    }

    /// The hooks that are selected.
    pub fn hook_documents(&self, shown: OutputOptions) -> impl Iterator<Item = OutputDocument<'_>> {
        let hooks = self.hooks.iter().filter(move |hook| shown.hooks && (shown.tests || !hook.is_test()));
        hooks.map(|Hook { source, content, .. }| (&**source, content))
    }

    /// The whole output as one text.
    pub fn text(&self, shown: OutputOptions) -> Vec<u8> {
        let size = |(source, content): OutputDocument<'_>| source.len() + content.len() + DOCUMENT_OVERHEAD;
        let parts = self.manifest_documents(shown).chain(self.hook_documents(shown));
        let mut text = Vec::with_capacity(parts.map(size).sum::<usize>() + 1);
        self.manifest_documents(shown).for_each(|part| write_document(&mut text, part));
        let length = trim(&text).len();
        text.truncate(length);
        text.push(b'\n');
        self.hook_documents(shown).for_each(|part| write_document(&mut text, part));
        text
    }
}

/// The rendered files as text, although they are not valid YAML.
pub fn invalid_manifests_text(files: &[RenderedFile]) -> Vec<u8> {
    let mut files: Vec<_> = files.iter().filter(|file| !trim(&file.content).is_empty()).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut text = Vec::new();
    for file in files {
        write_document(&mut text, (&file.name, &file.content));
    }
    let length = trim(&text).len();
    text.truncate(length);
    text.push(b'\n');
    text
}

/// Bytes written around the source and content of a document.
const DOCUMENT_OVERHEAD: usize = 16;

/// Writes a document with its `# Source:` line.
pub fn write_document(text: &mut Vec<u8>, (source, content): OutputDocument<'_>) {
    text.extend_from_slice(b"---\n# Source: ");
    text.extend_from_slice(source.as_bytes());
    text.push(b'\n');
    text.extend_from_slice(content);
    text.push(b'\n');
}

/// Keeps only the documents of files that match the patterns, which are relative to the chart directory. Ordered by pattern.
pub fn filter_by_source(text: Vec<u8>, files: &[String], profile: Profile) -> Result<Vec<u8>, String> {
    let documents = split(&Bytes::from(text), profile);
    let mut shown = Vec::new();
    for pattern in files {
        let mut missing = true;
        for document in &documents {
            if source_path(document).is_some_and(|name| crate::path::matches(pattern, name)) {
                missing = false;
                shown.extend_from_slice(b"---\n");
                shown.extend_from_slice(document);
                shown.push(b'\n');
            }
        }
        if missing {
            return Err(format!("could not find template {pattern} in chart"));
        }
    }
    Ok(shown)
}

/// The source file in a document's comment, without the chart name.
fn source_path(document: &[u8]) -> Option<&str> {
    const SOURCE: &[u8] = b"# Source: ";
    memchr::memmem::find_iter(document, SOURCE).find_map(|at| {
        let line = document[at + SOURCE.len()..].split(|byte| *byte == b'\n').next()?;
        let (chart, name) = std::str::from_utf8(line).ok()?.split_once('/')?;
        (!chart.is_empty() && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::HookEvent;
    use crate::manifests::Manifest;

    fn hook(source: &str, event: HookEvent) -> Hook {
        Hook {
            name: "h".into(),
            kind: "Job".into(),
            source: source.into(),
            content: "kind: Job\n".into(),
            events: vec![event],
            weight: 0,
            delete_policies: Vec::new(),
            output_log_policies: Vec::new(),
        }
    }

    fn release() -> Release {
        let manifest = |source: &str, content: &'static str| Manifest {
            source: source.into(),
            content: content.into(),
            header: helm_template::yaml::ManifestHeader::default(),
        };
        Release {
            chart: helm_chart::Chart::default(),
            manifests: vec![
                manifest("c/templates/a.yaml", "a: 1"),
                manifest("c/charts/s/templates/a.yaml", "b: 2\n\n"),
            ],
            hooks: vec![
                hook("c/templates/h.yaml", HookEvent::PreInstall),
                hook("c/templates/t.yaml", HookEvent::Test),
            ],
            notes: String::new(),
            crds: vec![Crd { source: "c/crds/x.yaml".into(), content: "kind: X\n".into() }],
            warnings: Vec::new(),
        }
    }

    const CRD: &str = "---\n# Source: c/crds/x.yaml\nkind: X\n\n";
    /// Trailing white space of the last manifest is removed.
    const MANIFESTS: &str =
        "---\n# Source: c/templates/a.yaml\na: 1\n---\n# Source: c/charts/s/templates/a.yaml\nb: 2\n";
    const HOOK: &str = "---\n# Source: c/templates/h.yaml\nkind: Job\n\n";
    const TEST: &str = "---\n# Source: c/templates/t.yaml\nkind: Job\n\n";

    #[test]
    fn text_includes_selected_documents() {
        let table: &[(OutputOptions, &[&str])] = &[
            (OutputOptions { crds: false, hooks: true, tests: true }, &[MANIFESTS, HOOK, TEST]),
            (OutputOptions { crds: true, hooks: true, tests: false }, &[CRD, MANIFESTS, HOOK]),
            (OutputOptions { crds: true, hooks: false, tests: true }, &[CRD, MANIFESTS]),
        ];
        for (shown, parts) in table {
            assert_eq!(String::from_utf8(release().text(*shown)).unwrap(), parts.concat(), "{shown:?}");
        }
    }

    #[test]
    fn filter_by_source_keeps_matching_files() {
        let text = || release().text(OutputOptions { crds: false, hooks: true, tests: true });
        let shown = |patterns: &[&str], profile| {
            let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
            filter_by_source(text(), &patterns, profile).map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            shown(&["templates/a.yaml"], Profile::Helm3).unwrap(),
            "---\n# Source: c/templates/a.yaml\na: 1\n"
        );
        // In the order of the patterns, not of the documents.
        assert_eq!(
            shown(&["templates/t.yaml", "charts/*/templates/a.yaml"], Profile::Helm3).unwrap(),
            "---\n# Source: c/templates/t.yaml\nkind: Job\n---\n# Source: c/charts/s/templates/a.yaml\nb: 2\n"
        );
        assert_eq!(
            shown(&["templates/a.yaml", "nope"], Profile::Helm4).unwrap_err(),
            "could not find template nope in chart"
        );
    }
}
