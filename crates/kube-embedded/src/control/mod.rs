//! What follows from a change by itself.
