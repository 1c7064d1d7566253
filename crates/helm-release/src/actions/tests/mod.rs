//! Tests of the actions on an embedded cluster.

mod concurrency;
mod failures;
mod fixture;
mod hooks;
mod kill_points;
mod lifecycle;
mod random;
mod rejections;
