//! Traffic: Ingress, `NetworkPolicy`, `EndpointSlice`, and addresses in general.

pub mod ingress;
pub mod ip;
pub mod traffic;
