//! Validated changes of an account.

use std::collections::BTreeSet;

use domain::fields::{Email, Organization};
use domain::roles::PlatformRole;
use kube_types::User;

use crate::Error;

/// A change of an account. The first four fields are reserved for administrators; owners may change the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPatch {
    pub disabled: Option<bool>,
    /// In days; 0: no expiry.
    pub valid_days: Option<i64>,
    pub max_nodes: Option<i64>,
    pub platform_roles: Option<BTreeSet<PlatformRole>>,
    pub organization: Option<String>,
    pub email: Option<String>,
}

/// A [`UserPatch`] whose fields have been checked.
#[derive(Default)]
pub(super) struct ValidatedPatch {
    pub disabled: Option<bool>,
    pub valid_days: Option<i64>,
    pub max_nodes: Option<i64>,
    pub platform_roles: Option<BTreeSet<PlatformRole>>,
    pub organization: Option<Organization>,
    pub email: Option<Email>,
}

impl UserPatch {
    /// Whether the patch changes fields that are reserved for administrators.
    pub(super) fn requires_administrator(&self) -> bool {
        let Self { disabled, valid_days, max_nodes, platform_roles: platform, organization: _, email: _ } =
            self;
        disabled.is_some() || valid_days.is_some() || max_nodes.is_some() || platform.is_some()
    }

    pub(super) fn validate(self) -> Result<ValidatedPatch, Error> {
        let within = |name: &str, value: Option<i64>, most: i64| match value {
            Some(value) if !(0..=most).contains(&value) => {
                Err(Error::Invalid(format!("{name} must be 0 to {most}")))
            }
            value => Ok(value),
        };
        let Self { disabled, valid_days, max_nodes, platform_roles: platform, organization, email } = self;
        Ok(ValidatedPatch {
            disabled,
            valid_days: within("the validity in days", valid_days, 36_500)?,
            max_nodes: within("the number of nodes", max_nodes, 10_000)?,
            platform_roles: platform,
            organization: organization.as_deref().map(Organization::parse).transpose()?,
            email: email.as_deref().map(Email::parse).transpose()?,
        })
    }
}

impl ValidatedPatch {
    /// Applies the changes to a User.
    pub fn apply(&self, user: &mut User) {
        let Self { disabled, valid_days, max_nodes, platform_roles: platform, organization, email } = self;
        let spec = &mut user.spec;
        spec.disabled = disabled.unwrap_or(spec.disabled);
        spec.valid_period = valid_days.unwrap_or(spec.valid_period);
        spec.max_node_num = max_nodes.unwrap_or(spec.max_node_num);
        if let Some(roles) = platform {
            spec.platform_roles = roles.iter().map(ToString::to_string).collect();
        }
        if let Some(organization) = organization {
            organization.as_str().clone_into(&mut spec.organization);
        }
        if let Some(email) = email {
            email.as_str().clone_into(&mut spec.email);
        }
    }
}
