//! Changes of a requested release: each creates a new version of the request.

use chart_store::{Reader, Source};
use domain::Actor;
use domain::release::State;
use helm_release::Record;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch as Merged, PatchParams, PostParams, Preconditions};
use kube_types::marks::ASKED;
use kube_types::release::{Options, Patch, RoleOverride};
use kube_types::request::{AdministratorGrant, RunAs};
use kube_types::{HelmRequest, HelmRequestSpec};
use serde_json::{Map, Value, json};

use super::ask::said;
use super::force::Forced;
use super::left::{LeftBehind, of_administrator};
use super::now::packed;
use super::view::{ReleaseView, wish};
use super::{Asked, Error, grant, once, run_as, unmoved};
use crate::Releases;
use crate::release::administered::entries_of;
use crate::release::ledger;
use crate::requests::{DELETE_CLAIMS, UNINSTALL_AS_ADMINISTRATOR, gone};

/// Input of an update. Absent fields keep their value.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub source: Option<Source>,
    /// YAML text that replaces all previous values.
    pub values: Option<String>,
    /// Merges `values` into the previous values instead.
    pub merge_values: bool,
    pub options: Option<Options>,
    pub patches: Option<Vec<Patch>>,
    pub roles: Option<Vec<RoleOverride>>,
    pub paused: Option<bool>,
    pub suspend: Option<bool>,
    pub description: Option<String>,
}

impl Changes {
    /// Whether the changes affect the applied content, in which case the release runs as the caller from now on. Pausing, suspending and
    /// retrying do not.
    fn change_content(&self) -> bool {
        let Self {
            source,
            values,
            merge_values: _,
            options,
            patches,
            roles,
            paused: _,
            suspend: _,
            description: _,
        } = self;
        source.is_some() || values.is_some() || options.is_some() || patches.is_some() || roles.is_some()
    }

    /// The fields that the new version would inherit from the last one. With `asAdministrator` there must be none, because another user's
    /// content would be applied with an administrator's rights. Content of a version that was itself created with the option may be
    /// inherited.
    fn inherited(&self, last: &HelmRequestSpec, values: &str) -> Vec<&'static str> {
        let stated = last.as_administrator.as_ref().is_some_and(|grant| grant.version == last.version);
        let fields = [
            ("chart", self.source.is_none()),
            ("values", (self.values.is_none() || self.merge_values) && !values.trim().is_empty()),
            ("options", self.options.is_none() && !last.options.is_default()),
            ("patches", self.patches.is_none() && !last.patches.is_empty()),
            ("roles", self.roles.is_none() && !last.roles.is_empty()),
        ];
        fields.into_iter().filter(|(_, inherited)| !stated && *inherited).map(|(field, _)| field).collect()
    }

    /// Rejects content that the caller of `asAdministrator` does not provide.
    pub(super) fn stated_by_administrator(
        &self,
        last: Option<&HelmRequestSpec>,
        values: &str,
    ) -> Result<(), Error> {
        let inherited = last.map(|last| self.inherited(last, values)).unwrap_or_default();
        if inherited.is_empty() { Ok(()) } else { Err(Error::Unstated(inherited.join(", "))) }
    }
}

impl Releases {
    /// Updates a release.
    pub async fn upgrade(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        changes: Changes,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let request = self.request_for(actor, "update", namespace, name).await?;
        self.changed(actor, request, changes, "update", asked).await
    }

    async fn changed(
        &self,
        actor: &Actor,
        mut request: HelmRequest,
        changes: Changes,
        act: &str,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let mark = asked.key.map(|key| once::mark(actor, act, key));
        if once::was_done(&request, mark.as_ref()) {
            return Ok(ReleaseView::of_request(&request));
        }
        unmoved(&request, asked.seen)?;
        once::remember(&mut request, mark);
        let before = self.values_text(request.spec.values_ref.as_ref()).await?;
        let grant = if asked.as_administrator {
            let grant = grant(actor, request.spec.version.saturating_add(1))?;
            changes.stated_by_administrator(Some(&request.spec), &before)?;
            Some(grant)
        } else {
            None
        };
        if changes.change_content() {
            request.spec.run_as = run_as(actor)?;
        }
        let values = changes.values_over(before)?;
        let Changes {
            source,
            values: _,
            merge_values: _,
            options,
            patches,
            roles,
            paused,
            suspend,
            description,
        } = changes;
        if let Some(source) = source {
            let reader = Reader::Workspace(request.spec.workspace.clone());
            let chart = self.parts().charts.get(&source, &reader).await?;
            request.spec.source = said(&source, &chart);
            request.spec.chart = chart.resolved;
        }
        let spec = &mut request.spec;
        set(&mut spec.options, options);
        set(&mut spec.patches, patches);
        set(&mut spec.roles, roles);
        set(&mut spec.paused, paused);
        set(&mut spec.suspend, suspend);
        set(&mut spec.description, description);
        spec.rollback_of = None;
        self.next_version(request, grant, &values).await
    }

    /// Rolls back to a Helm revision: chart, values, options, patches and role overrides.
    ///
    /// A revision whose digest is in the ledger is restored from the request version that the ledger names. Labels and annotations of a
    /// record are ignored: tenants can write them, and Helm copies labels to later revisions. From any other record only the chart and
    /// the values are taken, and the release runs as the namespace's deployer.
    ///
    /// With `asAdministrator` the revision must have been created with that option: the content of any other may come from another user.
    pub async fn rollback(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: i64,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let mut request = self.request_for(actor, "update", namespace, name).await?;
        let mark = asked.key.map(|key| once::mark(actor, "rollback", key));
        if once::was_done(&request, mark.as_ref()) {
            return Ok(ReleaseView::of_request(&request));
        }
        unmoved(&request, asked.seen)?;
        once::remember(&mut request, mark);
        let unknown = || Error::NoRevision(name.to_owned(), revision);
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let record = storage.get(name, revision).await?.ok_or_else(unknown)?.record;
        let release = self.parts().releases.get_in(namespace, name);
        let entry = release.as_deref().and_then(|release| ledger::entry(release, &record));
        let grant = if asked.as_administrator {
            let grant = grant(actor, request.spec.version.saturating_add(1))?;
            if !entry.is_some_and(|entry| entry.as_administrator) {
                return Err(Error::NotAdministrators(name.to_owned(), revision));
            }
            Some(grant)
        } else {
            None
        };
        let version = entry.map(|entry| entry.version).filter(|version| *version > 0);
        let kept = match version {
            Some(version) => self.kept_version(&request.name_any(), version).await?,
            None => None,
        };
        let Some((values, kept)) = kept else {
            // The record does not prove who provided its values.
            if grant.is_some() {
                return Err(Error::NotAdministrators(name.to_owned(), revision));
            }
            return self.rollback_to_record(request, &record).await;
        };
        let text = self.values_text(Some(&values)).await?;
        let spec = &mut request.spec;
        (spec.source, spec.chart, spec.options) = (kept.source, kept.chart, kept.options);
        set(&mut spec.patches, kept.patches);
        set(&mut spec.roles, kept.roles);
        spec.rollback_of = version;
        spec.run_as = run_as(actor)?;
        self.next_version(request, grant, &text).await
    }

    /// Restores chart and values from a record that is not in the ledger, or whose version was not saved. Helm records contain no patches
    /// and no role overrides.
    async fn rollback_to_record(
        &self,
        mut request: HelmRequest,
        record: &Record,
    ) -> Result<ReleaseView, Error> {
        let (source, values) = packed(record)?;
        let reader = Reader::Workspace(request.spec.workspace.clone());
        let chart = self.parts().charts.get(&source, &reader).await?;
        let spec = &mut request.spec;
        spec.source = said(&source, &chart);
        spec.chart = chart.resolved;
        (spec.patches, spec.roles) = (Vec::new(), Vec::new());
        spec.rollback_of = None;
        spec.run_as = RunAs::default();
        self.next_version(request, None, &values).await
    }

    /// Scales all workloads of a release to zero. Its data and addresses stay.
    pub async fn pause(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = Changes { paused: Some(true), ..Changes::default() };
        self.turn(actor, (namespace, name), "pause", (|spec| spec.paused, changes), asked).await
    }

    /// Restores the replicas of a paused release.
    pub async fn recover(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = Changes { paused: Some(false), ..Changes::default() };
        self.turn(actor, (namespace, name), "recover", (|spec| !spec.paused, changes), asked).await
    }

    /// Sets one flag of a release unless it is set already.
    async fn turn(
        &self,
        actor: &Actor,
        (namespace, name): (&str, &str),
        act: &str,
        (is_so, changes): (fn(&HelmRequestSpec) -> bool, Changes),
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let request = self.request_for(actor, "update", namespace, name).await?;
        if is_so(&request.spec) {
            return Ok(ReleaseView::of_request(&request));
        }
        let asked = Asked { as_administrator: false, ..asked };
        self.changed(actor, request, changes, act, asked).await
    }

    /// Stops reconciling a release, including changes of its request, until it is resumed.
    pub async fn suspend(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = Changes { suspend: Some(true), ..Changes::default() };
        self.turn(actor, (namespace, name), "suspend", (|spec| spec.suspend, changes), asked).await
    }

    /// Resumes reconciling a suspended release.
    pub async fn resume(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = Changes { suspend: Some(false), ..Changes::default() };
        self.turn(actor, (namespace, name), "resume", (|spec| !spec.suspend, changes), asked).await
    }

    /// Retries a failed release: the same spec as a new version, with the same identity.
    pub async fn retry(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        asked: Asked<'_>,
    ) -> Result<ReleaseView, Error> {
        let request = self.request_for(actor, "update", namespace, name).await?;
        let mark = asked.key.map(|key| once::mark(actor, "retry", key));
        let state = match self.parts().releases.get_in(namespace, name) {
            Some(release) => release.status.as_ref().map(|status| status.state.clone()),
            None => request.status.as_ref().map(|status| status.state.clone()),
        };
        let failed = state.as_deref() == Some(State::Failed.as_str());
        // The idempotency key is checked first: a repeated call finds the release running already.
        if !failed && !once::was_done(&request, mark.as_ref()) {
            return Err(Error::NotFailed(name.to_owned()));
        }
        let asked = Asked { as_administrator: false, ..asked };
        self.changed(actor, request, Changes::default(), "retry", asked).await
    }

    /// Deletes a release: the controller uninstalls it and removes its request. The result lists objects of an administrator that stay.
    pub async fn delete(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        options: DeleteOptions<'_>,
    ) -> Result<Forced, Error> {
        let request = self.request_for(actor, "delete", namespace, name).await?;
        unmoved(&request, options.seen)?;
        let marks = options.marks(actor, &request)?;
        let left = self.left_to_administrators(namespace, name, options);
        self.delete_request(&request, marks).await?;
        Ok(Forced {
            release: ReleaseView::leaving(&request),
            left: Some(left).filter(|left| !left.is_empty()),
        })
    }

    /// The objects of an administrator that a deletion with these options leaves behind.
    pub(super) fn left_to_administrators(
        &self,
        namespace: &str,
        name: &str,
        options: DeleteOptions<'_>,
    ) -> Vec<LeftBehind> {
        let release = self.parts().releases.get_in(namespace, name).filter(|_| !options.as_administrator);
        release.iter().flat_map(|release| entries_of(release)).map(of_administrator).collect()
    }

    /// Sets the annotations of the deletion options on exactly this request (by UID), then deletes it. A request that is being deleted is
    /// only annotated.
    pub(super) async fn delete_request(
        &self,
        request: &HelmRequest,
        marks: Map<String, Value>,
    ) -> Result<(), Error> {
        let (id, uid) = (request.name_any(), request.uid());
        if !marks.is_empty() {
            let patch = json!({ "metadata": { "uid": uid, "annotations": marks } });
            self.requests().patch(&id, &PatchParams::default(), &Merged::Merge(patch)).await?;
        }
        if request.metadata.deletion_timestamp.is_none() {
            let this_one = Preconditions { uid, resource_version: None };
            let params = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
            gone(self.requests().delete(&id, &params).await.map(drop))?;
        }
        Ok(())
    }

    /// Saves a changed request as its next version, with an administrator's grant for only that version.
    async fn next_version(
        &self,
        mut request: HelmRequest,
        grant: Option<AdministratorGrant>,
        values: &str,
    ) -> Result<ReleaseView, Error> {
        let name = request.name_any();
        request.spec.version = request.spec.version.saturating_add(1);
        // Replaces the grant of the last version.
        request.spec.as_administrator = grant;
        let kept = self.keep_version(&name, &request.spec, values).await?;
        request.spec.values_ref = Some(kept.clone());
        match self.write_wish(&request).await {
            Ok(written) => {
                if let Err(error) = self.prune_versions(&written).await {
                    tracing::warn!(%error, "cannot forget old versions of a request");
                }
                Ok(ReleaseView::of_request(&written))
            }
            Err(error) => {
                self.drop_version(&kept).await;
                Err(error)
            }
        }
    }

    /// Replaces the spec and the idempotency key of a request. Concurrent changes of status and metadata (e.g. a forced deletion, or the
    /// deletion of claims) are preserved; a concurrent change of the spec is a conflict.
    pub(super) async fn write_wish(&self, request: &HelmRequest) -> Result<HelmRequest, Error> {
        let (api, name) = (self.requests(), request.name_any());
        let mut next = request.clone();
        for _ in 0..ATTEMPTS {
            match api.replace(&name, &PostParams::default(), &next).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                done => return Ok(done?),
            }
            next = api.get(&name).await?;
            if wish(&next) != wish(request) {
                break;
            }
            next.spec = request.spec.clone();
            once::remember(&mut next, request.annotations().get(ASKED).cloned());
        }
        Err(Error::Changed(request.spec.release_name.clone()))
    }
}

/// Options of a deletion.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeleteOptions<'a> {
    /// Also deletes the claims of StatefulSets.
    pub claims: bool,
    /// Also deletes the objects of an administrator, with the caller's rights as an administrator of the platform.
    pub as_administrator: bool,
    /// The `v` of the release that the caller saw, if any, as a precondition.
    pub seen: Option<&'a str>,
}

impl DeleteOptions<'_> {
    /// The annotations that carry the options to the controller. Removes an administrator's grant of an earlier deletion that did not
    /// start.
    pub(super) fn marks(self, actor: &Actor, request: &HelmRequest) -> Result<Map<String, Value>, Error> {
        let mut marks = Map::new();
        if self.claims {
            marks.extend([mark(DELETE_CLAIMS, "true")]);
        }
        let begun = request.metadata.deletion_timestamp.is_some();
        if self.as_administrator {
            let AdministratorGrant { user, uid, .. } = grant(actor, request.spec.version)?;
            marks.extend([mark(UNINSTALL_AS_ADMINISTRATOR, &format!("{user}/{uid}"))]);
        } else if !begun && request.annotations().contains_key(UNINSTALL_AS_ADMINISTRATOR) {
            marks.insert(UNINSTALL_AS_ADMINISTRATOR.to_owned(), Value::Null);
        }
        Ok(marks)
    }
}

/// An annotation for a merge patch.
pub(super) fn mark(name: &str, value: &str) -> (String, Value) {
    (name.to_owned(), value.into())
}

/// Limit on conflict retries, because the status changes often.
const ATTEMPTS: usize = 10;

pub(crate) fn set<T>(field: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *field = new;
    }
}
