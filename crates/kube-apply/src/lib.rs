//! Objects onto a cluster and off it: apply, inventory, readiness, drift, diff.
