//! Selection of server and credentials.
//!
//! Precedence: arguments, environment, contexts file, a server running on this machine. A token of the contexts file is
//! sent only to its own server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::address::Address;
use super::contexts::{Context, Contexts};
use super::secret::Secret;

/// Arguments of every command that sends requests to a platform.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which platform")]
pub struct Target {
    #[arg(
        long,
        value_name = "URL",
        global = true,
        conflicts_with = "context",
        help = "Its address [default: LONGSHORE_SERVER, else that of the current context, else the server that runs here]"
    )]
    pub server: Option<String>,
    /// PEM file with the authority of its certificate [default: those that the system trusts]
    #[arg(long, value_name = "FILE", global = true)]
    pub ca: Option<PathBuf>,
    /// One of `longshore context list`, instead of the current one
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,
    /// What to show there, which others on this machine can see [default: `LONGSHORE_TOKEN`, else that of the context]
    #[arg(long, value_name = "TOKEN", global = true, value_parser = secret)]
    pub token: Option<Secret>,
}

#[expect(clippy::unnecessary_wraps, reason = "clap asks for a result")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// Server and credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub server: Address,
    pub ca: Option<PathBuf>,
    pub token: Option<Secret>,
}

/// Sources besides the arguments.
pub struct Known<'a> {
    pub environment: &'a BTreeMap<String, String>,
    pub contexts: &'a Contexts,
    /// Lowest precedence: address of a server running on this machine.
    pub runs_here: &'a dyn Fn() -> Result<Option<String>, String>,
}

impl<'a> Known<'a> {
    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The selected server and its context.
    pub fn server(&self, target: &Target) -> Result<(Address, Option<&'a Context>), Failure> {
        if let Some(name) = &target.context {
            let context = self.contexts.named(name)?;
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
            None => (self.runs_here)().map_err(Failure::RunsHere)?.ok_or(Failure::NoServer)?,
        };
        let server: Address = named.parse()?;
        let context = self.contexts.of_server(&server);
        Ok((server, context))
    }

    /// The selected server with credentials.
    pub fn access(&self, target: &Target) -> Result<Access, Failure> {
        let (server, context) = self.server(target)?;
        let token = target.token.clone().or_else(|| self.variable("LONGSHORE_TOKEN").map(Secret::new));
        let token = token.or_else(|| context.and_then(|context| context.token.clone()));
        let ca = target.ca.clone().or_else(|| context.and_then(|context| context.ca.clone()));
        Ok(Access { server, ca, token })
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
        contexts.enter(context("one", "https://one.example.com"));
        contexts.enter(context("two", "https://two.example.com"));
        contexts.enter(context("again", "https://one.example.com"));
        contexts
    }

    /// The server and token selected by arguments, environment, contexts and a local server.
    fn chosen(
        target: &Target,
        environment: &[(&str, &str)],
        contexts: &Contexts,
        here: Option<&str>,
    ) -> String {
        let environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let runs_here = || Ok(here.map(str::to_owned));
        let known = Known { environment: &environment, contexts, runs_here: &runs_here };
        match known.access(target) {
            Ok(Access { server, ca, token }) => {
                let token = token.as_ref().map_or("-", Secret::expose);
                let ca = ca.map_or("-".to_owned(), |ca| ca.display().to_string());
                format!("{server} {token} {ca}")
            }
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn what_is_nearer_to_the_fingers_wins() {
        let (all, none) = (contexts(), Contexts::default());
        let plain = Target::default();
        let server = |url: &str| Target { server: Some(url.to_owned()), ..Target::default() };
        let context = |name: &str| Target { context: Some(name.to_owned()), ..Target::default() };
        let of_two = [("LONGSHORE_SERVER", "https://two.example.com")];
        let of_token = [("LONGSHORE_TOKEN", "lsh_env_x")];
        let here = Some("http://127.0.0.1:8080");

        assert_eq!(chosen(&plain, &[], &all, here), "https://one.example.com lsh_again_x /again.pem");
        assert_eq!(
            chosen(&context("one"), &of_two, &all, here),
            "https://one.example.com lsh_one_x /one.pem"
        );
        assert_eq!(chosen(&plain, &of_two, &all, here), "https://two.example.com lsh_two_x /two.pem");
        assert_eq!(
            chosen(&server("one.example.com"), &of_two, &all, here),
            "https://one.example.com lsh_again_x /again.pem"
        );
        assert_eq!(chosen(&plain, &of_token, &all, here), "https://one.example.com lsh_env_x /again.pem");
        let typed = Target { token: Some(Secret::new("lsh_typed_x")), ..Target::default() };
        assert_eq!(chosen(&typed, &of_token, &all, here), "https://one.example.com lsh_typed_x /again.pem");
        assert_eq!(chosen(&plain, &[], &none, here), "http://127.0.0.1:8080 - -");
        assert_eq!(chosen(&plain, &[("LONGSHORE_SERVER", "")], &none, here), "http://127.0.0.1:8080 - -");
        assert!(chosen(&context("three"), &[], &all, here).contains("no context `three`"));
        assert!(chosen(&plain, &[], &none, None).contains("longshore login SERVER"));
    }

    #[test]
    fn a_token_goes_to_no_other_server() {
        let elsewhere = Target { server: Some("https://evil.example.com".to_owned()), ..Target::default() };
        assert_eq!(chosen(&elsewhere, &[], &contexts(), None), "https://evil.example.com - -");
        let port = Target { server: Some("https://one.example.com:444".to_owned()), ..Target::default() };
        assert_eq!(chosen(&port, &[], &contexts(), None), "https://one.example.com:444 - -");
    }
}
