//! What people do with their tokens.

use std::sync::Arc;

use domain::actor::Via;
use domain::ids::{TokenId, UserId};
use domain::roles::Capability;
use domain::scopes::Scopes;
use domain::{Actor, Place};
use jiff::SignedDuration;
use kube::api::DeleteParams;

use super::{TokenKind, TokenRecord, TokenText, mint};
use crate::secrets::{self, is_code, writing};
use crate::{Error, Tenancy};

/// For how many days a token is good where nobody says.
const DEFAULT_DAYS: i64 = 90;
const MOST_DAYS: i64 = 365;
/// How many one person may have.
const MOST_TOKENS: usize = 100;

/// What somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    pub name: String,
    /// Words as [`Scopes::parse`] takes them.
    pub scopes: Vec<String>,
    /// None: 90 days.
    pub days: Option<i64>,
}

/// A token that was just made. This is the only time that its text is known.
#[derive(Debug)]
pub struct NewToken {
    pub text: TokenText,
    pub record: Arc<TokenRecord>,
}

impl Tenancy {
    /// Makes an API token for whoever asks.
    pub async fn create_token(&self, actor: &Actor, request: &TokenRequest) -> Result<NewToken, Error> {
        let owner = actor.themselves()?;
        let scopes = Scopes::parse(request.scopes.iter().map(String::as_str))?;
        let name = checked_name(&request.name)?;
        let days = request.days.unwrap_or(DEFAULT_DAYS);
        if !(1..=MOST_DAYS).contains(&days) {
            return Err(Error::Invalid(format!("a token is good for 1 to {MOST_DAYS} days")));
        }
        if self.0.directory.tokens_of(owner).len() >= MOST_TOKENS {
            return Err(Error::Conflict(format!("you have {MOST_TOKENS} tokens: revoke one first")));
        }
        let now = self.0.clock.now();
        let expires = now + SignedDuration::from_hours(24 * days);
        let (text, record) = mint(owner, TokenKind::Api, name, scopes, now, Some(expires));
        secrets::api(self.0.clients.own()).create(&writing(), &record.to_secret()).await?;
        self.0.directory.seen(|directory| directory.token(&record.id).is_some()).await;
        Ok(NewToken { text, record: Arc::new(record) })
    }

    /// The tokens of a person, for themselves and for whoever may read accounts.
    pub fn tokens(&self, actor: &Actor, of: &UserId) -> Result<Vec<Arc<TokenRecord>>, Error> {
        if actor.themselves().ok() != Some(of) {
            actor.may(Capability::ReadUsers, Place::Platform)?;
        }
        Ok(self.0.directory.tokens_of(of))
    }

    /// Takes a token back: by its owner, by whoever may manage accounts, and by the token itself. To anybody else it
    /// is not there.
    pub async fn revoke_token(&self, actor: &Actor, id: &TokenId) -> Result<(), Error> {
        let nothing = || Error::NotFound { kind: "token", name: id.to_string() };
        let token = self.0.directory.token(id).ok_or_else(nothing)?;
        let itself = matches!(&actor.via, Via::Token { id: own, .. } if own == id);
        if !itself && actor.themselves().ok() != Some(&token.owner) {
            actor.may(Capability::ManageUsers, Place::Platform).map_err(|refused| match actor.id() {
                // Its owner, with a token that is good for less.
                Some(own) if *own == token.owner => Error::from(refused),
                _ => nothing(),
            })?;
        }
        let name = TokenRecord::secret_name(id);
        match secrets::api(self.0.clients.own()).delete(&name, &DeleteParams::default()).await {
            Err(error) if !is_code(&error, 404) => return Err(error.into()),
            _ => {}
        }
        self.0.directory.seen(|directory| directory.token(id).is_none()).await;
        Ok(())
    }
}

fn checked_name(name: &str) -> Result<&str, Error> {
    let name = name.trim();
    let length = name.chars().take(65).count();
    if (1..=64).contains(&length) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(Error::Invalid("the name of a token has 1 to 64 printable characters".to_owned()))
    }
}
