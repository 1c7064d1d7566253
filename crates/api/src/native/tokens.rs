//! The caller's API tokens. The token itself is returned only once, on creation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::tokens::{TokenRecord, TokenRequest};

use crate::body::{BoundedString, JsonBody};
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{JsonResponse, ListResponse, NoContent};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CreateTokenRequest {
    /// Name of the token.
    name: BoundedString<64>,
    /// Scopes: `all`, `read`, areas such as `releases`, or `workspace:<name>`.
    #[schemars(length(min = 1, max = 32))]
    scopes: Vec<BoundedString<64>>,
    /// Lifetime in days, 1 to 365 [default: 90].
    days: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Token")]
pub struct TokenView {
    id: String,
    /// Kind: `login` or `api`.
    kind: &'static str,
    name: String,
    scopes: Vec<String>,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_use: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CreatedToken")]
pub struct CreatedToken {
    #[serde(flatten)]
    record: TokenView,
    /// The token. It is not shown again.
    token: String,
}

impl From<&TokenRecord> for TokenView {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.to_string(),
            kind: record.kind.as_str(),
            name: record.name.clone(),
            scopes: record.scopes.to_strings(),
            created: record.created.to_string(),
            expires: record.expires.map(|time| time.to_string()),
            last_use: record.last_use.map(|time| time.to_string()),
        }
    }
}

/// `GET tokens`
pub async fn list(call: ApiRequest) -> Result<JsonResponse<ListResponse<TokenView>>, Problem> {
    let actor = call.actor()?;
    let own = actor.require_unrestricted_user()?;
    let tokens = call.api.tenancy.tokens(actor, own)?;
    Ok(call.list(tokens.iter().map(|record| TokenView::from(&**record)).collect()))
}

/// `POST tokens`
pub async fn create(
    call: ApiRequest<JsonBody<CreateTokenRequest>>,
) -> Result<JsonResponse<CreatedToken>, Problem> {
    let JsonBody(CreateTokenRequest { name, scopes, days }) = &call.body;
    if scopes.len() > 32 {
        return Err(Problem::invalid("`scopes` must have at most 32 entries"));
    }
    let scopes = scopes.iter().map(|word| word.to_string()).collect();
    let request = TokenRequest { name: name.to_string(), scopes, days: *days };
    let created = call.api.tenancy.create_token(call.actor()?, &request).await?;
    let id = created.record.id.clone();
    let response =
        CreatedToken { record: (&*created.record).into(), token: created.text.expose().to_owned() };
    Ok(JsonResponse::new(response).no_store().audit_object(&id))
}

/// `DELETE tokens/{token}`
pub async fn revoke(call: ApiRequest) -> Result<NoContent, Problem> {
    call.api.tenancy.revoke_token(call.actor()?, &call.params.token()?).await?;
    Ok(NoContent::default())
}
