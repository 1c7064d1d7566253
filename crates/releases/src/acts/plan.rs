//! Plans: the effect of a change before it is made. Nothing is written, and sensitive values are masked.

use chart_store::{Reader, Source};
use domain::actor::Impersonation;
use domain::roles::Capability;
use domain::{Actor, Kind};
use helm_chart::values;
use helm_release::actions::{DryRun, Run};
use helm_release::{Record, Status};
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use kube_apply::fit::{self, FitError, Shortage, Turns};
use kube_apply::{Object, Target};
use kube_types::{HelmReleaseSpec, HelmRequest};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

use super::change::Changes;
use super::compare::{DifferenceView, manifests};
use super::look::{objects, sensitive};
use super::{Error, run_as};
use crate::Releases;
use crate::charts::Chart;
use crate::helm_options::{self, Action, Inputs};
use crate::people::flow_of;
use crate::records;
use crate::release::TIMEOUT;
use crate::release::administered;
use crate::release::change::{Admission, Change};
use crate::release::identity::Identity;
use crate::release::ledger::ReadOnlyLedger;
use crate::values::{Gathered, Sensitive};

/// What would be.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// install or upgrade.
    pub act: &'static str,
    /// Helm's, that it would have.
    pub revision: i64,
    /// As they would be written.
    pub objects: Vec<Value>,
    pub notes: String,
    /// From what is deployed now.
    pub differences: Vec<DifferenceView>,
    /// All of it as one unified difference.
    pub text: String,
    /// What there would be no room for, as things stand.
    pub shortages: Vec<ShortageView>,
    /// What could not be looked at, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlooked: Vec<String>,
}

/// Something that would not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Shortage")]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ShortageView {
    /// The namespace may not hold that much. Nothing is installed then.
    Quota {
        namespace: String,
        quota: String,
        resource: String,
        needed: String,
        left: String,
        message: String,
    },
    /// So many of the new pods of a workload would find no node. They wait until there is one.
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
        changes: Changes,
        as_administrator: bool,
    ) -> Result<Plan, Error> {
        let workspace = self.workspace(actor, Capability::ChangeReleases, namespace)?;
        self.allowed(actor, "create", namespace, name).await?;
        let acts_as = actor.impersonation_in(Capability::ChangeReleases, &workspace)?;
        let administrator =
            if as_administrator { Some(Impersonation::administrator(actor.administrator()?)) } else { None };
        let identity =
            Identity { administrator, ..Identity::of_caller(acts_as, run_as(actor)?.user, namespace) };
        let request = self.living_request(namespace, name).await?;
        let release = self.parts().releases.get_in(namespace, name);
        if request.is_none() && release.is_some() {
            return Err(Error::ByHand(name.to_owned()));
        }
        let text = match &request {
            Some(request) => self.values_text(request.spec.values_ref.as_ref()).await?,
            None => String::new(),
        };
        if as_administrator {
            changes.stated_by_administrator(request.as_ref().map(|request| &request.spec), &text)?;
        }
        let text = changes.values_over(text)?;
        let values = values::read(text.as_bytes(), Profile::Helm4).map_err(|_| not_a_map())?;
        let reader = Reader::Workspace(workspace.to_string());
        let chart = self.planned_chart(&changes, request.as_ref(), &reader).await?;
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let entries = storage.entries(name).await?;
        let statuses: Vec<Status> = entries.iter().map(|entry| entry.head.status).collect();
        let action = Action::of(records::standing(&statuses, true).step());
        // An installation starts from scratch: the objects of a failed one are removed first.
        let before = match entries.last().filter(|_| action == Action::Upgrade) {
            Some(last) => Some(storage.open(last).await?.record),
            None => None,
        };
        let spec = spec(request.as_ref(), changes);
        let clients = &self.parts().clients;
        let ledger = ReadOnlyLedger { release: release.clone(), by: identity.by.clone() };
        let reserved = administered::reserved(clients, &identity, release.as_deref());
        let mut helm = self.parts().helms.acting_for(clients, &identity, reserved, Arc::new(ledger));
        helm.flow = Some(flow_of(&*self.parts().people, &workspace).into());
        let admission = Admission {
            namespace,
            identity: &identity,
            reserved: &helm.reserved,
            people: &*self.parts().people,
            discovery: &helm.discovery,
            clients,
        };
        let change = Change { spec: &spec, admission, renderer: &helm.renderer };
        let run = Run { dry_run: DryRun::Server, ..helm_options::run(&spec, TIMEOUT, &change) };
        let target = helm.target(namespace);
        let (planned, given) = (chart.ready, Arc::new(values));
        let inputs = Inputs {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            chart: planned.clone(),
            values: given.clone(),
            labels: std::collections::BTreeMap::new(),
        };
        let after = helm_options::deploy(&helm, action, inputs, &spec, run).await?;
        let gathered = Gathered {
            values: Members::clone(&given),
            from_secrets: std::collections::BTreeSet::new(),
            hash: String::new(),
        };
        let bytes = after.bytes().saturating_add(before.as_ref().map_or(0, Record::bytes));
        let (place, default) = (target.clone(), namespace.to_owned());
        let judged = self.examine(namespace, bytes, move || {
            let new = objects(&after)?;
            let mask = Sensitive::of(planned.chart(), &gathered, &new);
            let mut old = before.as_ref().map(objects).transpose()?.unwrap_or_default();
            if place.reserved.client().is_none() {
                // Skipped objects are neither in the new state nor removed.
                old.retain(|object| !place.reserved.contains(&place.id(object), &default));
            }
            let former = match &before {
                Some(before) => sensitive(before, release.as_deref())?,
                None => Sensitive::of_objects(&[]),
            };
            Ok((told(action, (&old, &new), &after, &[former, mask]), old, new))
        });
        let (mut plan, old, new) = judged.await?;
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
        let turns = match Turns::read(target, before, after).await {
            Ok(turns) => turns,
            Err(error) => return (Vec::new(), vec![unlooked("what is there", &error)]),
        };
        let own = self.parts().clients.own();
        let nodes =
            async { if turns.bring_pods() { fit::Nodes::read(&own).await.map(Some) } else { Ok(None) } };
        let (nodes, quotas) = futures::join!(nodes, fit::quotas(target, after));
        let mut words = Vec::new();
        let nodes = nodes.unwrap_or_else(|error| {
            // The error of the platform's own call is not for the caller.
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for room on the nodes");
            words.push("the nodes, which cannot be read now".to_owned());
            None
        });
        let count = nodes.as_ref().map_or(0, fit::Nodes::count);
        let mut short = match quotas {
            Ok(quotas) => turns.short_of_quota(&quotas, count),
            Err(error) => {
                words.push(unlooked("the quotas", &error));
                Vec::new()
            }
        };
        short.extend(nodes.map(|nodes| nodes.short(&turns)).unwrap_or_default());
        (short.into_iter().map(ShortageView::from).collect(), words)
    }

    async fn planned_chart(
        &self,
        changes: &Changes,
        request: Option<&HelmRequest>,
        reader: &Reader,
    ) -> Result<Chart, Error> {
        match (&changes.source, request) {
            (Some(source), _) => Ok(self.parts().charts.get(source, reader).await?),
            (None, Some(request)) => {
                let source = Source::Package(request.spec.chart.package.clone());
                let reader = Reader::PlatformFor(request.spec.workspace.clone());
                Ok(self.parts().charts.get(&source, &reader).await?)
            }
            (None, None) => Err(Error::Invalid("a new release needs a `chart`".to_owned())),
        }
    }
}

impl Changes {
    /// The values after the change.
    pub(super) fn values_over(&self, before: String) -> Result<String, Error> {
        let Some(said) = &self.values else { return Ok(before) };
        super::ask::is_map(said)?;
        if !self.merge_values {
            return Ok(said.clone());
        }
        let layer =
            |name: &str, text: &str| values::Source::File { name: name.into(), text: text.to_owned().into() };
        let layers = [layer("before", &before), layer("now", said)];
        let no_files = &mut |_: &str| Err("values name no files".into());
        // The error could reveal values.
        let merged = values::user_values(&layers, Profile::Helm4, no_files).map_err(|_| not_a_map())?;
        helm_template::yaml::write(&Data::Map(merged)).map_err(|_| not_a_map())
    }
}

fn not_a_map() -> Error {
    Error::Invalid("the values are no map of YAML".to_owned())
}

/// The parts of a spec that post-rendering needs, after the change.
fn spec(request: Option<&HelmRequest>, changes: Changes) -> HelmReleaseSpec {
    let known = request.map(crate::requests::wanted::spec).unwrap_or_default();
    HelmReleaseSpec {
        options: changes.options.unwrap_or(known.options),
        patches: changes.patches.unwrap_or(known.patches),
        roles: changes.roles.unwrap_or(known.roles),
        paused: changes.paused.unwrap_or(known.paused),
        ..HelmReleaseSpec::default()
    }
}

/// Builds the plan. `masks` cover `old` and `after`.
fn told(action: Action, (old, new): (&[Object], &[Object]), after: &Record, masks: &[Sensitive; 2]) -> Plan {
    let (differences, text) = manifests(old, new, masks);
    Plan {
        act: action.name(),
        revision: after.version,
        objects: new.iter().map(|object| masks[1].mask(object.value())).collect(),
        notes: masks[1].mask_text(&after.info.notes),
        differences,
        text,
        shortages: Vec::new(),
        unlooked: Vec::new(),
    }
}

fn unlooked(what: &str, error: &FitError) -> String {
    match error.kind() {
        Kind::Forbidden => format!("{what}, which you may not read"),
        _ => format!("{what}, which cannot be read now"),
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
            Shortage::Nodes { id, pods, of } => Self::Nodes { object: id.to_string(), pods, of, message },
        }
    }
}
