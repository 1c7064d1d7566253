//! Runs a post-renderer on rendered manifests and hooks.
//!
//! The post-renderer receives parsed objects, not text. A document whose objects come back unchanged keeps its exact
//! bytes; only changed objects are serialized again.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use helm_engine::{RenderedFile, sort_manifests};
use helm_template::profile::Profile;
use kube_apply::{Object, ObjectId};

use super::document;
use super::options::{ContentSource, PostRenderer};
use crate::error::Error;
use crate::record::HookRecord;
use crate::render::RenderError;
use crate::render::share::PoolShare;

/// Rendered texts in the form of a record.
pub struct RecordTexts {
    pub manifest: String,
    pub hooks: Vec<HookRecord>,
}

/// A document of the manifest, or a hook, with its objects.
struct ManifestDocument {
    location: DocumentLocation,
    objects: Vec<Object>,
}

enum DocumentLocation {
    Manifest(Range<usize>),
    Hook(usize),
}

/// Returned objects by id and whether they are hooks.
struct ReturnedObjects(HashMap<(ObjectId, bool), VecDeque<(usize, Object)>>);

const HOOK_ANNOTATION: &str = "helm.sh/hook";

/// Returns manifest and hooks as changed by `change`. Large texts are parsed and written on the pool of `share`;
/// their objects are reserved there for the duration.
pub async fn post_render(
    texts: RecordTexts,
    change: &dyn PostRenderer,
    content: ContentSource,
    profile: Profile,
    share: &PoolShare,
) -> Result<RecordTexts, Error> {
    let hooks = texts.hooks.iter().map(|hook| hook.manifest.len());
    let bytes = hooks.fold(texts.manifest.len(), usize::saturating_add);
    let _reserved = share.reserve_objects(bytes).map_err(RenderError::from)?;
    let parse = move || parse_documents(&texts).map(|documents| (texts, documents));
    let parsed = share.run_on_reserved(bytes, parse).await.map_err(RenderError::from)?;
    let (texts, documents) = parsed.map_err(Error::PostRender)?;
    let objects: Vec<Object> =
        documents.iter().flat_map(|document| document.objects.iter().cloned()).collect();
    let changed = change.run(objects, content).await?;
    let assemble = move || assemble(&texts, &documents, changed, profile);
    let assembled = share.run_on_reserved(bytes, assemble).await;
    assembled.map_err(RenderError::from)?.map_err(Error::PostRender)
}

/// Builds the texts from the returned objects.
fn assemble(
    texts: &RecordTexts,
    documents: &[ManifestDocument],
    changed: Vec<Object>,
    profile: Profile,
) -> Result<RecordTexts, String> {
    let mut back = ReturnedObjects::new(changed);
    let mut outcome =
        PostRenderOutput { texts: RecordTexts { manifest: String::new(), hooks: Vec::new() }, profile };
    for ManifestDocument { location: place, objects } in documents {
        let found: Vec<Option<Object>> = objects.iter().map(|object| back.take(object)).collect();
        let same = found.iter().zip(objects).all(|(found, object)| found.as_ref() == Some(object));
        match place {
            DocumentLocation::Hook(at) if same => outcome.texts.hooks.push(texts.hooks[*at].clone()),
            DocumentLocation::Manifest(range) if same => {
                outcome.texts.manifest.push_str(&texts.manifest[range.clone()]);
            }
            // An object that lost its hook annotation becomes a manifest, and one that gained it becomes a hook.
            _ => found.into_iter().flatten().try_for_each(|object| outcome.add(&object))?,
        }
    }
    back.into_unclaimed().iter().try_for_each(|object| outcome.add(object))?;
    Ok(outcome.texts)
}

fn parse_documents(texts: &RecordTexts) -> Result<Vec<ManifestDocument>, String> {
    let parse = |text: &str| Object::parse_all(text).map_err(|error| error.to_string());
    let mut documents = Vec::new();
    let mut begin = 0_usize;
    for text in document::split_documents(&texts.manifest) {
        let end = begin.saturating_add(text.len());
        documents.push(ManifestDocument {
            location: DocumentLocation::Manifest(begin..end),
            objects: parse(text)?,
        });
        begin = end;
    }
    for (at, hook) in texts.hooks.iter().enumerate() {
        let with_source = |object: Object| object.with_source(Some(hook.path.clone()));
        let objects = parse(&hook.manifest)?.into_iter().map(with_source).collect();
        documents.push(ManifestDocument { location: DocumentLocation::Hook(at), objects });
    }
    Ok(documents)
}

impl ReturnedObjects {
    fn new(objects: Vec<Object>) -> Self {
        let mut all: HashMap<_, VecDeque<_>> = HashMap::new();
        for (at, object) in objects.into_iter().enumerate() {
            all.entry(Self::key(&object)).or_default().push_back((at, object));
        }
        Self(all)
    }

    fn key(object: &Object) -> (ObjectId, bool) {
        (object.id(), object.annotation(HOOK_ANNOTATION).is_some())
    }

    fn take(&mut self, object: &Object) -> Option<Object> {
        self.0.get_mut(&Self::key(object))?.pop_front().map(|(_, object)| object)
    }

    /// Objects that no document claimed, in the order returned.
    fn into_unclaimed(self) -> Vec<Object> {
        let mut rest: Vec<_> = self.0.into_values().flatten().collect();
        rest.sort_by_key(|(at, _)| *at);
        rest.into_iter().map(|(_, object)| object).collect()
    }
}

struct PostRenderOutput {
    texts: RecordTexts,
    profile: Profile,
}

impl PostRenderOutput {
    /// Adds a new or changed object as manifest or hook, by its annotations.
    fn add(&mut self, object: &Object) -> Result<(), String> {
        let name = object.source.as_deref().unwrap_or("post-render.yaml").into();
        let content = Bytes::from(document::to_yaml(object).map_err(|why| why.to_string())?);
        let sorted = sort_manifests(&[RenderedFile { name, content }], self.profile)?;
        for manifest in &sorted.manifests {
            document::write_document(
                &mut self.texts.manifest,
                &manifest.source,
                &String::from_utf8_lossy(&manifest.content),
            );
        }
        self.texts.hooks.extend(sorted.hooks.iter().map(HookRecord::from));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::{BoxFuture, ready};
    use serde_json::json;

    use super::*;
    use crate::render::Renderer;

    struct FnPostRenderer<F>(F);

    impl<F: Fn(Vec<Object>) -> Vec<Object> + Send + Sync> PostRenderer for FnPostRenderer<F> {
        fn run(&self, objects: Vec<Object>, _: ContentSource) -> BoxFuture<'_, Result<Vec<Object>, Error>> {
            ready(Ok((self.0)(objects))).boxed()
        }
    }

    const MANIFEST: &str = "---\n# Source: c/templates/a.yaml\n# kept\napiVersion:   v1\nkind: ConfigMap\nmetadata: {name: a}\n\
        ---\n# nothing\n---\n# Source: c/templates/b.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n";

    fn hook() -> HookRecord {
        let manifest = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-install}}\n";
        HookRecord {
            name: "j".into(),
            kind: "Job".into(),
            path: "c/templates/j.yaml".into(),
            manifest: manifest.into(),
            events: vec!["pre-install".into()],
            ..HookRecord::default()
        }
    }

    fn post_rendered(change: impl Fn(Vec<Object>) -> Vec<Object> + Send + Sync) -> (String, Vec<HookRecord>) {
        let texts = RecordTexts { manifest: MANIFEST.to_owned(), hooks: vec![hook()] };
        let (change, share) = (FnPostRenderer(change), Renderer::new().share("shop"));
        let done = post_render(texts, &change, ContentSource::Rendered, Profile::Helm4, &share);
        let RecordTexts { manifest, hooks } = done.now_or_never().unwrap().unwrap();
        (manifest, hooks)
    }

    fn with_label(object: &Object) -> Object {
        let mut value = object.value().clone();
        value["metadata"]["labels"] = json!({"x": "y"});
        object.with_value(value).unwrap()
    }

    #[test]
    fn unchanged_documents_keep_their_bytes() {
        assert_eq!(post_rendered(|objects| objects), (MANIFEST.into(), vec![hook()]));
        let (manifest, hooks) = post_rendered(|objects| {
            objects.iter().map(|o| if o.name() == "b" { with_label(o) } else { o.clone() }).collect()
        });
        let b = "---\n# Source: c/templates/b.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    x: \"y\"\n  \
            name: b\n";
        let until_b = MANIFEST.find("---\n# Source: c/templates/b").unwrap();
        assert_eq!((manifest, hooks), (format!("{}{b}", &MANIFEST[..until_b]), vec![hook()]));
    }

    #[test]
    fn hooks_are_post_rendered_and_objects_added_and_removed() {
        let (manifest, hooks) = post_rendered(|objects| {
            let mut objects: Vec<_> = objects.iter().filter(|o| o.name() != "a").map(with_label).collect();
            let new = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n"}});
            objects.push(Object::from_value(new).unwrap());
            objects
        });
        assert!(!manifest.contains("templates/a.yaml") && manifest.contains("# Source: post-render.yaml\n"));
        let [hook] = &hooks[..] else { panic!("{hooks:?}") };
        assert!(hook.manifest.contains("x: \"y\"") && hook.path == "c/templates/j.yaml");
        assert_eq!((&*hook.name, &hook.events[..]), ("j", &["pre-install".to_owned()][..]));
    }
}
