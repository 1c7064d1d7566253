//! Tests of Helm's commands, in process.
//!
//! Modules:
//!
//! - [`lint`]: generated charts against Helm's recorded output
//! - [`commands`]: various commands on generated charts
//! - [`remote`]: charts from a local server
//! - [`template`]: command lines with Helm's recorded output
//! - [`corpus`]: comparison with the real Helm on the charts of `LONGSHORE_CORPUS`
//!
//! `LONGSHORE_HELM_3_17` and `LONGSHORE_HELM_4_3` name the real Helm programs.

mod commands;
mod corpus;
mod lint;
mod lint_cases;
mod program;
mod remote;
mod template;
