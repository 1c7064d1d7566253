//! Networking: Ingress, `NetworkPolicy`, `EndpointSlice`, and IP addresses.

pub mod ingress;
pub mod ip;
pub mod traffic;
