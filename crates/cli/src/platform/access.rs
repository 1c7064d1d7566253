//! Selection of server and credentials.
//!
//! Precedence: arguments, environment, contexts file, a server running on this machine. A token of the contexts file is
//! sent only to its own server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use super::PlatformError;
use super::address::Address;
use super::contexts::{Context, Contexts};
use super::secret::Secret;

/// Arguments of every command that sends requests to a platform.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Platform options")]
pub struct PlatformArgs {
    #[arg(
        long,
        value_name = "URL",
        global = true,
        conflicts_with = "context",
        help = "Address of the platform [default: LONGSHORE_SERVER, else the current context, else the server on this machine]"
    )]
    pub server: Option<String>,
    /// PEM file with the CA of the platform's certificate [default: the CAs that the system trusts]
    #[arg(long, value_name = "FILE", global = true)]
    pub ca: Option<PathBuf>,
    /// Context to use, see `longshore context list` [default: the current context]
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,
    /// API token; visible to other users of this machine [default: `LONGSHORE_TOKEN`, else that of the context]
    #[arg(long, value_name = "TOKEN", global = true, value_parser = secret)]
    pub token: Option<Secret>,
}

#[expect(clippy::unnecessary_wraps, reason = "clap requires a Result")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// Server and credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformAccess {
    pub server: Address,
    pub ca: Option<PathBuf>,
    pub token: Option<Secret>,
}

/// Sources besides the arguments.
pub struct ConnectionSources<'a> {
    pub environment: &'a BTreeMap<String, String>,
    pub contexts: &'a Contexts,
    /// Lowest precedence: address of a server running on this machine.
    pub local_server: &'a dyn Fn() -> Result<Option<String>, String>,
}

impl<'a> ConnectionSources<'a> {
    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The selected server and its context.
    pub fn server(&self, target: &PlatformArgs) -> Result<(Address, Option<&'a Context>), PlatformError> {
        if let Some(name) = &target.context {
            let context = self.contexts.require(name)?;
            return Ok((context.server.clone(), Some(context)));
        }
        let named = target.server.as_deref().or_else(|| self.variable("LONGSHORE_SERVER"));
        if named.is_none()
            && let Some(current) = self.contexts.current()
        {
            return Ok((current.server.clone(), Some(current)));
        }
        let named = match named {
            Some(named) => named.to_owned(),
            None => {
                (self.local_server)().map_err(PlatformError::LocalServer)?.ok_or(PlatformError::NoServer)?
            }
        };
        let server: Address = named.parse()?;
        let context = self.contexts.for_server(&server);
        Ok((server, context))
    }

    /// The selected server with credentials.
    pub fn access(&self, target: &PlatformArgs) -> Result<PlatformAccess, PlatformError> {
        let (server, context) = self.server(target)?;
        let token = target.token.clone().or_else(|| self.variable("LONGSHORE_TOKEN").map(Secret::new));
        let token = token.or_else(|| context.and_then(|context| context.token.clone()));
        let ca = target.ca.clone().or_else(|| context.and_then(|context| context.ca.clone()));
        Ok(PlatformAccess { server, ca, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts() -> Contexts {
        let context = |name: &str, server: &str| Context {
            name: name.to_owned(),
            server: server.parse().unwrap(),
            ca: Some(format!("/{name}.pem").into()),
            account: None,
            token: Some(Secret::new(format!("lsh_{name}_x"))),
        };
        let mut contexts = Contexts::default();
        contexts.upsert_current(context("one", "https://one.example.com"));
        contexts.upsert_current(context("two", "https://two.example.com"));
        contexts.upsert_current(context("again", "https://one.example.com"));
        contexts
    }

    /// The server and token selected by arguments, environment, contexts and a local server.
    fn resolve(
        target: &PlatformArgs,
        environment: &[(&str, &str)],
        contexts: &Contexts,
        here: Option<&str>,
    ) -> String {
        let environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let runs_here = || Ok(here.map(str::to_owned));
        let known = ConnectionSources { environment: &environment, contexts, local_server: &runs_here };
        match known.access(target) {
            Ok(PlatformAccess { server, ca, token }) => {
                let token = token.as_ref().map_or("-", Secret::expose);
                let ca = ca.map_or("-".to_owned(), |ca| ca.display().to_string());
                format!("{server} {token} {ca}")
            }
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn access_prefers_arguments_over_environment_over_contexts() {
        let (all, none) = (contexts(), Contexts::default());
        let plain = PlatformArgs::default();
        let server = |url: &str| PlatformArgs { server: Some(url.to_owned()), ..PlatformArgs::default() };
        let context = |name: &str| PlatformArgs { context: Some(name.to_owned()), ..PlatformArgs::default() };
        let of_two = [("LONGSHORE_SERVER", "https://two.example.com")];
        let of_token = [("LONGSHORE_TOKEN", "lsh_env_x")];
        let here = Some("http://127.0.0.1:8080");

        assert_eq!(resolve(&plain, &[], &all, here), "https://one.example.com lsh_again_x /again.pem");
        assert_eq!(
            resolve(&context("one"), &of_two, &all, here),
            "https://one.example.com lsh_one_x /one.pem"
        );
        assert_eq!(resolve(&plain, &of_two, &all, here), "https://two.example.com lsh_two_x /two.pem");
        assert_eq!(
            resolve(&server("one.example.com"), &of_two, &all, here),
            "https://one.example.com lsh_again_x /again.pem"
        );
        assert_eq!(resolve(&plain, &of_token, &all, here), "https://one.example.com lsh_env_x /again.pem");
        let typed = PlatformArgs { token: Some(Secret::new("lsh_typed_x")), ..PlatformArgs::default() };
        assert_eq!(resolve(&typed, &of_token, &all, here), "https://one.example.com lsh_typed_x /again.pem");
        assert_eq!(resolve(&plain, &[], &none, here), "http://127.0.0.1:8080 - -");
        assert_eq!(resolve(&plain, &[("LONGSHORE_SERVER", "")], &none, here), "http://127.0.0.1:8080 - -");
        assert!(resolve(&context("three"), &[], &all, here).contains("context `three` not found"));
        assert!(resolve(&plain, &[], &none, None).contains("longshore login SERVER"));
    }

    #[test]
    fn context_token_is_used_for_its_own_server_only() {
        let elsewhere =
            PlatformArgs { server: Some("https://evil.example.com".to_owned()), ..PlatformArgs::default() };
        assert_eq!(resolve(&elsewhere, &[], &contexts(), None), "https://evil.example.com - -");
        let port = PlatformArgs {
            server: Some("https://one.example.com:444".to_owned()),
            ..PlatformArgs::default()
        };
        assert_eq!(resolve(&port, &[], &contexts(), None), "https://one.example.com:444 - -");
    }
}
