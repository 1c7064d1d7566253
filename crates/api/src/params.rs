//! Path parameters.

use axum::extract::RawPathParams;
use domain::actor::{Actor, Principal};
use domain::ids::{TokenId, WorkspaceName};
use domain::names::check_name;

use crate::problem::Problem;

/// Values of the path parameters of a route, by name.
#[derive(Clone, Debug, Default)]
pub struct PathParams {
    values: Vec<(String, String)>,
    /// The workspace that owns `{namespace}` or `{repo}`.
    owner: Option<WorkspaceName>,
}

/// Whether `text` may appear in the audit trail as a name.
fn is_loggable_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(plain)
}

/// The kind of object that a path parameter names, for errors.
fn object_kind(part: &str) -> &'static str {
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

impl PathParams {
    pub fn from_raw(raw: &RawPathParams) -> Self {
        Self::from_pairs(raw.iter())
    }

    /// Parameters from pairs of name and value.
    pub fn from_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let named = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { values: named, owner: None }
    }

    pub fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(own, _)| own == name)
    }

    /// Checks that every value is a valid object name. Others cannot exist, so the error is 404.
    pub fn validate(&self) -> Result<(), Problem> {
        let invalid = self.values.iter().find(|(_, value)| check_name(value).is_err());
        invalid.map_or(Ok(()), |(name, value)| Err(Problem::not_found(object_kind(name), value)))
    }

    /// The value of a parameter; empty if the path does not have it.
    pub fn get(&self, name: &str) -> &str {
        self.values.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Sets the workspace that owns the object in the path.
    #[must_use]
    pub fn owned_by(self, owner: Option<WorkspaceName>) -> Self {
        Self { owner, ..self }
    }

    pub fn owner(&self) -> Option<&WorkspaceName> {
        self.owner.as_ref()
    }

    /// The key of `{cluster}/{namespace}/{release}` in lists.
    pub fn release_key(&self) -> String {
        format!("{}/{}/{}", self.get("cluster"), self.get("namespace"), self.get("release"))
    }

    /// The name in `{workspace}`. An invalid name is 404, as no workspace can have it.
    pub fn workspace(&self) -> Result<WorkspaceName, Problem> {
        let name = self.get("workspace");
        name.parse().map_err(|_| Problem::not_found("workspace", name))
    }

    pub fn token(&self) -> Result<TokenId, Problem> {
        // The value is not echoed: it may be a whole token sent by mistake.
        self.get("token").parse().map_err(|_| Problem::not_found("token", "…"))
    }

    /// Whether `{user}` is the caller: `me`, its id, or the name of its account.
    pub fn is_self(&self, actor: &Actor) -> bool {
        let user = self.get("user");
        match &actor.principal {
            Principal::User { id, account, .. } => user == "me" || user == id.as_str() || user == account,
            Principal::ServiceAccount { .. } => false,
        }
    }

    /// The object in the path, for the audit trail. Values that are not names become `?`, since a path can hold arbitrary text.
    pub fn audit_object(&self) -> Option<String> {
        let names =
            self.values.iter().map(|(_, value)| if is_loggable_name(value) { value.as_str() } else { "?" });
        let object = names.collect::<Vec<_>>().join("/");
        (!object.is_empty()).then_some(object)
    }
}
