//! Changes of a requested release: each creates a new version of the request.

use chart_store::{ChartReader, ChartSource};
use domain::Actor;
use domain::release::ReleaseState;
use helm_release::Record;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch as Merged, PatchParams, PostParams, Preconditions};
use kube_types::release::{ManifestPatch, ReleaseOptions, RoleOverride};
use kube_types::request::{AdministratorGrant, RunAs};
use kube_types::well_known::IDEMPOTENCY_DIGEST;
use kube_types::{HelmRequest, HelmRequestSpec};
use serde_json::{Map, Value, json};

use super::force_delete::ForceDeleteResult;
use super::immediate_actions::chart_and_values;
use super::install::recorded_source;
use super::orphans::{OrphanedObject, administrator_orphan};
use super::view::{ReleaseView, etag};
use super::{Error, RequestPreconditions, administrator_grant, check_if_match, idempotency, run_as};
use crate::Releases;
use crate::release::administrator_objects::administered_entries;
use crate::release::ledger;
use crate::requests::{DELETE_CLAIMS_ANNOTATION, UNINSTALL_AS_ADMINISTRATOR_ANNOTATION, ignore_not_found};

/// Input of an update. Absent fields keep their value.
#[derive(Clone, Debug, Default)]
pub struct ReleaseUpdate {
    pub source: Option<ChartSource>,
    /// YAML text that replaces all previous values.
    pub values: Option<String>,
    /// Merges `values` into the previous values instead.
    pub merge_values: bool,
    pub options: Option<ReleaseOptions>,
    pub patches: Option<Vec<ManifestPatch>>,
    pub roles: Option<Vec<RoleOverride>>,
    pub paused: Option<bool>,
    pub suspend: Option<bool>,
    pub description: Option<String>,
}

impl ReleaseUpdate {
    /// Whether the changes affect the applied content, in which case the release runs as the caller from now on. Pausing, suspending and
    /// retrying do not.
    fn changes_content(&self) -> bool {
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
    fn inherited_fields(&self, last: &HelmRequestSpec, values: &str) -> Vec<&'static str> {
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
    pub(super) fn check_administrator_content(
        &self,
        last: Option<&HelmRequestSpec>,
        values: &str,
    ) -> Result<(), Error> {
        let inherited = last.map(|last| self.inherited_fields(last, values)).unwrap_or_default();
        if inherited.is_empty() { Ok(()) } else { Err(Error::InheritedContent(inherited.join(", "))) }
    }
}

impl Releases {
    /// Updates a release.
    pub async fn upgrade(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        changes: ReleaseUpdate,
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let request = self.writable_request(actor, "update", namespace, name).await?;
        self.update_request(actor, request, changes, "update", preconditions).await
    }

    async fn update_request(
        &self,
        actor: &Actor,
        mut request: HelmRequest,
        changes: ReleaseUpdate,
        act: &str,
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let mark = preconditions.idempotency_key.map(|key| idempotency::idempotency_hash(actor, act, key));
        if idempotency::is_replay(&request, mark.as_ref()) {
            return Ok(ReleaseView::from_request(&request));
        }
        check_if_match(&request, preconditions.if_match)?;
        idempotency::set_idempotency_hash(&mut request, mark);
        let before = self.load_values(request.spec.values_ref.as_ref()).await?;
        let grant = if preconditions.as_administrator {
            let grant = administrator_grant(actor, request.spec.version.saturating_add(1))?;
            changes.check_administrator_content(Some(&request.spec), &before)?;
            Some(grant)
        } else {
            None
        };
        if changes.changes_content() {
            request.spec.run_as = run_as(actor)?;
        }
        let values = changes.apply_values(before)?;
        let ReleaseUpdate {
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
            let reader = ChartReader::Workspace(request.spec.workspace.clone());
            let chart = self.inner().charts.get(&source, &reader).await?;
            request.spec.source = recorded_source(&source, &chart);
            request.spec.chart = chart.resolved;
        }
        let spec = &mut request.spec;
        set_if_some(&mut spec.options, options);
        set_if_some(&mut spec.patches, patches);
        set_if_some(&mut spec.roles, roles);
        set_if_some(&mut spec.paused, paused);
        set_if_some(&mut spec.suspend, suspend);
        set_if_some(&mut spec.description, description);
        spec.rollback_of = None;
        self.save_as_next_version(request, grant, &values).await
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
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let mut request = self.writable_request(actor, "update", namespace, name).await?;
        let mark =
            preconditions.idempotency_key.map(|key| idempotency::idempotency_hash(actor, "rollback", key));
        if idempotency::is_replay(&request, mark.as_ref()) {
            return Ok(ReleaseView::from_request(&request));
        }
        check_if_match(&request, preconditions.if_match)?;
        idempotency::set_idempotency_hash(&mut request, mark);
        let no_revision = || Error::RevisionNotFound(name.to_owned(), revision);
        let storage = self.inner().helm_factory.storage(&self.inner().clients, namespace);
        let record = storage.get(name, revision).await?.ok_or_else(no_revision)?.record;
        let release = self.inner().releases.get_namespaced(namespace, name);
        let entry = release.as_deref().and_then(|release| ledger::find_entry(release, &record));
        let grant = if preconditions.as_administrator {
            let grant = administrator_grant(actor, request.spec.version.saturating_add(1))?;
            if !entry.is_some_and(|entry| entry.as_administrator) {
                return Err(Error::NotAdministratorRevision(name.to_owned(), revision));
            }
            Some(grant)
        } else {
            None
        };
        let version = entry.map(|entry| entry.version).filter(|version| *version > 0);
        let version_snapshot = match version {
            Some(version) => self.load_version(&request.name_any(), version).await?,
            None => None,
        };
        let Some((values, kept)) = version_snapshot else {
            // The record does not prove who provided its values.
            if grant.is_some() {
                return Err(Error::NotAdministratorRevision(name.to_owned(), revision));
            }
            return self.rollback_to_record(request, &record).await;
        };
        let text = self.load_values(Some(&values)).await?;
        let spec = &mut request.spec;
        (spec.source, spec.chart, spec.options) = (kept.source, kept.chart, kept.options);
        set_if_some(&mut spec.patches, kept.patches);
        set_if_some(&mut spec.roles, kept.roles);
        spec.rollback_of = version;
        spec.run_as = run_as(actor)?;
        self.save_as_next_version(request, grant, &text).await
    }

    /// Restores chart and values from a record that is not in the ledger, or whose version was not saved. Helm records contain no patches
    /// and no role overrides.
    async fn rollback_to_record(
        &self,
        mut request: HelmRequest,
        record: &Record,
    ) -> Result<ReleaseView, Error> {
        let (source, values) = chart_and_values(record)?;
        let reader = ChartReader::Workspace(request.spec.workspace.clone());
        let chart = self.inner().charts.get(&source, &reader).await?;
        let spec = &mut request.spec;
        spec.source = recorded_source(&source, &chart);
        spec.chart = chart.resolved;
        (spec.patches, spec.roles) = (Vec::new(), Vec::new());
        spec.rollback_of = None;
        spec.run_as = RunAs::default();
        self.save_as_next_version(request, None, &values).await
    }

    /// Scales all workloads of a release to zero. Its data and addresses stay.
    pub async fn pause(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = ReleaseUpdate { paused: Some(true), ..ReleaseUpdate::default() };
        self.set_flag(actor, (namespace, name), "pause", (|spec| spec.paused, changes), preconditions).await
    }

    /// Restores the replicas of a paused release.
    pub async fn recover(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = ReleaseUpdate { paused: Some(false), ..ReleaseUpdate::default() };
        self.set_flag(actor, (namespace, name), "recover", (|spec| !spec.paused, changes), preconditions)
            .await
    }

    /// Sets one flag of a release unless it is set already.
    async fn set_flag(
        &self,
        actor: &Actor,
        (namespace, name): (&str, &str),
        act: &str,
        (is_so, changes): (fn(&HelmRequestSpec) -> bool, ReleaseUpdate),
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let request = self.writable_request(actor, "update", namespace, name).await?;
        if is_so(&request.spec) {
            return Ok(ReleaseView::from_request(&request));
        }
        let preconditions = RequestPreconditions { as_administrator: false, ..preconditions };
        self.update_request(actor, request, changes, act, preconditions).await
    }

    /// Stops reconciling a release, including changes of its request, until it is resumed.
    pub async fn suspend(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = ReleaseUpdate { suspend: Some(true), ..ReleaseUpdate::default() };
        self.set_flag(actor, (namespace, name), "suspend", (|spec| spec.suspend, changes), preconditions)
            .await
    }

    /// Resumes reconciling a suspended release.
    pub async fn resume(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let changes = ReleaseUpdate { suspend: Some(false), ..ReleaseUpdate::default() };
        self.set_flag(actor, (namespace, name), "resume", (|spec| !spec.suspend, changes), preconditions)
            .await
    }

    /// Retries a failed release: the same spec as a new version, with the same identity.
    pub async fn retry(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        preconditions: RequestPreconditions<'_>,
    ) -> Result<ReleaseView, Error> {
        let request = self.writable_request(actor, "update", namespace, name).await?;
        let mark =
            preconditions.idempotency_key.map(|key| idempotency::idempotency_hash(actor, "retry", key));
        let state = match self.inner().releases.get_namespaced(namespace, name) {
            Some(release) => release.status.as_ref().map(|status| status.state.clone()),
            None => request.status.as_ref().map(|status| status.state.clone()),
        };
        let failed = state.as_deref() == Some(ReleaseState::Failed.as_str());
        // The idempotency key is checked first: a repeated call finds the release running already.
        if !failed && !idempotency::is_replay(&request, mark.as_ref()) {
            return Err(Error::NotFailed(name.to_owned()));
        }
        let preconditions = RequestPreconditions { as_administrator: false, ..preconditions };
        self.update_request(actor, request, ReleaseUpdate::default(), "retry", preconditions).await
    }

    /// Deletes a release: the controller uninstalls it and removes its request. The result lists objects of an administrator that stay.
    pub async fn delete(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        options: DeleteOptions<'_>,
    ) -> Result<ForceDeleteResult, Error> {
        let request = self.writable_request(actor, "delete", namespace, name).await?;
        check_if_match(&request, options.if_match)?;
        let marks = options.annotations(actor, &request)?;
        let left = self.administrator_orphans(namespace, name, options);
        self.delete_request(&request, marks).await?;
        Ok(ForceDeleteResult {
            release: ReleaseView::from_deleted_request(&request),
            orphans: Some(left).filter(|left| !left.is_empty()),
        })
    }

    /// The objects of an administrator that a deletion with these options leaves behind.
    pub(super) fn administrator_orphans(
        &self,
        namespace: &str,
        name: &str,
        options: DeleteOptions<'_>,
    ) -> Vec<OrphanedObject> {
        let release =
            self.inner().releases.get_namespaced(namespace, name).filter(|_| !options.as_administrator);
        release.iter().flat_map(|release| administered_entries(release)).map(administrator_orphan).collect()
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
            self.request_api().patch(&id, &PatchParams::default(), &Merged::Merge(patch)).await?;
        }
        if request.metadata.deletion_timestamp.is_none() {
            let uid_precondition = Preconditions { uid, resource_version: None };
            let params = DeleteParams { preconditions: Some(uid_precondition), ..DeleteParams::default() };
            ignore_not_found(self.request_api().delete(&id, &params).await.map(drop))?;
        }
        Ok(())
    }

    /// Saves a changed request as its next version, with an administrator's grant for only that version.
    async fn save_as_next_version(
        &self,
        mut request: HelmRequest,
        grant: Option<AdministratorGrant>,
        values: &str,
    ) -> Result<ReleaseView, Error> {
        let name = request.name_any();
        request.spec.version = request.spec.version.saturating_add(1);
        // Replaces the grant of the last version.
        request.spec.as_administrator = grant;
        let kept = self.save_version(&name, &request.spec, values).await?;
        request.spec.values_ref = Some(kept.clone());
        match self.replace_request(&request).await {
            Ok(written) => {
                if let Err(error) = self.prune_versions(&written).await {
                    tracing::warn!(%error, "cannot delete old versions of a request");
                }
                Ok(ReleaseView::from_request(&written))
            }
            Err(error) => {
                self.delete_version(&kept).await;
                Err(error)
            }
        }
    }

    /// Replaces the spec and the idempotency key of a request. Concurrent changes of status and metadata (e.g. a forced deletion, or the
    /// deletion of claims) are preserved; a concurrent change of the spec is a conflict.
    pub(super) async fn replace_request(&self, request: &HelmRequest) -> Result<HelmRequest, Error> {
        let (api, name) = (self.request_api(), request.name_any());
        let mut next = request.clone();
        for _ in 0..MAX_CONFLICT_RETRIES {
            match api.replace(&name, &PostParams::default(), &next).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                done => return Ok(done?),
            }
            next = api.get(&name).await?;
            if etag(&next) != etag(request) {
                break;
            }
            next.spec = request.spec.clone();
            idempotency::set_idempotency_hash(
                &mut next,
                request.annotations().get(IDEMPOTENCY_DIGEST).cloned(),
            );
        }
        Err(Error::Conflict(request.spec.release_name.clone()))
    }
}

/// Options of a deletion.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeleteOptions<'a> {
    /// Also deletes the claims of StatefulSets.
    pub delete_claims: bool,
    /// Also deletes the objects of an administrator, with the caller's rights as an administrator of the platform.
    pub as_administrator: bool,
    /// The `v` of the release that the caller saw, if any, as a precondition.
    pub if_match: Option<&'a str>,
}

impl DeleteOptions<'_> {
    /// The annotations that carry the options to the controller. Removes an administrator's grant of an earlier deletion that did not
    /// start.
    pub(super) fn annotations(
        self,
        actor: &Actor,
        request: &HelmRequest,
    ) -> Result<Map<String, Value>, Error> {
        let mut marks = Map::new();
        if self.delete_claims {
            marks.extend([annotation(DELETE_CLAIMS_ANNOTATION, "true")]);
        }
        let is_deleting = request.metadata.deletion_timestamp.is_some();
        if self.as_administrator {
            let AdministratorGrant { user, uid, .. } = administrator_grant(actor, request.spec.version)?;
            marks.extend([annotation(UNINSTALL_AS_ADMINISTRATOR_ANNOTATION, &format!("{user}/{uid}"))]);
        } else if !is_deleting && request.annotations().contains_key(UNINSTALL_AS_ADMINISTRATOR_ANNOTATION) {
            marks.insert(UNINSTALL_AS_ADMINISTRATOR_ANNOTATION.to_owned(), Value::Null);
        }
        Ok(marks)
    }
}

/// An annotation for a merge patch.
pub(super) fn annotation(name: &str, value: &str) -> (String, Value) {
    (name.to_owned(), value.into())
}

/// Limit on conflict retries, because the status changes often.
const MAX_CONFLICT_RETRIES: usize = 10;

pub(crate) fn set_if_some<T>(field: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *field = new;
    }
}
