//! Traffic: Ingress, NetworkPolicy, EndpointSlice, and addresses in general.

pub mod ip;
