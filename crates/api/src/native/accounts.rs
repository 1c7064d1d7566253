//! Account view, for the account's owner and administrators.

use domain::Actor;
use schemars::JsonSchema;
use serde::Serialize;
use tenancy::Account;

use crate::allowed_actions::{ActionView, actions_for_path};
use crate::request::ApiRequest;
use crate::routes::USER;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Account")]
#[expect(clippy::struct_excessive_bools, reason = "independent properties")]
pub struct AccountView {
    id: String,
    /// Name of the User object.
    name: String,
    email: String,
    phone: String,
    organization: String,
    /// First namespace of the personal workspace.
    namespace: String,
    platform_roles: Vec<&'static str>,
    disabled: bool,
    expired: bool,
    /// Whether namespace, access and credentials are ready.
    ready: bool,
    /// Whether the account is being deleted.
    leaving: bool,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// Validity in days from the time when the account was ready; 0: unlimited.
    valid_period: i64,
    max_nodes: i64,
    nodes: i64,
    /// Version, for `If-Match`.
    pub v: String,
    actions: Vec<ActionView>,
}

impl AccountView {
    pub fn new<B>(call: &ApiRequest<B>, actor: &Actor, account: &Account) -> Self {
        Self {
            id: account.id.to_string(),
            name: account.name.clone(),
            email: account.email.clone(),
            phone: account.phone.clone(),
            organization: account.organization.clone(),
            namespace: account.namespace.clone(),
            platform_roles: account.platform_roles.iter().map(|role| role.as_str()).collect(),
            disabled: account.is_disabled,
            expired: account.is_expired(call.api.clock.now()),
            ready: account.is_ready,
            leaving: account.is_deleting,
            created: account.created.to_string(),
            expires: account.expires.map(|time| time.to_string()),
            valid_period: account.valid_days,
            max_nodes: account.max_nodes,
            nodes: account.nodes,
            v: account.version.clone(),
            actions: actions_for_path(actor, USER, &[account.id.as_str()], &[]),
        }
    }
}
