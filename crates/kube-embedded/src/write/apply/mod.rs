//! Server-side apply and the managed fields that every write keeps.
