//! A release on the wire, with the actions that the caller may take.

use domain::Actor;
use domain::ids::WorkspaceName;
use releases::service::orphans::OrphanedObject;
use releases::service::view::{ManagedBy, ReleaseView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allowed_actions::{self, ActionView};
use crate::params::PathParams;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;
use crate::routes::RELEASE;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Release")]
#[serde(rename_all = "camelCase")]
pub struct ReleaseResponse {
    /// Key in lists: cluster, namespace and name.
    key: String,
    #[serde(flatten)]
    release: ReleaseView,
    actions: Vec<ActionView>,
    /// Objects that were not deleted: by a forced deletion, or because an uninstallation without `asAdministrator` may
    /// not delete them.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_behind: Option<Vec<OrphanedObject>>,
}

/// State of a release that decides which actions are possible.
#[derive(Clone, Copy)]
pub struct ReleaseActionState<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub state: &'a str,
    pub paused: bool,
    pub made_by: ManagedBy,
}

/// Actions that create a new version of the spec.
const SPEC_ACTIONS: &[&str] = &[
    "releases.update",
    "releases.delete",
    "releases.rollback",
    "releases.pause",
    "releases.recover",
    "releases.suspend",
    "releases.resume",
    "releases.retry",
];

/// The actions of this caller on a release. `owner` is the workspace of the release's namespace.
pub fn allowed_actions(
    actor: &Actor,
    owner: Option<WorkspaceName>,
    standing: ReleaseActionState<'_>,
) -> Vec<ActionView> {
    let ReleaseActionState { namespace, name, .. } = standing;
    let values = [("cluster", releases::service::HOST_CLUSTER), ("namespace", namespace), ("release", name)];
    let params = PathParams::from_pairs(values.into_iter()).owned_by(owner);
    allowed_actions::actions_for_params(actor, RELEASE, &params, &blocked_actions(standing))
}

/// Actions that have no effect in some state, and the reason code for that state.
const STATE_ACTIONS: &[(&str, &str)] = &[
    ("releases.pause", "paused"),
    ("releases.recover", "not-paused"),
    ("releases.suspend", "suspended"),
    ("releases.resume", "not-suspended"),
    ("releases.retry", "not-failed"),
    ("releases.adopt", "adopted"),
];

impl ReleaseActionState<'_> {
    /// Whether the action would have no effect. Lists with space for few actions leave it out, in favour of its counterpart.
    pub fn is_no_op(&self, act: &str) -> bool {
        match act {
            "releases.pause" => self.paused,
            "releases.recover" => !self.paused,
            "releases.suspend" => self.state == "suspended",
            "releases.resume" => self.state != "suspended",
            "releases.retry" => self.state != "failed",
            "releases.adopt" => self.made_by != ManagedBy::Helm,
            _ => false,
        }
    }
}

/// Actions that the state forbids, with a reason code. The first reason of an action counts.
fn blocked_actions(standing: ReleaseActionState<'_>) -> Vec<(&'static str, &'static str)> {
    let why = match standing.made_by {
        ManagedBy::Helm => Some("not-adopted"),
        ManagedBy::Hand => Some("by-hand"),
        ManagedBy::Request if standing.state == "deleting" => Some("deleting"),
        ManagedBy::Request => None,
    };
    let all = why.into_iter().flat_map(|why| SPEC_ACTIONS.iter().map(move |act| (*act, why)));
    let past = STATE_ACTIONS.iter().copied().filter(|(act, _)| standing.is_no_op(act));
    all.chain(past).collect()
}

/// A release with its actions, and its version as `ETag`.
pub fn release_response<B>(
    call: &ApiRequest<B>,
    release: ReleaseView,
) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    release_response_with_orphans(call, release, None)
}

/// As [`release_response`], with the objects left behind.
pub fn release_response_with_orphans<B>(
    call: &ApiRequest<B>,
    release: ReleaseView,
    left_behind: Option<Vec<OrphanedObject>>,
) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let standing = ReleaseActionState {
        namespace: &release.namespace,
        name: &release.name,
        state: &release.state,
        paused: release.paused,
        made_by: release.made_by,
    };
    let owner = call.api.tenancy.directory().workspace_of(&release.namespace);
    let actions = allowed_actions(call.actor()?, owner, standing);
    let version = release.v.clone();
    let key = format!("{}/{}/{}", release.cluster, release.namespace, release.name);
    Ok(JsonResponse::new(ReleaseResponse { key, release, actions, left_behind }).etag(&version))
}
