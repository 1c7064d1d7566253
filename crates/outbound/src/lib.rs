//! The one way out of the process: every address is checked before it is dialled.
