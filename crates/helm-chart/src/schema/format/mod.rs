//! The `format` keyword.
//!
//! Both Helm versions support about the same formats with different edge cases. Only Helm 4 reports reasons
//! ([`violation`]).

mod address;
mod datetime;
mod pointer;
mod url;
mod version;

use helm_template::go::regexp::Expression;
use helm_template::profile::Profile;

/// Whether Helm 3 knows the format: it then validates strings and rejects numbers.
pub fn is_known(format: &str) -> bool {
    matches!(
        format,
        "date"
            | "time"
            | "date-time"
            | "hostname"
            | "email"
            | "idn-email"
            | "ipv4"
            | "ipv6"
            | "uri"
            | "uri-reference"
            | "iri"
            | "iri-reference"
            | "uri-template"
            | "uuid"
            | "regex"
            | "json-pointer"
            | "relative-json-pointer"
    )
}

/// Helm 3's validation. Unknown formats accept everything.
pub fn is_valid(format: &str, text: &str) -> bool {
    match format {
        "date" => datetime::date(text).is_ok(),
        "time" => datetime::is_time(text),
        "date-time" => datetime::is_date_time(text),
        "hostname" => text.len() < 256 && address::hostname(text).is_ok() && !text.ends_with('.'),
        "email" | "idn-email" => address::is_mailbox(text),
        "ipv4" => text.contains('.') && text.parse::<std::net::IpAddr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<std::net::IpAddr>().is_ok(),
        "uri" | "iri" => !text.contains('\\') && url::scheme(text).is_ok_and(|scheme| scheme.is_some()),
        "uri-reference" | "iri-reference" => !text.contains('\\') && url::scheme(text).is_ok(),
        "uri-template" => {
            !text.contains('\\') && url::scheme(text).is_ok() && pointer::are_braces_closed(text)
        }
        "uuid" => pointer::uuid(text).is_ok() && !text.contains(|c: char| c.is_ascii_uppercase()),
        "regex" => Expression::compile(text, Profile::Helm3).is_ok(),
        "json-pointer" => pointer::json_pointer(text).is_ok(),
        "relative-json-pointer" => pointer::relative(text).is_ok(),
        _ => true,
    }
}

/// Helm 4's error message for a string that violates the format. Unknown formats accept everything.
pub fn violation(format: &str, text: &str) -> Option<String> {
    let checked = match format {
        "regex" => Expression::compile(text, Profile::Helm4).map(drop),
        "date" => datetime::date(text),
        "time" => datetime::time(text),
        "date-time" => datetime::date_time(text),
        "duration" => datetime::duration(text),
        "period" => datetime::period(text),
        "hostname" => address::hostname(text),
        "email" => address::email(text),
        "ipv4" => address::ipv4(text),
        "ipv6" => address::ipv6(text),
        "uri" | "iri" => url::absolute(text),
        "uri-reference" | "iri-reference" => url::reference(text),
        "uuid" => pointer::uuid(text),
        "json-pointer" => pointer::json_pointer(text),
        "relative-json-pointer" => pointer::relative(text),
        "semver" => version::semver(text),
        _ => Ok(()),
    };
    checked.err()
}

/// A character as Go's `%q` formats it.
fn quoted(c: char) -> String {
    helm_template::go::printf("%q", &[helm_template::value::Value::Int(i64::from(u32::from(c)))])
}

fn invalid<T>(text: impl Into<String>) -> Result<T, String> {
    Err(text.into())
}
