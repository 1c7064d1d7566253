//! The acts on an embedded cluster.

mod apart;
mod course;
mod hooks;
mod kills;
mod refused;
mod stage;
mod together;
