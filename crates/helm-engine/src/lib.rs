//! Charts and values in; manifests in order, hooks and notes out, as Helm makes them.
