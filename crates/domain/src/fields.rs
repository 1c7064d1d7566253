//! Validated fields of accounts.

use std::fmt;

use crate::ids::truncate_for_error;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    #[error("`{0}` is not an e-mail address")]
    Email(String),
    #[error("`{0}` is not a phone number of 5 to 15 digits")]
    Phone(String),
    #[error("an organization must have 1 to 128 printable characters")]
    Organization,
    #[error("a password must have 10 to 256 characters")]
    Password,
}

/// E-mail address in lower case: addresses that differ only in case belong to one account.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Email(String);

impl Email {
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let wrong = || FieldError::Email(truncate_for_error(text));
        let (local, host) = text.trim().rsplit_once('@').ok_or_else(wrong)?;
        let is_local_valid = !local.is_empty()
            && local.len() <= 64
            && local.bytes().all(|byte| byte.is_ascii_graphic() && !b"@\"(),:;<>[\\]".contains(&byte));
        let is_label_valid = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let is_host_valid = host.len() <= 253 && host.contains('.') && host.split('.').all(is_label_valid);
        if is_local_valid && is_host_valid {
            Ok(Self(format!("{local}@{host}").to_ascii_lowercase()))
        } else {
            Err(wrong())
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Phone number, reduced to its digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Phone(String);

impl Phone {
    /// Accepts a leading plus and the usual separators.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let wrong = || FieldError::Phone(truncate_for_error(text));
        let rest = text.trim();
        let rest = rest.strip_prefix('+').unwrap_or(rest);
        let digits: String =
            rest.chars().filter(|c| !matches!(c, ' ' | '-' | '.' | '(' | ')' | '/')).collect();
        let well = (5..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        if well && rest.len() <= 32 { Ok(Self(digits)) } else { Err(wrong()) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Organization of a user, free text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organization(String);

impl Organization {
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let text = text.trim();
        let length = text.chars().take(129).count();
        let well = (1..=128).contains(&length) && !text.chars().any(char::is_control);
        if well { Ok(Self(text.to_owned())) } else { Err(FieldError::Organization) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A password. `Debug` does not print it.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// Validates the length of a new password. For sign-in use [`Password::from_sign_in`].
    pub fn parse_new(text: &str) -> Result<Self, FieldError> {
        let length = text.chars().take(257).count();
        if (10..=256).contains(&length) { Ok(Self(text.to_owned())) } else { Err(FieldError::Password) }
    }

    /// A password entered at sign-in. It is truncated beyond the maximum length, so that hashing it costs no more than
    /// a valid one.
    pub fn from_sign_in(text: &str) -> Self {
        Self(text.chars().take(257).collect())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn email_is_normalized_to_lower_case() {
        assert_eq!(Email::parse(" Ana.B+x@Example.COM ").unwrap().as_str(), "ana.b+x@example.com");
        for wrong in
            ["", "@", "ana", "ana@", "@example.com", "ana@example", "a b@example.com", "a@-x.com", "a@b..com"]
        {
            assert!(Email::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Email::parse(&format!("{}@example.com", "a".repeat(65))).is_err());
    }

    #[test]
    fn phone_is_reduced_to_digits() {
        assert_eq!(Phone::parse("+86 183-0000-0000").unwrap().as_str(), "8618300000000");
        assert_eq!(Phone::parse("18300000000").unwrap().as_str(), "18300000000");
        for wrong in ["", "kube-system", "1234", "1234567890123456", "+", "18300000000a", "١٢٣٤٥٦"] {
            assert!(Phone::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn password_and_organization_lengths_are_limited() {
        assert!(Password::parse_new("123456789").is_err());
        assert!(Password::parse_new("1234567890").is_ok());
        assert!(Password::parse_new(&"x".repeat(257)).is_err());
        assert_eq!(Password::from_sign_in(&"x".repeat(10_000)).expose().len(), 257);
        assert!(!format!("{:?}", Password::from_sign_in("secret")).contains("secret"));
        assert!(Organization::parse("株式会社 Acme").is_ok());
        for wrong in ["", "  ", "a\nb"] {
            assert_eq!(Organization::parse(wrong), Err(FieldError::Organization));
        }
    }

    proptest! {
        #[test]
        fn what_was_accepted_is_accepted_again(text in "\\PC{0,80}") {
            if let Ok(email) = Email::parse(&text) {
                prop_assert_eq!(Email::parse(email.as_str()), Ok(email.clone()));
            }
            if let Ok(phone) = Phone::parse(&text) {
                prop_assert_eq!(Phone::parse(phone.as_str()), Ok(phone.clone()));
            }
        }
    }
}
