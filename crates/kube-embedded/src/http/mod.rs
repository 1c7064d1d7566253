//! The protocol: paths, media types, bodies, streams.
