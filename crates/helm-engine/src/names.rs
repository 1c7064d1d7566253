//! Release names.

use helm_template::go::quote;

/// Helm's maximum length of a release name, which leaves space for suffixes that charts add.
const MAX_NAME_LEN: usize = 53;

/// Checks a release name. Errors carry Helm's message.
pub fn check(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("release name {}: no name provided", quote(name)));
    }
    if name.len() > MAX_NAME_LEN || !name.split('.').all(is_label) {
        return Err(format!(
            "release name {}: invalid release name, must match regex \
             ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than \
             {MAX_NAME_LEN}",
            quote(name)
        ));
    }
    Ok(())
}

fn is_label(label: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = label.as_bytes();
    label.iter().all(|byte| is_end(byte) || *byte == b'-')
        && label.first().is_some_and(is_end)
        && label.last().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_and_rejects_names_like_helm() {
        for name in ["x", "a-b", "a.b-c.9", &"a".repeat(53)] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in ["", "X", "-a", "a-", "a..b", ".a", "a_b", "ä", &"a".repeat(54)] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
