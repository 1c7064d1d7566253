//! Indexes by both ways.
