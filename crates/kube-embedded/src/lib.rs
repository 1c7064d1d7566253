//! A Kubernetes API server in process, over one crash-safe file.
//!
//! Modules in reading order: the whole ([`cluster`]), what is asked ([`http`], [`discovery`], [`openapi`]),
//! what it means ([`verbs`]), how a body is read ([`decode`], [`selector`], [`quantity`]), what the kinds are
//! ([`registry`], [`schema`], [`rules`], [`crd`], [`print`]), who may ([`access`], [`admission`], [`policy`]),
//! how a change is computed ([`write`]), where it is kept ([`store`]), and what follows from it by itself
//! ([`control`], [`bootstrap`]).

pub mod clock;
pub mod error;
pub mod field;

pub mod cluster;

pub mod discovery;
pub mod http;
pub mod openapi;

pub mod verbs;

pub mod decode;
pub mod quantity;
pub mod selector;

pub mod crd;
pub mod print;
pub mod registry;
pub mod rules;
pub mod schema;

pub mod access;
pub mod admission;
pub mod policy;

pub mod write;

pub mod store;

pub mod bootstrap;
pub mod control;
