//! Create, list and revoke API tokens.

use std::sync::Arc;

use domain::actor::AuthMethod;
use domain::ids::{TokenId, UserId};
use domain::roles::{Capability, PlatformRole};
use domain::scopes::Scopes;
use domain::{AccessScope, Actor};
use jiff::SignedDuration;
use kube::api::DeleteParams;

use super::{TokenKind, TokenRecord, TokenText, mint};
use crate::credential_store::{self, is_code, post_params};
use crate::{Error, Tenancy};

/// The default lifetime in days.
const DEFAULT_LIFETIME_DAYS: i64 = 90;
const MAX_LIFETIME_DAYS: i64 = 365;
/// The limit of valid tokens per account.
const MAX_TOKENS: usize = 100;
/// How long expired tokens are still listed, so that their owners see why they fail.
const EXPIRED_TOKEN_RETENTION: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The parameters of a new token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    pub name: String,
    /// Scopes in the syntax of [`Scopes::parse`].
    pub scopes: Vec<String>,
    /// The lifetime in days. `None`: 90 days.
    pub days: Option<i64>,
}

/// A new token. Its text is disclosed only here.
#[derive(Debug)]
pub struct NewToken {
    pub text: TokenText,
    pub record: Arc<TokenRecord>,
}

impl Tenancy {
    /// Creates an API token for the actor.
    pub async fn create_token(&self, actor: &Actor, request: &TokenRequest) -> Result<NewToken, Error> {
        let owner = actor.require_unrestricted_user()?;
        let scopes = Scopes::parse(request.scopes.iter().map(String::as_str))?;
        let name = validate_name(&request.name)?;
        let days = request.days.unwrap_or(DEFAULT_LIFETIME_DAYS);
        if !(1..=MAX_LIFETIME_DAYS).contains(&days) {
            return Err(Error::Invalid(format!(
                "the lifetime of a token must be 1 to {MAX_LIFETIME_DAYS} days"
            )));
        }
        let now = self.0.clock.now();
        let good = self.0.directory.tokens_of(owner).iter().filter(|token| !token.is_expired(now)).count();
        if good >= MAX_TOKENS {
            return Err(Error::Conflict(format!("you have {MAX_TOKENS} tokens: revoke one first")));
        }
        let expires = now + SignedDuration::from_hours(24 * days);
        let (text, record) = mint(owner, TokenKind::Api, name, scopes, now, Some(expires));
        credential_store::api(self.0.clients.platform()).create(&post_params(), &record.to_secret()).await?;
        self.0.directory.wait_for_own_write(|directory| directory.token(&record.id).is_some()).await;
        Ok(NewToken { text, record: Arc::new(record) })
    }

    /// Lists the tokens of a user, for that user or with the right to read accounts.
    pub fn tokens(&self, actor: &Actor, of: &UserId) -> Result<Vec<Arc<TokenRecord>>, Error> {
        if actor.require_unrestricted_user().ok() != Some(of) {
            actor.authorize(Capability::ReadUsers, AccessScope::Platform)?;
        }
        Ok(self.0.directory.tokens_of(of))
    }

    /// Revokes a token: by its owner, with the right to manage accounts, or by the token itself. For others it is not found.
    pub async fn revoke_token(&self, actor: &Actor, id: &TokenId) -> Result<(), Error> {
        let nothing = || Error::NotFound { kind: "token", name: id.to_string() };
        let token = self.0.directory.token(id).ok_or_else(nothing)?;
        let itself = matches!(&actor.auth_method, AuthMethod::Token { id: own, .. } if own == id);
        if !itself && actor.require_unrestricted_user().ok() != Some(&token.owner) {
            let account = self.0.directory.account(&token.owner);
            let may = match &account {
                Some(account) if account.platform_roles.contains(&PlatformRole::Admin) => {
                    actor.require_unrestricted_user().map(drop)
                }
                _ => Ok(()),
            };
            let may = actor.authorize(Capability::ManageUsers, AccessScope::Platform).and(may);
            may.map_err(|refused| match actor.user_id() {
                // The owner, with a token whose scopes do not suffice.
                Some(own) if *own == token.owner => Error::from(refused),
                _ => nothing(),
            })?;
        }
        self.delete_token(id).await?;
        self.0.directory.wait_for_own_write(|directory| directory.token(id).is_none()).await;
        Ok(())
    }

    /// Deletes tokens that expired a week ago. Called periodically.
    pub async fn delete_expired_tokens(&self) -> Result<(), Error> {
        let over = self.0.clock.now() - EXPIRED_TOKEN_RETENTION;
        for token in self.0.directory.tokens().iter().filter(|token| token.is_expired(over)) {
            self.delete_token(&token.id).await?;
        }
        Ok(())
    }

    async fn delete_token(&self, id: &TokenId) -> Result<(), Error> {
        let name = TokenRecord::secret_name(id);
        match credential_store::api(self.0.clients.platform()).delete(&name, &DeleteParams::default()).await {
            Err(error) if !is_code(&error, 404) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn validate_name(name: &str) -> Result<&str, Error> {
    let name = name.trim();
    let length = name.chars().take(65).count();
    if (1..=64).contains(&length) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(Error::Invalid("the name of a token must have 1 to 64 printable characters".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use domain::ErrorKind;
    use kube_types::UserSpec;
    use testkit::wait_for;

    use super::*;
    use crate::RequestCredentials;
    use crate::auth_test_harness::{AuthTestHarness, TestUser};

    fn request(scopes: &[&str]) -> TokenRequest {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        TokenRequest { name: "build".to_owned(), scopes, days: None }
    }

    async fn bearer(stage: &AuthTestHarness, text: &str) -> Result<Actor, Error> {
        stage
            .tenancy
            .authenticate(&RequestCredentials { bearer: Some(text), ..RequestCredentials::default() })
            .await
    }

    async fn harness_with_users() -> (AuthTestHarness, TestUser, TestUser, TestUser) {
        let stage = AuthTestHarness::new().await;
        let admin = UserSpec { platform_roles: vec!["admin".to_owned()], ..UserSpec::default() };
        let [ana, bob] =
            [stage.create_user(UserSpec::default()).await, stage.create_user(UserSpec::default()).await];
        let admin = stage.create_user(admin).await;
        (stage, ana, bob, admin)
    }

    #[tokio::test]
    async fn api_token_is_valid_for_its_scopes_until_it_expires() {
        let (stage, ana, ..) = harness_with_users().await;
        let made = stage.tenancy.create_token(&stage.actor(&ana), &request(&["read"])).await.unwrap();
        let actor = bearer(&stage, made.text.expose()).await.unwrap();
        assert_eq!(actor.user_id(), Some(&ana.id));
        assert_eq!(
            actor.auth_method,
            AuthMethod::Token { id: made.record.id.clone(), scopes: Scopes::parse(["read"]).unwrap() }
        );
        let more = stage.tenancy.create_token(&actor, &request(&["all"])).await.err().unwrap();
        assert_eq!(more.kind(), ErrorKind::Forbidden, "a token for less makes none for more");
        stage
            .clock
            .advance(SignedDuration::from_hours(24 * DEFAULT_LIFETIME_DAYS) - SignedDuration::from_secs(1));
        assert!(bearer(&stage, made.text.expose()).await.is_ok());
        stage.clock.advance(SignedDuration::from_mins(1));
        assert_eq!(
            bearer(&stage, made.text.expose()).await.err().unwrap().kind(),
            ErrorKind::Unauthenticated
        );
    }

    #[tokio::test]
    async fn expired_token_is_listed_for_a_week_and_then_deleted() {
        let (stage, ana, ..) = harness_with_users().await;
        let made = stage.tenancy.create_token(&stage.actor(&ana), &request(&["all"])).await.unwrap();
        let there = || stage.tenancy.directory().token(&made.record.id).is_some();
        stage.clock.advance(
            SignedDuration::from_hours(24 * DEFAULT_LIFETIME_DAYS) + EXPIRED_TOKEN_RETENTION
                - SignedDuration::from_secs(1),
        );
        stage.tenancy.delete_expired_tokens().await.unwrap();
        assert!(there());
        stage.clock.advance(SignedDuration::from_mins(1));
        stage.tenancy.delete_expired_tokens().await.unwrap();
        wait_for("it is gone", async || (!there()).then_some(())).await;
        assert!(bearer(&stage, ana.token.expose()).await.is_ok(), "a login token has no end");
    }

    #[tokio::test]
    async fn invalid_token_requests_create_nothing() {
        let (stage, ana, ..) = harness_with_users().await;
        let long = "x".repeat(65);
        for wrong in [
            request(&[]),
            request(&["everything"]),
            TokenRequest { name: String::new(), ..request(&["all"]) },
            TokenRequest { name: "a\nb".to_owned(), ..request(&["all"]) },
            TokenRequest { name: long, ..request(&["all"]) },
            TokenRequest { days: Some(0), ..request(&["all"]) },
            TokenRequest { days: Some(-1), ..request(&["all"]) },
            TokenRequest { days: Some(366), ..request(&["all"]) },
            TokenRequest { days: Some(i64::MAX), ..request(&["all"]) },
        ] {
            let refused = stage.tenancy.create_token(&stage.actor(&ana), &wrong).await.err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{wrong:?}");
        }
        assert_eq!(
            stage.tenancy.tokens(&stage.actor(&ana), &ana.id).unwrap().len(),
            1,
            "the login token alone"
        );
    }

    #[tokio::test]
    async fn token_is_revoked_by_owner_administrator_or_itself() {
        let (stage, ana, bob, admin) = harness_with_users().await;
        let make =
            async || stage.tenancy.create_token(&stage.actor(&ana), &request(&["read"])).await.unwrap();
        let revoke = async |actor: &Actor, token: &NewToken| {
            let done = stage.tenancy.revoke_token(actor, &token.record.id).await;
            let good = bearer(&stage, token.text.expose()).await.is_ok();
            (done.err().map(|error| error.kind()), good)
        };
        let (token, other) = (make().await, make().await);
        let itself = bearer(&stage, token.text.expose()).await.unwrap();
        assert_eq!(revoke(&stage.actor(&bob), &token).await, (Some(ErrorKind::NotFound), true));
        assert_eq!(revoke(&itself, &other).await, (Some(ErrorKind::Forbidden), true));
        assert_eq!(revoke(&stage.actor(&ana), &other).await, (None, false));
        assert_eq!(revoke(&stage.actor(&ana), &other).await, (Some(ErrorKind::NotFound), false));
        assert_eq!(revoke(&itself, &token).await, (None, false));
        assert_eq!(revoke(&stage.actor(&admin), &make().await).await, (None, false));
        let seen =
            |actor: &TestUser| stage.tenancy.tokens(&stage.actor(actor), &ana.id).map(|tokens| tokens.len());
        assert_eq!((seen(&ana).unwrap(), seen(&admin).unwrap()), (1, 1));
        assert_eq!(seen(&bob).err().unwrap().kind(), ErrorKind::Forbidden);
    }

    #[tokio::test]
    async fn last_use_is_listed_and_written_once_an_hour() {
        let (stage, ana, ..) = harness_with_users().await;
        let directory = stage.tenancy.directory();
        let token = async || directory.tokens_of(&ana.id).pop().and_then(|token| token.last_use);
        assert_eq!(token().await, None);
        for _ in 0..100 {
            bearer(&stage, ana.token.expose()).await.unwrap();
        }
        let first = wait_for("the first use", token).await;
        stage.clock.advance(SignedDuration::from_mins(59));
        bearer(&stage, ana.token.expose()).await.unwrap();
        stage.clock.advance(SignedDuration::from_mins(1));
        bearer(&stage, ana.token.expose()).await.unwrap();
        let second = wait_for("the next use", async || token().await.filter(|time| *time != first)).await;
        assert_eq!(second.duration_since(first), SignedDuration::from_hours(1));
    }
}
