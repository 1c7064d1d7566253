//! Releases on a cluster that others use, too: public charts beside the real Helm ([`public`]), and all of us on the same
//! releases ([`interop`]).

mod interop;
mod public;
