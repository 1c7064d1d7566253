//! Scopes of API tokens, which restrict a token to less than its owner's permissions.
//!
//! Text form: `all`, `read`, or areas such as `releases`, and `workspace:<name>` to restrict it to some workspaces.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::ids::{WorkspaceName, truncate_for_error};
use crate::roles::{Area, Capability};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown scope `{0}`: must be all, read, tenancy, releases, store, hosts, nodes, platform or workspace:<name>"
)]
pub struct UnknownScope(String);

/// Scopes of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    /// Empty means every area.
    areas: BTreeSet<Area>,
    is_read_only: bool,
    /// Empty means every workspace.
    workspaces: BTreeSet<WorkspaceName>,
}

impl Scopes {
    /// Unrestricted: everything that the owner may do.
    pub fn all() -> Self {
        Self { areas: BTreeSet::new(), is_read_only: false, workspaces: BTreeSet::new() }
    }

    /// Parses scope words. An empty list is an error.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownScope> {
        let mut scopes = Self::all();
        let mut any = false;
        for word in words {
            any = true;
            let unknown = || UnknownScope(truncate_for_error(word));
            match word {
                "all" => {}
                "read" => scopes.is_read_only = true,
                other => match other.strip_prefix("workspace:") {
                    Some(name) => drop(scopes.workspaces.insert(name.parse().map_err(|_| unknown())?)),
                    None => drop(scopes.areas.insert(Area::from_str(other).map_err(|_| unknown())?)),
                },
            }
        }
        if any { Ok(scopes) } else { Err(UnknownScope(String::new())) }
    }

    pub fn to_strings(&self) -> Vec<String> {
        let mut words: Vec<String> = self.areas.iter().map(|area| area.as_str().to_owned()).collect();
        if self.is_read_only {
            words.push("read".to_owned());
        }
        words.extend(self.workspaces.iter().map(|name| format!("workspace:{name}")));
        if words.is_empty() { vec!["all".to_owned()] } else { words }
    }

    /// Whether the scopes include `what`. `workspace` is `None` for operations on the whole platform.
    pub fn allows(&self, what: Capability, workspace: Option<&WorkspaceName>) -> bool {
        let area = self.areas.is_empty() || self.areas.contains(&what.area());
        let place =
            self.workspaces.is_empty() || workspace.is_some_and(|name| self.workspaces.contains(name));
        area && place && (!self.is_read_only || what.is_read_only())
    }

    /// Whether the scopes are restricted to some workspaces, including this one.
    pub fn is_restricted_to(&self, workspace: &WorkspaceName) -> bool {
        self.workspaces.contains(workspace)
    }

    /// Returns the scopes without a removed workspace. `None` if no workspace would remain, because an empty list would
    /// mean every workspace.
    pub fn without_workspace(&self, workspace: &WorkspaceName) -> Option<Self> {
        if !self.is_restricted_to(workspace) {
            return Some(self.clone());
        }
        let mut rest = self.clone();
        rest.workspaces.remove(workspace);
        (!rest.workspaces.is_empty()).then_some(rest)
    }

    /// Whether the scopes are unrestricted, as operations on the user's own account require.
    pub fn is_unrestricted(&self) -> bool {
        *self == Self::all()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_strings().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_allow_only_the_listed_areas_and_workspaces() {
        let acme = WorkspaceName::parse_chosen("acme").unwrap();
        let other = WorkspaceName::parse_chosen("other").unwrap();
        let rows: &[(&[&str], Capability, Option<&WorkspaceName>, bool)] = &[
            (&["all"], Capability::ManageUsers, None, true),
            (&["read"], Capability::ManageUsers, None, false),
            (&["read"], Capability::ReadUsers, None, true),
            (&["releases"], Capability::ChangeReleases, Some(&acme), true),
            (&["releases"], Capability::ReadUsers, None, false),
            (&["releases", "read"], Capability::ChangeReleases, Some(&acme), false),
            (&["workspace:acme"], Capability::ChangeReleases, Some(&acme), true),
            (&["workspace:acme"], Capability::ChangeReleases, Some(&other), false),
            (&["workspace:acme"], Capability::ReadUsers, None, false),
        ];
        for (words, what, place, expected) in rows {
            let scopes = Scopes::parse(words.iter().copied()).unwrap();
            assert_eq!(scopes.allows(*what, *place), *expected, "{scopes} {what}");
            let texts = scopes.to_strings();
            assert_eq!(Scopes::parse(texts.iter().map(String::as_str)).unwrap(), scopes);
        }
        let both = Scopes::parse(["read", "workspace:acme", "workspace:other"]).unwrap();
        let rest = both.without_workspace(&acme).unwrap();
        assert_eq!(rest.to_strings(), ["read", "workspace:other"]);
        assert_eq!(
            rest.without_workspace(&other),
            None,
            "a token of a removed workspace is not one of every workspace"
        );
        assert_eq!(Scopes::all().without_workspace(&acme), Some(Scopes::all()));
        for wrong in [&["everything"][..], &["workspace:"], &["workspace:A"], &[]] {
            assert!(Scopes::parse(wrong.iter().copied()).is_err(), "{wrong:?}");
        }
    }
}
