//! Requests and releases, and their controllers.
