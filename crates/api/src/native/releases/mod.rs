//! Releases: asking for them, seeing, changing and removing them.
//!
//! Modules in reading order: what is told of one ([`view`]), what is sent to ask for one ([`sent`]), lists ([`list`]), what is
//! done with one ([`acts`]), and what can be read of it ([`look`]).

pub mod acts;
pub mod list;
pub mod look;
pub mod sent;
pub mod view;

use axum::http::StatusCode;
use releases::acts::HOST;
use releases::acts::force::Forced;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::routes::ROOT;
use sent::{ChangedRelease, NewRelease, SentRelease};
use view::ReleaseAnswer;

/// What the query says of a release that is to end whatever is in the way.
pub const FORCE: &str = "force";

/// The namespace and the name that the path has. There is one cluster so far.
fn named<B>(call: &Call<B>) -> Result<(&str, &str), Problem> {
    let cluster = call.params.get("cluster");
    if cluster != HOST {
        return Err(Problem::not_found("cluster", cluster));
    }
    Ok((call.params.get("namespace"), call.params.get("release")))
}

/// `POST releases`
pub async fn create(call: Call<SentRelease<NewRelease>>) -> Result<Answer<ReleaseAnswer>, Problem> {
    let actor = call.actor()?;
    let (source, mut wanted) = call.body.0.read()?;
    wanted.key.clone_from(&call.key);
    let key = format!("{HOST}/{}/{}", wanted.namespace, wanted.name);
    let made = call.api.releases.install(actor, &source, wanted).await?;
    Ok(view::answer(&call, made)?.at(&format!("{ROOT}/releases/{key}")).about(&key))
}

/// `GET releases/{cluster}/{namespace}/{release}`
pub async fn show(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (namespace, name) = named(&call)?;
    view::answer(&call, call.api.releases.get(call.actor()?, namespace, name).await?)
}

/// `PATCH releases/{cluster}/{namespace}/{release}`: what is not said stays.
pub async fn change(call: Call<SentRelease<ChangedRelease>>) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let changes = call.body.0.read()?;
    let asked = call.asked();
    view::answer(&call, call.api.releases.upgrade(actor, namespace, name, changes, asked).await?)
}

/// `DELETE releases/{cluster}/{namespace}/{release}`: it is uninstalled, and then it is gone; forced, whatever is in the way.
pub async fn delete(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let (claims, seen) = (call.asks("claims")?, call.expected.as_deref());
    if call.asks(FORCE)? {
        let Forced { release, left } =
            call.api.releases.force_delete(actor, namespace, name, claims, seen).await?;
        let status = if left.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
        return Ok(view::answer_of(&call, release, left)?.status(status));
    }
    let leaving = call.api.releases.delete(actor, namespace, name, claims, seen).await?;
    Ok(view::answer(&call, leaving)?.status(StatusCode::ACCEPTED))
}
