//! What a path names.

use axum::extract::RawPathParams;
use domain::actor::{Actor, Who};
use domain::ids::{TokenId, WorkspaceName};
use domain::names::check_name;

use crate::problem::Problem;

/// The parts of a path that the route table has in braces, by name.
#[derive(Clone, Debug, Default)]
pub struct Params {
    named: Vec<(String, String)>,
    /// The workspace whose namespace `{namespace}` is, or whose repository `{repo}` is.
    owner: Option<WorkspaceName>,
}

/// What a name in the audit trail may consist of; anything else is no name of ours.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(plain)
}

/// What a part of a path names, for errors.
fn kind(part: &str) -> &'static str {
    const KINDS: [&str; 12] = [
        "chart",
        "cluster",
        "invitation",
        "namespace",
        "node",
        "operation",
        "pool",
        "release",
        "repository",
        "user",
        "workspace",
        "token",
    ];
    let part = if part == "repo" { "repository" } else { part };
    KINDS.into_iter().find(|kind| *kind == part).unwrap_or("object")
}

impl Params {
    pub fn of(raw: &RawPathParams) -> Self {
        Self::named(raw.iter())
    }

    /// These names with these values.
    pub fn named<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let named = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { named, owner: None }
    }

    pub fn has(&self, name: &str) -> bool {
        self.named.iter().any(|(own, _)| own == name)
    }

    /// Accepts a path all of whose parts are valid names of objects. Nothing is called what is not.
    pub fn check(&self) -> Result<(), Problem> {
        let invalid = self.named.iter().find(|(_, value)| check_name(value).is_err());
        invalid.map_or(Ok(()), |(name, value)| Err(Problem::not_found(kind(name), value)))
    }

    /// Empty where the path has no such part.
    pub fn get(&self, name: &str) -> &str {
        self.named.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// With the workspace to which belongs what the path names.
    #[must_use]
    pub fn owned_by(self, owner: Option<WorkspaceName>) -> Self {
        Self { owner, ..self }
    }

    pub fn owner(&self) -> Option<&WorkspaceName> {
        self.owner.as_ref()
    }

    /// What `{cluster}/{namespace}/{release}` names, as it is called in lists.
    pub fn release_key(&self) -> String {
        format!("{}/{}/{}", self.get("cluster"), self.get("namespace"), self.get("release"))
    }

    /// A name that no workspace can have is one that nobody has given.
    pub fn workspace(&self) -> Result<WorkspaceName, Problem> {
        let name = self.get("workspace");
        name.parse().map_err(|_| Problem::not_found("workspace", name))
    }

    pub fn token(&self) -> Result<TokenId, Problem> {
        // A whole token that was sent by mistake is not repeated.
        self.get("token").parse().map_err(|_| Problem::not_found("token", "…"))
    }

    /// Whether `{user}` is the person who asks: `me`, their id, or the name of their account.
    pub fn is_self(&self, actor: &Actor) -> bool {
        let user = self.get("user");
        match &actor.who {
            Who::Person { id, account, .. } => user == "me" || user == id.as_str() || user == account,
            Who::ServiceAccount { .. } => false,
        }
    }

    /// What the path is about, for the audit trail: names only, since a part of a path can hold whatever a caller wrote.
    pub fn object(&self) -> Option<String> {
        let names = self.named.iter().map(|(_, value)| if is_name(value) { value.as_str() } else { "?" });
        let object = names.collect::<Vec<_>>().join("/");
        (!object.is_empty()).then_some(object)
    }
}
