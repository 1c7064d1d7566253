//! More stack for what goes as deep as its input, so that the depth is for limits to say and not for the thread.

/// What one step into a value takes, and more.
const FOR_A_VALUE: usize = 128 << 10;

/// A template of the deepest nesting that the parser allows fits into this.
const FOR_A_TEMPLATE: usize = 1 << 20;

/// For a step down into a value: there is stack for it, however little the caller had left.
pub(crate) fn deeper<T>(go_on: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(FOR_A_VALUE, 2 << 20, go_on)
}

/// The same for running a template.
pub(crate) fn for_template<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(FOR_A_TEMPLATE, 8 << 20, run)
}

/// Whether [`for_template`] would take more stack now.
pub(crate) fn is_short_for_template() -> bool {
    stacker::remaining_stack().is_none_or(|left| left < FOR_A_TEMPLATE)
}
