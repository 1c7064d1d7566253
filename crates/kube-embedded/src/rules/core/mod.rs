//! The core group, except workloads.

pub mod cluster;
pub mod config;
pub mod service;
pub mod service_addresses;
pub mod volume;
