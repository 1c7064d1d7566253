//! What templates inherit from Go itself: how literals are written (`quote`, `number`) and how values are printed
//! (`float`, `print`, `printf`).

mod base64;
mod float;
mod number;
pub mod path;
mod print;
mod printf;
mod quote;
pub mod regexp;
pub mod time;
pub mod url;

pub use base64::base64;
pub use float::{Form, format as format_float};
pub use number::{Number, Unreadable};
pub use print::{print, print_all};
pub use printf::printf;
pub use quote::{Quoted, can_backquote, is_printable, quote, unquote};
