//! Workspaces and their namespaces: create, read, update, delete.

use std::collections::BTreeMap;

use domain::Actor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::workspaces::{Reissue, WorkspaceInfo};

use crate::actions::{Action, actions};
use crate::answer::{Answer, List};
use crate::call::Call;
use crate::problem::Problem;
use crate::routes::{ROOT, WORKSPACE};
use crate::sent::{Sent, Text};

pub type Amounts = BTreeMap<String, String>;

/// Quantities by resource name, as sent by a client.
pub type SentAmounts = BTreeMap<Text<128>, Text<64>>;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Workspace")]
pub struct WorkspaceView {
    name: String,
    display_name: String,
    /// Goes with its owner's account, and is not shared.
    personal: bool,
    /// What the one who asks is in it; absent for an administrator of the platform who is no member.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    members: usize,
    invitations: usize,
    /// The first is the workspace's own.
    namespaces: Vec<NamespaceView>,
    quota: Amounts,
    clusters: Vec<String>,
    ready: bool,
    /// What is still missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// When it will be removed; until then it can be brought back.
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_after: Option<String>,
    /// It is being removed.
    leaving: bool,
    created: String,
    /// The version, for `If-Match`.
    v: String,
    actions: Vec<Action>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkspaceNamespace")]
pub struct NamespaceView {
    name: String,
    /// It is there.
    made: bool,
    /// Its share of the workspace's quota; what is not shared out is the first namespace's.
    share: Amounts,
}

impl WorkspaceView {
    fn of(actor: &Actor, info: WorkspaceInfo) -> Self {
        let mut blocked = Vec::new();
        if info.personal {
            blocked.extend([("workspaces.delete", "personal"), ("invitations.create", "personal")]);
        }
        if info.removal.is_none() {
            blocked.push(("workspaces.restore", "not-removed"));
        }
        let actions = actions(actor, WORKSPACE, &[info.name.as_str()], &blocked);
        let namespace = |namespace: tenancy::workspaces::NamespaceInfo| NamespaceView {
            name: namespace.name,
            made: namespace.made,
            share: namespace.share,
        };
        Self {
            name: info.name.to_string(),
            display_name: info.display_name,
            personal: info.personal,
            role: info.role.map(domain::roles::WorkspaceRole::as_str),
            members: info.members,
            invitations: info.invitations,
            namespaces: info.namespaces.into_iter().map(namespace).collect(),
            quota: info.quota,
            clusters: info.clusters,
            ready: info.ready,
            message: info.message,
            remove_after: info.removal.map(|time| time.to_string()),
            leaving: info.leaving,
            created: info.created.to_string(),
            v: info.version,
            actions,
        }
    }
}

/// One workspace, with its version as `ETag`.
pub fn answer(actor: &Actor, info: WorkspaceInfo) -> Answer<WorkspaceView> {
    let version = info.version.clone();
    Answer::new(WorkspaceView::of(actor, info)).version(&version)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewWorkspace {
    name: Text<63>,
    #[serde(default)]
    display_name: Text<128>,
    /// Use a retired name of another owner, with all that is still granted to it. Only for administrators of the platform.
    #[serde(default)]
    reissue: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ChangedWorkspace {
    display_name: Text<128>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNamespace {
    /// Comes after the workspace's name and a dash.
    name: Text<63>,
    /// Its share of the workspace's quota.
    #[serde(default)]
    share: SentAmounts,
    /// Use a retired name of another owner, with all that is still granted to it. Only for administrators of the platform.
    #[serde(default)]
    reissue: bool,
}

fn reissue(confirmed: bool) -> Reissue {
    if confirmed { Reissue::Confirmed } else { Reissue::Refused }
}

pub fn plain(amounts: &SentAmounts) -> Amounts {
    amounts.iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect()
}

/// `GET workspaces`
pub async fn list(call: Call) -> Result<Answer<List<WorkspaceView>>, Problem> {
    let actor = call.actor()?;
    let workspaces = call.api.tenancy.workspaces(actor);
    Ok(call.list(workspaces.into_iter().map(|info| WorkspaceView::of(actor, info)).collect()))
}

/// `POST workspaces`
pub async fn create(call: Call<Sent<NewWorkspace>>) -> Result<Answer<WorkspaceView>, Problem> {
    let Sent(NewWorkspace { name, display_name, reissue: confirmed }) = &call.body;
    let actor = call.actor()?;
    let tenancy = &call.api.tenancy;
    let made = tenancy.create_workspace_as(actor, name, display_name, reissue(*confirmed)).await?;
    let name = made.name.clone();
    // The caller has become the workspace's admin; its role is read again.
    let actor = call.api.as_now(actor);
    Ok(answer(&actor, made).at(&format!("{ROOT}/workspaces/{name}")).about(&name))
}

/// `GET workspaces/{workspace}`
pub async fn show(call: Call) -> Result<Answer<WorkspaceView>, Problem> {
    let actor = call.actor()?;
    Ok(answer(actor, call.api.tenancy.workspace(actor, &call.params.workspace()?)?))
}

/// `PATCH workspaces/{workspace}`
pub async fn change(call: Call<Sent<ChangedWorkspace>>) -> Result<Answer<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let display = &call.body.0.display_name;
    let changed = call.api.tenancy.rename_workspace(actor, &name, display, call.expected.as_deref()).await?;
    Ok(answer(actor, changed))
}

/// `DELETE workspaces/{workspace}`: after a retention period, or immediately with `now`.
pub async fn delete(call: Call) -> Result<Answer<WorkspaceView>, Problem> {
    let (actor, name, now) = (call.actor()?, call.params.workspace()?, call.asks("now")?);
    let gone = call.api.tenancy.delete_workspace(actor, &name, now, call.expected.as_deref()).await?;
    Ok(answer(actor, gone))
}

/// `POST workspaces/{workspace}/restore`
pub async fn restore(call: Call) -> Result<Answer<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let back = call.api.tenancy.restore_workspace(actor, &name, call.expected.as_deref()).await?;
    Ok(answer(actor, back))
}

/// `POST workspaces/{workspace}/namespaces`
pub async fn add_namespace(call: Call<Sent<NewNamespace>>) -> Result<Answer<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let Sent(NewNamespace { name: word, share, reissue: confirmed }) = &call.body;
    let (expected, reissue) = (call.expected.as_deref(), reissue(*confirmed));
    let changed =
        call.api.tenancy.add_namespace_as(actor, &name, word, plain(share), reissue, expected).await?;
    Ok(answer(actor, changed).about(&format!("{name}/{name}-{}", &**word)))
}

/// `DELETE workspaces/{workspace}/namespaces/{namespace}`
pub async fn remove_namespace(call: Call) -> Result<Answer<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let namespace = call.params.get("namespace");
    let changed =
        call.api.tenancy.remove_namespace(actor, &name, namespace, call.expected.as_deref()).await?;
    Ok(answer(actor, changed))
}
