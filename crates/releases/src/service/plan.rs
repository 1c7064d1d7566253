//! Plans: the effect of a change before it is made. Nothing is written, and sensitive values are masked.

use chart_store::{ChartReader, ChartSource};
use domain::actor::Impersonation;
use domain::roles::Capability;
use domain::{Actor, ErrorKind};
use helm_chart::values;
use helm_release::actions::{ActionOptions, DryRun};
use helm_release::{Record, Status};
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use kube_apply::capacity::{self, CapacityError, ObjectChanges, Shortage};
use kube_apply::{Object, Target};
use kube_types::{HelmReleaseSpec, HelmRequest};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

use super::diff::{DifferenceView, diff_manifests};
use super::get::{record_mask, record_objects};
use super::update::ReleaseUpdate;
use super::{Error, run_as};
use crate::Releases;
use crate::charts::ReleaseChart;
use crate::helm_options::{self, DeployInputs, HelmAction};
use crate::helm_records;
use crate::release::DEFAULT_TIMEOUT;
use crate::release::administrator_objects;
use crate::release::identity::ReleaseIdentity;
use crate::release::ledger::ReadOnlyLedger;
use crate::release::post_render_hook::{ObjectAdmission, ReleasePostRenderer};
use crate::tenant_directory::flow_for_workspace;
use crate::values::{MergedValues, SensitiveValues};

/// Preview of an installation or upgrade.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Kind of operation: install or upgrade.
    pub act: &'static str,
    /// Helm revision that the operation would create.
    pub revision: i64,
    /// Objects that would be written.
    pub objects: Vec<Value>,
    pub notes: String,
    /// Differences from the deployed revision.
    pub differences: Vec<DifferenceView>,
    /// All differences as one unified diff.
    pub text: String,
    /// Amounts that currently exceed quotas or the capacity of nodes.
    pub shortages: Vec<ShortageView>,
    /// Checks that were not possible, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlooked: Vec<String>,
}

/// Amount that exceeds a quota or the capacity of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Shortage")]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ShortageView {
    /// A quota of the namespace would be exceeded. The operation would be refused.
    Quota {
        namespace: String,
        quota: String,
        resource: String,
        needed: String,
        left: String,
        message: String,
    },
    /// New pods of a workload that do not fit onto any node. They would stay pending until a node has capacity.
    Nodes { object: String, pods: u64, of: u64, message: String },
}

impl Releases {
    /// Plans an update or an installation, with a server-side dry run. `as_administrator` plans with the rights of a platform
    /// administrator for objects that the release may not have.
    pub async fn plan(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        changes: ReleaseUpdate,
        as_administrator: bool,
    ) -> Result<Plan, Error> {
        let workspace = self.authorized_workspace(actor, Capability::ChangeReleases, namespace)?;
        self.check_access(actor, "create", namespace, name).await?;
        let acts_as = actor.workspace_impersonation(Capability::ChangeReleases, &workspace)?;
        let administrator = if as_administrator {
            Some(Impersonation::administrator(actor.require_administrator()?))
        } else {
            None
        };
        let identity = ReleaseIdentity {
            administrator,
            ..ReleaseIdentity::for_caller(acts_as, run_as(actor)?.user, namespace)
        };
        let request = self.current_request(namespace, name).await?;
        let release = self.inner().releases.get_namespaced(namespace, name);
        if request.is_none() && release.is_some() {
            return Err(Error::NotManagedByRequest(name.to_owned()));
        }
        let text = match &request {
            Some(request) => self.load_values(request.spec.values_ref.as_ref()).await?,
            None => String::new(),
        };
        if as_administrator {
            changes.check_administrator_content(request.as_ref().map(|request| &request.spec), &text)?;
        }
        let text = changes.apply_values(text)?;
        let values = values::read(text.as_bytes(), Profile::Helm4).map_err(|_| invalid_values())?;
        let reader = ChartReader::Workspace(workspace.to_string());
        let chart = self.planned_chart(&changes, request.as_ref(), &reader).await?;
        let storage = self.inner().helm_factory.storage(&self.inner().clients, namespace);
        let entries = storage.entries(name).await?;
        let statuses: Vec<Status> = entries.iter().map(|entry| entry.meta.status).collect();
        let action = HelmAction::from_release_action(helm_records::history_state(&statuses, true).action());
        // An installation starts from scratch: the objects of a failed one are removed first.
        let before = match entries.last().filter(|_| action == HelmAction::Upgrade) {
            Some(last) => Some(storage.load(last).await?.record),
            None => None,
        };
        let spec = planned_spec(request.as_ref(), changes);
        let clients = &self.inner().clients;
        let ledger = ReadOnlyLedger { release: release.clone(), by: identity.by.clone() };
        let reserved = administrator_objects::reserved_objects(clients, &identity, release.as_deref());
        let mut helm =
            self.inner().helm_factory.helm_for_identity(clients, &identity, reserved, Arc::new(ledger));
        helm.flow = Some(flow_for_workspace(&*self.inner().tenants, &workspace).into());
        let admission = ObjectAdmission {
            namespace,
            identity: &identity,
            reserved: &helm.reserved,
            tenants: &*self.inner().tenants,
            discovery: &helm.discovery,
            clients,
        };
        let change = ReleasePostRenderer { spec: &spec, admission, renderer: &helm.renderer };
        let run = ActionOptions {
            dry_run: DryRun::Server,
            ..helm_options::action_options(&spec, DEFAULT_TIMEOUT, &change)
        };
        let target = helm.target(namespace);
        let (planned, given) = (chart.prepared, Arc::new(values));
        let inputs = DeployInputs {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            chart: planned.clone(),
            values: given.clone(),
            labels: std::collections::BTreeMap::new(),
        };
        let after = helm_options::deploy(&helm, action, inputs, &spec, run).await?;
        let gathered = MergedValues {
            values: Members::clone(&given),
            from_secrets: std::collections::BTreeSet::new(),
            hash: String::new(),
        };
        let bytes = after.bytes().saturating_add(before.as_ref().map_or(0, Record::bytes));
        let (place, default) = (target.clone(), namespace.to_owned());
        let diffed = self.run_on_pool(namespace, bytes, move || {
            let new = record_objects(&after)?;
            let mask = SensitiveValues::from_chart(planned.chart(), &gathered, &new);
            let mut old = before.as_ref().map(record_objects).transpose()?.unwrap_or_default();
            if place.reserved.client().is_none() {
                // Skipped objects are neither in the new state nor removed.
                old.retain(|object| !place.reserved.contains(&place.id(object), &default));
            }
            let former = match &before {
                Some(before) => record_mask(before, release.as_deref())?,
                None => SensitiveValues::from_objects(&[]),
            };
            Ok((masked_plan(action, (&old, &new), &after, &[former, mask]), old, new))
        });
        let (mut plan, old, new) = diffed.await?;
        (plan.shortages, plan.unlooked) = self.shortages(&target, &old, &new).await;
        Ok(plan)
    }

    /// The missing capacity, and what could not be checked. Quotas and objects are read as the caller. Callers may not read nodes; they
    /// only learn how many pods fit on none.
    async fn shortages(
        &self,
        target: &Target,
        before: &[Object],
        after: &[Object],
    ) -> (Vec<ShortageView>, Vec<String>) {
        let object_changes = match ObjectChanges::read(target, before, after).await {
            Ok(turns) => turns,
            Err(error) => return (Vec::new(), vec![unchecked_message("live objects", &error)]),
        };
        let own = self.inner().clients.platform();
        let nodes = async {
            if object_changes.adds_pods() {
                capacity::NodeHeadroom::read(&own).await.map(Some)
            } else {
                Ok(None)
            }
        };
        let (nodes, quotas) = futures::join!(nodes, capacity::quotas(target, after));
        let mut unchecked = Vec::new();
        let nodes = nodes.unwrap_or_else(|error| {
            // The error of the platform's own call is not for the caller.
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot check the capacity of nodes");
            unchecked.push("nodes: cannot be read now".to_owned());
            None
        });
        let count = nodes.as_ref().map_or(0, capacity::NodeHeadroom::count);
        let mut short = match quotas {
            Ok(quotas) => object_changes.shortages_of_quotas(&quotas, count),
            Err(error) => {
                unchecked.push(unchecked_message("quotas", &error));
                Vec::new()
            }
        };
        short.extend(nodes.map(|nodes| nodes.shortages(&object_changes)).unwrap_or_default());
        (short.into_iter().map(ShortageView::from).collect(), unchecked)
    }

    async fn planned_chart(
        &self,
        changes: &ReleaseUpdate,
        request: Option<&HelmRequest>,
        reader: &ChartReader,
    ) -> Result<ReleaseChart, Error> {
        match (&changes.source, request) {
            (Some(source), _) => Ok(self.inner().charts.get(source, reader).await?),
            (None, Some(request)) => {
                let source = ChartSource::Package(request.spec.chart.package.clone());
                let reader = ChartReader::PlatformFor(request.spec.workspace.clone());
                Ok(self.inner().charts.get(&source, &reader).await?)
            }
            (None, None) => Err(Error::Invalid("a new release requires a `chart`".to_owned())),
        }
    }
}

impl ReleaseUpdate {
    /// The values after the change.
    pub(super) fn apply_values(&self, before: String) -> Result<String, Error> {
        let Some(said) = &self.values else { return Ok(before) };
        super::install::check_values_map(said)?;
        if !self.merge_values {
            return Ok(said.clone());
        }
        let layer = |name: &str, text: &str| values::ValuesSource::File {
            name: name.into(),
            text: text.to_owned().into(),
        };
        let layers = [layer("before", &before), layer("now", said)];
        let no_files = &mut |_: &str| Err("values cannot refer to files".into());
        // The error could reveal values.
        let merged = values::user_values(&layers, Profile::Helm4, no_files).map_err(|_| invalid_values())?;
        helm_template::yaml::write(&Data::Map(merged)).map_err(|_| invalid_values())
    }
}

fn invalid_values() -> Error {
    Error::Invalid("the values must be a YAML map".to_owned())
}

/// The parts of a spec that post-rendering needs, after the change.
fn planned_spec(request: Option<&HelmRequest>, changes: ReleaseUpdate) -> HelmReleaseSpec {
    let known = request.map(crate::requests::release_spec::build_spec).unwrap_or_default();
    HelmReleaseSpec {
        options: changes.options.unwrap_or(known.options),
        patches: changes.patches.unwrap_or(known.patches),
        roles: changes.roles.unwrap_or(known.roles),
        paused: changes.paused.unwrap_or(known.paused),
        ..HelmReleaseSpec::default()
    }
}

/// Builds the plan. `masks` cover `old` and `after`.
fn masked_plan(
    action: HelmAction,
    (old, new): (&[Object], &[Object]),
    after: &Record,
    masks: &[SensitiveValues; 2],
) -> Plan {
    let (differences, text) = diff_manifests(old, new, masks);
    Plan {
        act: action.as_str(),
        revision: after.version,
        objects: new.iter().map(|object| masks[1].mask(object.value())).collect(),
        notes: masks[1].mask_text(&after.info.notes),
        differences,
        text,
        shortages: Vec::new(),
        unlooked: Vec::new(),
    }
}

fn unchecked_message(what: &str, error: &CapacityError) -> String {
    match error.kind() {
        ErrorKind::Forbidden => format!("{what}: you may not read them"),
        _ => format!("{what}: cannot be read now"),
    }
}

impl From<Shortage> for ShortageView {
    fn from(shortage: Shortage) -> Self {
        let message = shortage.to_string();
        match shortage {
            Shortage::Quota { namespace, quota, resource, needed, left } => {
                let (needed, left) = (needed.to_string(), left.to_string());
                Self::Quota { namespace, quota, resource, needed, left, message }
            }
            Shortage::Nodes { id, pods, total: of } => {
                Self::Nodes { object: id.to_string(), pods, of, message }
            }
        }
    }
}
