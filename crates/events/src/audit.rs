//! Who did what, on which object, from where, with what result: one line each, before the answer is sent.
