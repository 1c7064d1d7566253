//! What each request does.
