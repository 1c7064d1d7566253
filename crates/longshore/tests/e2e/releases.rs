//! Releases on a cluster that others use, too: public charts beside the real Helm ([`public`]).

mod public;
