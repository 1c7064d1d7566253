//! Semantic versions and constraints as Masterminds' library reads them.
