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
pub use labels::LabelSelector;

/// Maximum size of a selector's text in bytes. Kubernetes has no such limit.
const MAX_SELECTOR_BYTES: usize = 8 << 10;
/// Maximum number of requirements, and of values of requirements with several. Kubernetes has no such limit.
pub const MAX_REQUIREMENTS: usize = 500;

fn check_length(parameter: &str, text: &str) -> Result<(), String> {
    if text.len() <= MAX_SELECTOR_BYTES {
        return Ok(());
    }
    Err(format!("{parameter} is too long (limit {MAX_SELECTOR_BYTES} bytes)"))
}

fn check_count(parameter: &str, counted: &str, count: usize) -> Result<(), String> {
    if count <= MAX_REQUIREMENTS {
        return Ok(());
    }
    Err(format!("{parameter} has {count} {counted} (limit {MAX_REQUIREMENTS})"))
}
