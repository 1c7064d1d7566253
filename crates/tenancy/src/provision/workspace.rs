//! Brings a workspace nearer to what its spec asks for.
//!
//! It leaves in the status: which namespaces are its own, by UID, how many members there are, and the conditions
//! `NamespacesReady`, `AccessReady`, `Ready`.
//! Elsewhere: what is in a namespace ([`super::namespace`]), how a workspace goes ([`super::removal`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube_access::queue::Next;
use kube_types::marks::{REMOVE_AFTER, WORKSPACE_FINALIZER};
use kube_types::progress::{Finding, enter};
use kube_types::workspace::{OwnedNamespace, conditions};
use kube_types::{FIELD_MANAGER, Workspace, WorkspaceStatus};

use super::namespace::{self, Marks, Standing, standing};
use super::pieces::{Piece, PieceKind, Print};
use super::{Doing, HOST, NOT_YET, ProvisionError, Provisioner, until};
use crate::quota::{self, Amounts};

/// Whether a workspace is one that people work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// To be removed at that moment, where it can be read; until then it can be brought back, and nobody has a role in it.
    Closed(Option<Timestamp>),
    Over,
}

pub(super) fn life(workspace: &Workspace, now: Timestamp) -> Life {
    match workspace.annotations().get(REMOVE_AFTER).map(|text| text.parse::<Timestamp>()) {
        None => Life::Open,
        Some(Ok(after)) if after <= now => Life::Over,
        Some(after) => Life::Closed(after.ok()),
    }
}

/// What became of one namespace.
#[derive(Debug)]
enum Outcome {
    Ready {
        uid: String,
    },
    /// On its way out; made anew when it is gone.
    Leaving {
        uid: String,
    },
    /// The recorded one is gone: forgotten first, made anew afterwards.
    Gone,
    Taken,
    /// No name that a namespace of this workspace can have.
    NotOwn,
    /// Nothing is made without a quota that can be shared out.
    Unshared,
    Failed {
        uid: Option<String>,
        error: ProvisionError,
    },
}

impl Provisioner {
    pub(super) async fn sync_workspace(&self, name: &str) -> Result<Next, ProvisionError> {
        let Some(workspace) = self.workspaces.get(name) else { return Ok(Next::Rest) };
        if workspace.metadata.deletion_timestamp.is_some() {
            return self.remove_workspace(&workspace).await;
        }
        let now = self.clock.now();
        let life = life(&workspace, now);
        if life == Life::Over {
            self.begin_removal(&workspace).await?;
            return Ok(Next::Rest);
        }
        let workspace = self.hold_workspace(&workspace).await?;
        let shares = quota::shares(&workspace.spec.quota, &workspace.spec.namespaces);
        let closed = life != Life::Open;
        let outcomes = join_all(workspace.spec.namespaces.iter().map(|wanted| {
            let hard =
                shares.as_ref().ok().map(|shares| shares.get(&wanted.name).cloned().unwrap_or_default());
            self.provision(&workspace, &wanted.name, hard, closed)
        }))
        .await;
        let names = workspace.spec.namespaces.iter().map(|wanted| wanted.name.clone());
        let outcomes: Vec<(String, Outcome)> = names.zip(outcomes).collect();
        let leaving = self.let_go(&workspace).await?;
        let done = Done { outcomes, leaving, unshared: shares.err().map(|error| error.to_string()), life };
        self.tell_workspace(&workspace, &done, now).await?;
        let failed = done.outcomes.into_iter().find_map(|(_, outcome)| match outcome {
            Outcome::Failed { error, .. } => Some(error),
            _ => None,
        });
        match (failed, done.life) {
            (Some(error), _) => Err(error),
            (None, Life::Closed(Some(after))) => Ok(Next::After(until(now, after))),
            (None, _) => Ok(Next::Rest),
        }
    }

    /// Nothing is made before the finalizer is there: it is what removes it again.
    async fn hold_workspace(&self, workspace: &Workspace) -> Result<Workspace, ProvisionError> {
        if workspace.finalizers().iter().any(|finalizer| finalizer == WORKSPACE_FINALIZER) {
            return Ok(workspace.clone());
        }
        let mut finalizers = workspace.finalizers().to_vec();
        finalizers.push(WORKSPACE_FINALIZER.to_owned());
        let patch = serde_json::json!({
            "metadata": { "resourceVersion": workspace.resource_version(), "finalizers": finalizers },
        });
        let name = workspace.name_any();
        self.api::<Workspace>()
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .doing(|| format!("hold workspace `{name}`"))
    }

    async fn provision(
        &self,
        workspace: &Workspace,
        name: &str,
        hard: Option<Amounts>,
        closed: bool,
    ) -> Outcome {
        if !namespace::may_be_called(&workspace.name_any(), name) {
            return Outcome::NotOwn;
        }
        let recorded = recorded(workspace, name);
        let uid = match self.stand(workspace, name, hard.is_some()).await {
            Ok(Standing::Ours(uid)) => uid,
            Ok(Standing::Leaving(uid)) => return Outcome::Leaving { uid },
            Ok(Standing::Taken) => return Outcome::Taken,
            Ok(Standing::Absent) if recorded.is_some() => return Outcome::Gone,
            Ok(Standing::Absent) => return Outcome::Unshared,
            Err(error) => {
                return Outcome::Failed { uid: recorded.map(|recorded| recorded.uid.clone()), error };
            }
        };
        let wanted = namespace::pieces(workspace, name, hard.as_ref().unwrap_or(&Amounts::new()), closed);
        let repairs = repairs(self.seen.inside(name), wanted, hard.is_some());
        let (bindings, first): (Vec<_>, Vec<_>) =
            repairs.into_iter().partition(|repair| repair.kind() == PieceKind::RoleBinding);
        // Nobody gets into a new namespace before its limits are there. In an old one they are, whatever ails, and who
        // is no longer a member must not stay one.
        let limited = self.repair_all(name, first).await;
        let bound = match (&limited, recorded) {
            (Err(_), None) => Ok(()),
            _ => self.repair_all(name, bindings).await,
        };
        match limited.and(bound) {
            Ok(()) => Outcome::Ready { uid },
            Err(error) => Outcome::Failed { uid: Some(uid), error },
        }
    }

    /// Looks whose the namespace is, makes it where there is none and `make` says so, and puts its labels right.
    async fn stand(&self, workspace: &Workspace, name: &str, make: bool) -> Result<Standing, ProvisionError> {
        let recorded = recorded(workspace, name);
        let known = self.seen.namespace(name);
        let wanted = namespace::namespace(workspace, name);
        match standing(workspace, recorded, known.as_ref()) {
            Standing::Ours(uid) => {
                if let Some(found) = known
                    && !found.is_labelled_as(&wanted)
                {
                    self.label(wanted, &uid).await?;
                }
                Ok(Standing::Ours(uid))
            }
            Standing::Leaving(uid) => Ok(Standing::Leaving(uid)),
            // What was heard may be old, and what is not labelled is not heard of at all.
            Standing::Taken => self.look(workspace, name).await,
            Standing::Absent if recorded.is_some() || !make => self.look(workspace, name).await,
            Standing::Absent => match self.api::<Namespace>().create(&PostParams::default(), &wanted).await {
                Ok(made) => Ok(standing(workspace, None, Some(&Marks::of(&made)))),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    self.look(workspace, name).await
                }
                Err(error) => Err(error).doing(|| format!("make namespace `{name}`")),
            },
        }
    }

    /// Whose the namespace is, asked of the cluster itself.
    pub(super) async fn look(&self, workspace: &Workspace, name: &str) -> Result<Standing, ProvisionError> {
        let found =
            self.api::<Namespace>().get_opt(name).await.doing(|| format!("look at namespace `{name}`"))?;
        Ok(standing(workspace, recorded(workspace, name), found.as_ref().map(Marks::of).as_ref()))
    }

    async fn label(&self, mut wanted: Namespace, uid: &str) -> Result<(), ProvisionError> {
        let name = wanted.name_any();
        // Another namespace under this name is not labelled.
        wanted.metadata.uid = Some(uid.to_owned());
        self.api::<Namespace>()
            .patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&wanted))
            .await
            .doing(|| format!("label namespace `{name}`"))?;
        Ok(())
    }

    /// Removes the namespaces that the spec no longer names; answers those that are still there.
    async fn let_go(&self, workspace: &Workspace) -> Result<Vec<OwnedNamespace>, ProvisionError> {
        let wanted: BTreeSet<&str> =
            workspace.spec.namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
        let names = self.known_namespaces(workspace);
        let surplus = names.iter().filter(|name| !wanted.contains(name.as_str()));
        let left = try_join_all(surplus.map(|name| self.remove_namespace(workspace, name))).await?;
        Ok(left.into_iter().flatten().collect())
    }

    /// The names of all namespaces that are or might be this workspace's.
    pub(super) fn known_namespaces(&self, workspace: &Workspace) -> BTreeSet<String> {
        let records = workspace.status.iter().flat_map(|status| &status.namespaces);
        let labelled = self.seen.labelled(&workspace.name_any());
        labelled.into_iter().chain(records.map(|record| record.name.clone())).collect()
    }

    async fn repair_all(&self, namespace: &str, repairs: Vec<Repair>) -> Result<(), ProvisionError> {
        try_join_all(repairs.into_iter().map(|repair| self.repair(namespace, repair))).await?;
        Ok(())
    }

    async fn repair(&self, namespace: &str, repair: Repair) -> Result<(), ProvisionError> {
        match repair {
            Repair::Apply(piece) => self.apply(Some(namespace), &piece).await,
            Repair::Delete(kind, name) => self.delete(Some(namespace), kind, &name).await,
        }
    }

    /// Writes the status, where it is another, and tells of it.
    async fn tell_workspace(
        &self,
        workspace: &Workspace,
        done: &Done,
        now: Timestamp,
    ) -> Result<(), ProvisionError> {
        if workspace.status.as_ref() == Some(&status(workspace, done, now)) {
            return Ok(());
        }
        let name = workspace.name_any();
        let doing = || format!("write the status of workspace `{name}`");
        let told = Workspace { status: Some(status(workspace, done, now)), ..workspace.clone() };
        let told = self
            .api::<Workspace>()
            .replace_status(&name, &PostParams::default(), &told)
            .await
            .doing(doing)?;
        let conditions = |workspace: &Workspace| workspace.status.clone().unwrap_or_default().conditions;
        self.announce(&told, &conditions(workspace), &conditions(&told)).await;
        Ok(())
    }
}

/// What a pass did.
struct Done {
    outcomes: Vec<(String, Outcome)>,
    /// Namespaces that the spec no longer names, and that are still there.
    leaving: Vec<OwnedNamespace>,
    /// Why the quota cannot be shared out.
    unshared: Option<String>,
    life: Life,
}

fn recorded<'a>(workspace: &'a Workspace, name: &str) -> Option<&'a OwnedNamespace> {
    let mut records = workspace.status.iter().flat_map(|status| &status.namespaces);
    records.find(|record| record.name == name && record.cluster == HOST)
}

/// One thing to be done in a namespace.
enum Repair {
    Apply(Piece),
    Delete(PieceKind, Arc<str>),
}

impl Repair {
    fn kind(&self) -> PieceKind {
        match self {
            Self::Apply(piece) => piece.kind,
            Self::Delete(kind, _) => *kind,
        }
    }
}

/// What makes the wanted pieces of those that were seen. Where the quota is not known, the old one stays.
fn repairs(
    mut seen: BTreeMap<(PieceKind, Arc<str>), Print>,
    wanted: Vec<Piece>,
    quota_too: bool,
) -> Vec<Repair> {
    let mut repairs = Vec::new();
    for piece in wanted {
        if seen.remove(&(piece.kind, piece.name().into())) != Some(piece.print()) {
            repairs.push(Repair::Apply(piece));
        }
    }
    let surplus = seen.into_keys().filter(|(kind, _)| quota_too || *kind != PieceKind::ResourceQuota);
    repairs.extend(surplus.map(|(kind, name)| Repair::Delete(kind, name)));
    repairs
}

/// The status that follows from what was done.
fn status(workspace: &Workspace, done: &Done, now: Timestamp) -> WorkspaceStatus {
    let mut status = workspace.status.clone().unwrap_or_default();
    let record = |(name, outcome): &(String, Outcome)| match outcome {
        Outcome::Ready { uid } | Outcome::Leaving { uid } | Outcome::Failed { uid: Some(uid), .. } => {
            Some(OwnedNamespace { name: name.clone(), uid: uid.clone(), cluster: HOST.to_owned() })
        }
        // What was recorded stays so, that another namespace in its place is never taken for ours.
        Outcome::Taken => recorded(workspace, name).cloned(),
        Outcome::Gone | Outcome::NotOwn | Outcome::Unshared | Outcome::Failed { uid: None, .. } => None,
    };
    status.namespaces = done.outcomes.iter().filter_map(record).chain(done.leaving.iter().cloned()).collect();
    status.members = i64::try_from(workspace.spec.members.len()).unwrap_or(i64::MAX);
    status.observed_generation = workspace.metadata.generation;
    let findings = findings(workspace, done);
    let WorkspaceStatus { conditions, sequence, transitions, .. } = &mut status;
    enter(conditions, sequence, transitions, &findings, workspace.metadata.generation, now);
    status
}

fn findings(workspace: &Workspace, Done { outcomes, unshared, life, .. }: &Done) -> [Finding; 3] {
    let elsewhere = workspace.spec.clusters.iter().find(|cluster| *cluster != HOST);
    let trouble = outcomes.iter().find_map(|(name, outcome)| match outcome {
        Outcome::Ready { .. } => None,
        Outcome::Taken => Some((
            "NamespaceTaken",
            format!("there is a namespace `{name}` already, which is not this workspace's; it is left alone"),
        )),
        Outcome::NotOwn => Some(("NotOwnName", format!("`{name}` does not begin with the workspace's name"))),
        Outcome::Leaving { .. } => {
            Some(("NamespaceLeaving", format!("namespace `{name}` is being deleted; it will be made anew")))
        }
        Outcome::Gone => {
            Some(("NamespaceGone", format!("namespace `{name}` was deleted; it is being made anew")))
        }
        Outcome::Unshared => {
            Some(("QuotaInvalid", format!("namespace `{name}` is not made without a quota")))
        }
        Outcome::Failed { error, .. } => Some(("ProvisioningFailed", error.to_string())),
    });
    let trouble = unshared.clone().map(|error| ("QuotaInvalid", error)).or(trouble);
    let trouble = trouble
        .or_else(|| elsewhere.map(|cluster| ("ClusterUnknown", format!("there is no cluster `{cluster}`"))));
    let (made, reason, message) = match trouble {
        Some((reason, message)) => (false, reason, message),
        None => (true, "Provisioned", "all namespaces are there".to_owned()),
    };
    let (bound, why, text) = match life {
        Life::Open if outcomes.iter().all(|(_, outcome)| matches!(outcome, Outcome::Ready { .. })) => {
            (true, "Bound", "members have their roles".to_owned())
        }
        Life::Open => (false, NOT_YET, "not all namespaces are there".to_owned()),
        Life::Closed(Some(after)) => {
            (false, "Removing", format!("will be removed after {after}; until then it can be restored"))
        }
        Life::Closed(None) | Life::Over => {
            (false, "Removing", "is to be removed, at a time that cannot be read".to_owned())
        }
    };
    let (ready_reason, ready_message) = match (made, bound) {
        (true, true) => ("Ready", "the workspace can be used".to_owned()),
        (true, false) => (why, text.clone()),
        (false, _) => (reason, message.clone()),
    };
    [
        Finding { kind: conditions::NAMESPACES_READY, holds: made, reason, message },
        Finding { kind: conditions::ACCESS_READY, holds: bound, reason: why, message: text },
        Finding {
            kind: conditions::READY,
            holds: made && bound,
            reason: ready_reason,
            message: ready_message,
        },
    ]
}
