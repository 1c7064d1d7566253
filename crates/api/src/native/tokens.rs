//! The caller's API tokens. The token itself is returned only once, on creation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::tokens::{TokenRecord, TokenRequest};

use crate::answer::{Answer, Done, List};
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::{Sent, Text};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewToken {
    /// What its owner calls it.
    name: Text<64>,
    /// `all`, `read`, areas such as `releases`, `workspace:<name>`.
    #[schemars(length(min = 1, max = 32))]
    scopes: Vec<Text<64>>,
    /// For how many days it is good: 1 to 365; 90 where nothing is said.
    days: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Token")]
pub struct TokenView {
    id: String,
    /// `login` or `api`.
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
#[schemars(rename = "ToldToken")]
pub struct ToldToken {
    #[serde(flatten)]
    record: TokenView,
    /// The token itself. It cannot be told again.
    token: String,
}

impl From<&TokenRecord> for TokenView {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.to_string(),
            kind: record.kind.as_str(),
            name: record.name.clone(),
            scopes: record.scopes.words(),
            created: record.created.to_string(),
            expires: record.expires.map(|time| time.to_string()),
            last_use: record.last_use.map(|time| time.to_string()),
        }
    }
}

/// `GET tokens`
pub async fn list(call: Call) -> Result<Answer<List<TokenView>>, Problem> {
    let actor = call.actor()?;
    let own = actor.themselves()?;
    let tokens = call.api.tenancy.tokens(actor, own)?;
    Ok(call.list(tokens.iter().map(|record| TokenView::from(&**record)).collect()))
}

/// `POST tokens`
pub async fn create(call: Call<Sent<NewToken>>) -> Result<Answer<ToldToken>, Problem> {
    let Sent(NewToken { name, scopes, days }) = &call.body;
    if scopes.len() > 32 {
        return Err(Problem::invalid("`scopes`: more than 32"));
    }
    let scopes = scopes.iter().map(|word| word.to_string()).collect();
    let request = TokenRequest { name: name.to_string(), scopes, days: *days };
    let made = call.api.tenancy.create_token(call.actor()?, &request).await?;
    let id = made.record.id.clone();
    let told = ToldToken { record: (&*made.record).into(), token: made.text.expose().to_owned() };
    Ok(Answer::new(told).secret().about(&id))
}

/// `DELETE tokens/{token}`
pub async fn revoke(call: Call) -> Result<Done, Problem> {
    call.api.tenancy.revoke_token(call.actor()?, &call.params.token()?).await?;
    Ok(Done::default())
}
