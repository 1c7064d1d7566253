//! Banned third-party crates, with reasons.
//!
//! Checked against the output of `cargo tree`, which lists the crates that are built: the lock file also names optional
//! crates that no feature enables.

/// Names and reasons. `chrono` is not banned, because `kube-cel` and its `cel` compute with its types; the platform's
/// own code uses `jiff`.
const BANNED: &[(&str, &str)] = &[
    ("openssl", "TLS is rustls"),
    ("openssl-sys", "TLS is rustls"),
    ("native-tls", "TLS is rustls"),
    ("ring", "cryptography is aws-lc-rs, once"),
    ("serde_yaml", "it is given up by its author; YAML is serde_norway"),
    ("serde_yml", "it is unsound; YAML is serde_norway"),
];

/// Checks `built`, which has a line `name v1.2.3 ...` per crate; returns complaints.
pub fn check(built: &str) -> Vec<String> {
    let mut names: Vec<&str> = built.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    let why = |name: &str| BANNED.iter().find(|(banned, _)| *banned == name).map(|(_, why)| why);
    names.into_iter().filter_map(|name| Some(format!("{name}: banned, for {}", why(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn check_names_banned_crate_once_with_reason() {
        let built = "server v0.1.0 (/somewhere)\nring v0.17.14\nring v0.17.14 (*)\nstring v1.0.0\n";
        assert_eq!(check(built), ["ring: banned, for cryptography is aws-lc-rs, once"]);
    }
}
