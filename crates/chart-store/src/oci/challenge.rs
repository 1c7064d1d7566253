//! Authentication challenges of registries, and which token services may get the registry's password.

use outbound::Address;

/// A parsed `WWW-Authenticate` challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    /// A token from a token service.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

/// Parses `WWW-Authenticate`. Other schemes are ignored.
pub fn parse_challenge(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest);
    let find = |name: &str| {
        parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    Some(Challenge::Bearer { realm: find("realm")?, service: find("service"), scope: find("scope") })
}

/// Parses `a="b,c", d=e`.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches([' ', ',']);
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((name.trim().to_owned(), value.trim().to_owned()));
        rest = after.trim_start_matches([' ', ',']);
    }
    found
}

/// Token services on a sibling host of their registry: registry, token service.
const TOKEN_SERVICES: [(&str, &str); 3] = [
    ("registry-1.docker.io", "auth.docker.io"),
    ("index.docker.io", "auth.docker.io"),
    ("registry.docker.io", "auth.docker.io"),
];

/// Whether the token service belongs to the registry's owner, so that it may get the registry's password. It does if it has the same
/// host, the direct parent domain of the registry's host (`gitlab.com` for `registry.gitlab.com`, whose owner controls that name), or
/// is paired with it in [`TOKEN_SERVICES`]; and its connection must be no less secure.
///
/// A common parent domain does not suffice: `a.azurecr.io` and `b.azurecr.io` are customers of one provider. The public suffix
/// list does not distinguish them, because it lists few registries (neither `azurecr.io` nor `jfrog.io`).
pub fn is_trusted_realm(registry: &Address, realm: &Address) -> bool {
    if registry.origin() == realm.origin() {
        return true;
    }
    let (ours, theirs) = (registry.host(), realm.host());
    let is_name = |host: &str| host.contains('.') && host.ends_with(|last: char| last.is_ascii_alphabetic());
    let is_parent = ours.split_once('.').is_some_and(|(_, parent)| parent == theirs);
    let known = TOKEN_SERVICES.contains(&(ours, theirs));
    realm.is_secure() && is_name(ours) && is_name(theirs) && (ours == theirs || is_parent || known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_challenge_reads_basic_and_bearer() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
            Some(Challenge::Bearer { realm: realm.to_owned(), service, scope })
        };
        let rows = [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a/token\",service=\"r\",scope=\"repository:a/b:pull,push\"",
                bearer("https://a/token", Some("r"), Some("repository:a/b:pull,push")),
            ),
            ("bearer  Realm=https://a/t , service=s", bearer("https://a/t", Some("s"), None)),
            ("Bearer service=\"r\"", None),
            ("Digest realm=\"x\"", None),
            ("", None),
            ("Bearer realm=\"unclosed", bearer("unclosed", None, None)),
        ];
        for (header, expected) in rows {
            assert_eq!(parse_challenge(header), expected, "{header}");
        }
    }

    #[test]
    fn credentials_go_only_to_the_registrys_token_service() {
        let rows = [
            ("https://ghcr.io", "https://ghcr.io/token", true),
            ("https://registry-1.docker.io", "https://auth.docker.io/token", true),
            ("https://registry.gitlab.com", "https://gitlab.com/jwt/auth", true),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5000/token", true),
            ("https://a.azurecr.io", "https://a.azurecr.io/oauth2/token", true),
            ("https://a.azurecr.io", "https://b.azurecr.io/oauth2/token", false),
            ("https://mine.jfrog.io", "https://theirs.jfrog.io/token", false),
            ("https://registry.example.com", "https://evil.example.com/token", false),
            ("https://ghcr.io", "https://evil.io/token", false),
            ("https://ghcr.io", "http://ghcr.io/token", false),
            ("https://registry.a.example", "https://auth.b.example/token", false),
            ("https://10.0.0.1", "https://10.1.0.1/token", false),
            ("https://10.0.0.1", "https://0.0.1.evil.io/token", false),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5001/token", false),
            ("https://a.example", "https://b.example/token", false),
        ];
        for (registry, realm, own) in rows {
            assert_eq!(
                is_trusted_realm(&registry.parse().unwrap(), &realm.parse().unwrap()),
                own,
                "{registry} {realm}"
            );
        }
    }
}
