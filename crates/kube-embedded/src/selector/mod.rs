//! Which objects a list, a watch or a deletion means, and where a list goes on.
//!
//! Asked by the verbs with the query's texts; answers with selectors that look at what the store keeps beside
//! an object, or with the refusal in the words of Kubernetes. Pure.
//!
//! Selectors that clients send are bounded in bytes and requirements, because each requirement is compared with each object.

pub mod continue_token;
pub mod fields;
pub mod labels;

pub use continue_token::ContinueToken;
pub use fields::FieldSelector;
pub use labels::Labels;

/// Bytes of the text of a selector. Not in Kubernetes.
const MOST_BYTES: usize = 8 << 10;
/// Requirements of a selector, and values of requirements with several. Not in Kubernetes.
const MOST_REQUIREMENTS: usize = 500;

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
