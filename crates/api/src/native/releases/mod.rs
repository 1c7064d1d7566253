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
use releases::acts::change::DeleteOptions;
use releases::acts::force::Forced;
use releases::acts::{Asked, HOST};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::routes::ROOT;
use sent::{ChangedRelease, NewRelease, SentRelease};
use view::ReleaseAnswer;

/// What the query says of a release that is to end whatever is in the way.
pub const FORCE: &str = "force";

/// The option of the query by which an administrator of the platform uses their rights for one version of a release.
pub const AS_ADMINISTRATOR: &str = "asAdministrator";

/// The conditions that the headers name, and whether an administrator uses their rights.
fn asked<B>(call: &Call<B>) -> Result<Asked<'_>, Problem> {
    Ok(Asked { as_administrator: call.asks(AS_ADMINISTRATOR)?, ..call.asked() })
}

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
    wanted.as_administrator = call.asks(AS_ADMINISTRATOR)?;
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
    let asked = asked(&call)?;
    view::answer(&call, call.api.releases.upgrade(actor, namespace, name, changes, asked).await?)
}

/// `DELETE releases/{cluster}/{namespace}/{release}`: it is uninstalled, and then it is gone; forced, whatever is in the way. What stays because
/// an administrator wrote it is in the answer.
pub async fn delete(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let options = DeleteOptions {
        claims: call.asks("claims")?,
        as_administrator: call.asks(AS_ADMINISTRATOR)?,
        seen: call.expected.as_deref(),
    };
    if call.asks(FORCE)? {
        let Forced { release, left } =
            call.api.releases.force_delete(actor, namespace, name, options).await?;
        let status = if left.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
        return Ok(view::answer_of(&call, release, left)?.status(status));
    }
    let Forced { release, left } = call.api.releases.delete(actor, namespace, name, options).await?;
    Ok(view::answer_of(&call, release, left)?.status(StatusCode::ACCEPTED))
}
