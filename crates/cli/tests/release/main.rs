//! Releases straight on a cluster: what we print beside what the real Helm prints, on an embedded cluster that listens
//! on loopback. The real one is named by `LONGSHORE_HELM_4_3`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod beside;
mod desk;
mod refused;
mod story;
