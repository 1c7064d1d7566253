//! Helm's commands, run in this process.
//!
//! [`lint`] holds small charts of our own against Helm's recorded words, [`commands`] does a little of everything with
//! charts that it makes, [`remote`] fetches some from a server that it makes, [`template`] types what Helm was asked, too, and [`corpus`] compares with the real Helms on the charts of `LONGSHORE_CORPUS`. The real
//! Helms are named by `LONGSHORE_HELM_3_17` and `LONGSHORE_HELM_4_3`.

mod commands;
mod corpus;
mod lint;
mod lint_cases;
mod program;
mod remote;
mod template;
