//! Helm's release records, and the acts that make them.
