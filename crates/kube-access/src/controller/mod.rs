//! Controller runtime: reconcile queues, panic isolation and supervision of tasks.
//!
//! Modules:
//! - [`queue`]: keys to reconcile, with backoff; a panic in one reconcile is an error of that key alone.
//! - [`panic_event`]: the event of an object whose reconcile panicked.
//! - [`slots`]: slots of a controller, shared among tenants.
//! - [`runtime`]: restarts controllers, caches, listeners and garbage collectors that end or panic, counts it, and reports failing tasks.

pub mod panic_event;
pub mod queue;
pub mod runtime;
pub mod slots;

pub use runtime::{PanicError, TaskHandle, TaskRuntime, isolate, runtime};
pub use slots::SlotLimits;
