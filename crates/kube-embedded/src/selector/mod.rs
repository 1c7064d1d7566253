//! Label selectors, field selectors and continue tokens.
//!
//! The verbs parse query parameters into selectors that match against labels and fields cached with stored objects; errors have the wording
//! of Kubernetes. Pure: no I/O, no clock.
//!
//! Selectors of clients are bounded in bytes and requirements, because each requirement is compared with each object.

pub mod continue_token;
pub mod fields;
pub mod labels;

pub use continue_token::ContinueToken;
pub use fields::FieldSelector;
pub use labels::Labels;

/// Maximum size of a selector's text in bytes. Kubernetes has no such limit.
const MOST_BYTES: usize = 8 << 10;
/// Maximum number of requirements, and of values of requirements with several. Kubernetes has no such limit.
pub const MOST_REQUIREMENTS: usize = 500;

fn check_length(parameter: &str, text: &str) -> Result<(), String> {
    if text.len() <= MOST_BYTES {
        return Ok(());
    }
    Err(format!("{parameter} is too long (limit {MOST_BYTES} bytes)"))
}

fn check_count(parameter: &str, counted: &str, count: usize) -> Result<(), String> {
    if count <= MOST_REQUIREMENTS {
        return Ok(());
    }
    Err(format!("{parameter} has {count} {counted} (limit {MOST_REQUIREMENTS})"))
}
