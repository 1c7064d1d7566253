//! Charts by digest, from archives, repositories and registries.
