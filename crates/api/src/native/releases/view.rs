//! A release on the wire, with the actions that the caller may take.

use domain::Actor;
use domain::ids::WorkspaceName;
use releases::acts::left::LeftBehind;
use releases::acts::view::{MadeBy, ReleaseView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::actions::{self, Action};
use crate::answer::Answer;
use crate::call::Call;
use crate::params::Params;
use crate::problem::Problem;
use crate::routes::RELEASE;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Release")]
#[serde(rename_all = "camelCase")]
pub struct ReleaseAnswer {
    /// What it is called in lists: cluster, namespace and name.
    key: String,
    #[serde(flatten)]
    release: ReleaseView,
    actions: Vec<Action>,
    /// What is still there of one that is gone because its end was forced; or what an uninstallation without `asAdministrator`
    /// leaves behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_behind: Option<Vec<LeftBehind>>,
}

/// State of a release that decides which actions are possible.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub state: &'a str,
    pub paused: bool,
    pub made_by: MadeBy,
}

/// Actions that create a new version of the spec.
const CHANGES: &[&str] = &[
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
pub fn can_be_done(actor: &Actor, owner: Option<WorkspaceName>, standing: Standing<'_>) -> Vec<Action> {
    let Standing { namespace, name, .. } = standing;
    let values = [("cluster", releases::acts::HOST), ("namespace", namespace), ("release", name)];
    let params = Params::named(values.into_iter()).owned_by(owner);
    actions::of_params(actor, RELEASE, &params, &blocked(standing))
}

/// Actions that have no effect in some state, and the reason code for that state.
const TURNS: &[(&str, &str)] = &[
    ("releases.pause", "paused"),
    ("releases.recover", "not-paused"),
    ("releases.suspend", "suspended"),
    ("releases.resume", "not-suspended"),
    ("releases.retry", "not-failed"),
    ("releases.adopt", "adopted"),
];

impl Standing<'_> {
    /// Whether the action would have no effect. Lists with space for few actions leave it out, in favour of its counterpart.
    pub fn is_past(&self, act: &str) -> bool {
        match act {
            "releases.pause" => self.paused,
            "releases.recover" => !self.paused,
            "releases.suspend" => self.state == "suspended",
            "releases.resume" => self.state != "suspended",
            "releases.retry" => self.state != "failed",
            "releases.adopt" => self.made_by != MadeBy::Helm,
            _ => false,
        }
    }
}

/// Actions that the state forbids, with a reason code. The first reason of an action counts.
fn blocked(standing: Standing<'_>) -> Vec<(&'static str, &'static str)> {
    let why = match standing.made_by {
        MadeBy::Helm => Some("not-adopted"),
        MadeBy::Hand => Some("by-hand"),
        MadeBy::Request if standing.state == "deleting" => Some("deleting"),
        MadeBy::Request => None,
    };
    let all = why.into_iter().flat_map(|why| CHANGES.iter().map(move |act| (*act, why)));
    let past = TURNS.iter().copied().filter(|(act, _)| standing.is_past(act));
    all.chain(past).collect()
}

/// A release with its actions, and its version as `ETag`.
pub fn answer<B>(call: &Call<B>, release: ReleaseView) -> Result<Answer<ReleaseAnswer>, Problem> {
    answer_of(call, release, None)
}

/// As [`answer`], with the objects left behind.
pub fn answer_of<B>(
    call: &Call<B>,
    release: ReleaseView,
    left_behind: Option<Vec<LeftBehind>>,
) -> Result<Answer<ReleaseAnswer>, Problem> {
    let standing = Standing {
        namespace: &release.namespace,
        name: &release.name,
        state: &release.state,
        paused: release.paused,
        made_by: release.made_by,
    };
    let owner = call.api.tenancy.directory().workspace_of(&release.namespace);
    let actions = can_be_done(call.actor()?, owner, standing);
    let version = release.v.clone();
    let key = format!("{}/{}/{}", release.cluster, release.namespace, release.name);
    Ok(Answer::new(ReleaseAnswer { key, release, actions, left_behind }).version(&version))
}
