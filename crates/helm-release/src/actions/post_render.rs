//! What others change in a rendering before it is written.
//!
//! They see objects, manifests and hooks alike, and not text. A document whose objects come back as they were stays as it was
//! to the byte; only what was changed is written anew.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use helm_engine::{Rendered, sort};
use helm_template::profile::Profile;
use kube_apply::{Id, Object};

use super::ask::{Content, PostRender};
use super::document;
use crate::error::Error;
use crate::record::HookRecord;

/// A document, the objects in it, and what it is beside.
struct Document<'t> {
    text: &'t str,
    hook: Option<&'t HookRecord>,
    objects: Vec<Object>,
}

/// The objects that came back, by what they are.
struct Back(HashMap<(Id, bool), VecDeque<(usize, Object)>>);

const HOOK: &str = "helm.sh/hook";

/// The manifest and the hooks as `change` leaves them.
pub async fn post_render(
    manifest: &str,
    hooks: &[HookRecord],
    change: &dyn PostRender,
    content: Content,
    profile: Profile,
) -> Result<(String, Vec<HookRecord>), Error> {
    let documents = documents(manifest, hooks).map_err(Error::PostRender)?;
    let objects: Vec<Object> =
        documents.iter().flat_map(|document| document.objects.iter().cloned()).collect();
    let mut back = Back::new(change.change(objects, content).await?);

    let mut outcome = Outcome { manifest: String::new(), hooks: Vec::new(), profile };
    for document in &documents {
        let found: Vec<Option<Object>> = document.objects.iter().map(|object| back.take(object)).collect();
        let same = found.iter().zip(&document.objects).all(|(found, object)| found.as_ref() == Some(object));
        match document.hook {
            Some(hook) if same => outcome.hooks.push(hook.clone()),
            None if same => outcome.manifest.push_str(document.text),
            // A hook that is not known by its annotation any more is a manifest, and the other way round.
            _ => found
                .into_iter()
                .flatten()
                .try_for_each(|object| outcome.add(&object))
                .map_err(Error::PostRender)?,
        }
    }
    back.rest().iter().try_for_each(|object| outcome.add(object)).map_err(Error::PostRender)?;
    Ok((outcome.manifest, outcome.hooks))
}

fn documents<'t>(manifest: &'t str, hooks: &'t [HookRecord]) -> Result<Vec<Document<'t>>, String> {
    let parse = |text: &str| Object::parse_all(text).map_err(|error| error.to_string());
    let mut documents = Vec::new();
    for text in document::cut(manifest) {
        documents.push(Document { text, hook: None, objects: parse(text)? });
    }
    for hook in hooks {
        let with_source = |object: Object| object.with_source(Some(hook.path.clone()));
        let objects = parse(&hook.manifest)?.into_iter().map(with_source).collect();
        documents.push(Document { text: &hook.manifest, hook: Some(hook), objects });
    }
    Ok(documents)
}

impl Back {
    fn new(objects: Vec<Object>) -> Self {
        let mut all: HashMap<_, VecDeque<_>> = HashMap::new();
        for (at, object) in objects.into_iter().enumerate() {
            all.entry(Self::key(&object)).or_default().push_back((at, object));
        }
        Self(all)
    }

    fn key(object: &Object) -> (Id, bool) {
        (object.id(), object.annotation(HOOK).is_some())
    }

    fn take(&mut self, object: &Object) -> Option<Object> {
        self.0.get_mut(&Self::key(object))?.pop_front().map(|(_, object)| object)
    }

    /// What nobody asked for, in the order in which it came back.
    fn rest(self) -> Vec<Object> {
        let mut rest: Vec<_> = self.0.into_values().flatten().collect();
        rest.sort_by_key(|(at, _)| *at);
        rest.into_iter().map(|(_, object)| object).collect()
    }
}

struct Outcome {
    manifest: String,
    hooks: Vec<HookRecord>,
    profile: Profile,
}

impl Outcome {
    /// Adds an object that is new or was changed, as whatever it says it is.
    fn add(&mut self, object: &Object) -> Result<(), String> {
        let name = object.source.as_deref().unwrap_or("post-render.yaml").into();
        let content = Bytes::from(document::yaml(object).map_err(|why| why.to_string())?);
        let sorted = sort(&[Rendered { name, content }], self.profile)?;
        for manifest in &sorted.manifests {
            document::write(
                &mut self.manifest,
                &manifest.source,
                &String::from_utf8_lossy(&manifest.content),
            );
        }
        self.hooks.extend(sorted.hooks.iter().map(HookRecord::from));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::{BoxFuture, ready};
    use serde_json::json;

    use super::*;

    struct With<F>(F);

    impl<F: Fn(Vec<Object>) -> Vec<Object> + Send + Sync> PostRender for With<F> {
        fn change(&self, objects: Vec<Object>, _: Content) -> BoxFuture<'_, Result<Vec<Object>, Error>> {
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

    fn changed(change: impl Fn(Vec<Object>) -> Vec<Object> + Send + Sync) -> (String, Vec<HookRecord>) {
        let (hooks, change) = ([hook()], With(change));
        let done = post_render(MANIFEST, &hooks, &change, Content::Rendered, Profile::Helm4);
        done.now_or_never().unwrap().unwrap()
    }

    fn labelled(object: &Object) -> Object {
        let mut value = object.value().clone();
        value["metadata"]["labels"] = json!({"x": "y"});
        object.with_value(value).unwrap()
    }

    #[test]
    fn what_is_not_changed_stays_to_the_byte() {
        assert_eq!(changed(|objects| objects), (MANIFEST.into(), vec![hook()]));
        let (manifest, hooks) = changed(|objects| {
            objects.iter().map(|o| if o.name() == "b" { labelled(o) } else { o.clone() }).collect()
        });
        let b = "---\n# Source: c/templates/b.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    x: \"y\"\n  \
            name: b\n";
        let until_b = MANIFEST.find("---\n# Source: c/templates/b").unwrap();
        assert_eq!((manifest, hooks), (format!("{}{b}", &MANIFEST[..until_b]), vec![hook()]));
    }

    #[test]
    fn hooks_are_changed_too_and_objects_come_and_go() {
        let (manifest, hooks) = changed(|objects| {
            let mut objects: Vec<_> = objects.iter().filter(|o| o.name() != "a").map(labelled).collect();
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
