//! Which objects a list, a watch or a deletion means, and where a list goes on.
//!
//! Asked by the verbs with the query's texts; answers with selectors that look at what the store keeps beside
//! an object, or with the refusal in the words of Kubernetes. Pure.

pub mod continue_token;
pub mod fields;
pub mod labels;

pub use continue_token::ContinueToken;
pub use fields::FieldSelector;
pub use labels::Labels;
