//! The commands that need no server, run in process as they are typed.

mod template;
