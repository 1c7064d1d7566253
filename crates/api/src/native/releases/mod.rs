//! Releases: create, read, update, delete.
//!
//! Modules:
//! - [`view`]: the release on the wire
//! - [`sent`]: request bodies
//! - [`list`], lists
//! - [`acts`]: actions on a release
//! - [`look`]: read-only views

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

/// Query parameter that forces a deletion whatever blocks it.
pub const FORCE: &str = "force";

/// Query parameter by which an administrator of the platform applies its own rights to one version of a release.
pub const AS_ADMINISTRATOR: &str = "asAdministrator";

/// Preconditions from the headers, with the `asAdministrator` parameter.
fn asked<B>(call: &Call<B>) -> Result<Asked<'_>, Problem> {
    Ok(Asked { as_administrator: call.asks(AS_ADMINISTRATOR)?, ..call.asked() })
}

/// Namespace and name from the path. There is only one cluster so far.
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

/// `PATCH releases/{cluster}/{namespace}/{release}`: absent fields keep their value.
pub async fn change(call: Call<SentRelease<ChangedRelease>>) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let changes = call.body.0.read()?;
    let asked = asked(&call)?;
    view::answer(&call, call.api.releases.upgrade(actor, namespace, name, changes, asked).await?)
}

/// `DELETE releases/{cluster}/{namespace}/{release}`: uninstalls the release and then deletes it. `force` ignores whatever blocks the
/// deletion. The response lists objects that stay because an administrator wrote them.
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
