//! Tests of the actions on an embedded cluster.

mod apart;
mod chance;
mod course;
mod hooks;
mod kills;
mod refused;
mod stage;
mod together;
