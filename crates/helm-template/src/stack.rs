//! Stack growth for recursion that is as deep as its input, so that configured limits apply and not the thread's stack size.

/// More than one recursion step into a value needs.
const FOR_A_VALUE: usize = 128 << 10;

/// Enough for a template of the deepest nesting that the parser allows.
const FOR_A_TEMPLATE: usize = 1 << 20;

/// Runs one recursion step into a value, on a new stack segment if little stack is left.
pub(crate) fn deeper<T>(go_on: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(FOR_A_VALUE, 2 << 20, go_on)
}

/// Runs a template, on a new stack segment if little stack is left.
pub(crate) fn for_template<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(FOR_A_TEMPLATE, 8 << 20, run)
}

/// Whether [`for_template`] would allocate a new stack segment now.
pub(crate) fn is_short_for_template() -> bool {
    stacker::remaining_stack().is_none_or(|left| left < FOR_A_TEMPLATE)
}
