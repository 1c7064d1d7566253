//! Stack growth for recursion that is as deep as its input, so that configured limits apply and not the thread's stack size.

/// More than one recursion step into a value needs.
const VALUE_STACK_BYTES: usize = 128 << 10;

/// Enough for a template of the deepest nesting that the parser allows.
const TEMPLATE_STACK_BYTES: usize = 1 << 20;

/// Runs one recursion step into a value, on a new stack segment if little stack is left.
pub(crate) fn grow_for_value<T>(go_on: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(VALUE_STACK_BYTES, 2 << 20, go_on)
}

/// Runs a template, on a new stack segment if little stack is left.
pub(crate) fn grow_for_template<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(TEMPLATE_STACK_BYTES, 8 << 20, run)
}

/// Whether [`grow_for_template`] would allocate a new stack segment now.
pub(crate) fn is_short_for_template() -> bool {
    stacker::remaining_stack().is_none_or(|left| left < TEMPLATE_STACK_BYTES)
}
