//! What is told of a release, and what whoever asks may do with it.

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
    /// What is still there of one that is gone because its end was forced.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_behind: Option<Vec<LeftBehind>>,
}

/// What of a release decides what can be done with it now.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub state: &'a str,
    pub paused: bool,
    pub made_by: MadeBy,
}

/// Acts that make a new version of what was asked for.
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

/// What this caller may do with a release. `owner` is the workspace whose namespace it is in.
pub fn can_be_done(actor: &Actor, owner: Option<WorkspaceName>, standing: Standing<'_>) -> Vec<Action> {
    let Standing { namespace, name, state, paused, made_by } = standing;
    let values = [("cluster", releases::acts::HOST), ("namespace", namespace), ("release", name)];
    let params = Params::named(values.into_iter()).owned_by(owner);
    actions::of_params(actor, RELEASE, &params, &blocked(state, paused, made_by))
}

fn blocked(state: &str, paused: bool, made_by: MadeBy) -> Vec<(&'static str, &'static str)> {
    let all = |why: &'static str| CHANGES.iter().map(move |act| (*act, why));
    let mut blocked = Vec::new();
    match made_by {
        MadeBy::Helm => blocked.extend(all("not-adopted")),
        MadeBy::Hand => blocked.extend(all("by-hand")),
        MadeBy::Request if state == "deleting" => blocked.extend(all("deleting")),
        MadeBy::Request => {
            blocked.push(if paused {
                ("releases.pause", "paused")
            } else {
                ("releases.recover", "not-paused")
            });
            blocked.push(match state {
                "suspended" => ("releases.suspend", "suspended"),
                _ => ("releases.resume", "not-suspended"),
            });
            if state != "failed" {
                blocked.push(("releases.retry", "not-failed"));
            }
        }
    }
    if made_by != MadeBy::Helm {
        blocked.push(("releases.adopt", "adopted"));
    }
    blocked
}

/// One release, with its version in the header.
pub fn answer<B>(call: &Call<B>, release: ReleaseView) -> Result<Answer<ReleaseAnswer>, Problem> {
    answer_of(call, release, None)
}

/// The same, with what is left of it.
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
