//! What templates inherit from Go itself: how literals are written (`quote`, `number`) and how values are printed
//! (`float`, `print`, `printf`).

mod base64;
mod float;
mod number;
mod print;
mod printf;
mod quote;
mod text;

pub use base64::base64;
pub use float::{Form, format as format_float};
pub use number::{Number, Unreadable};
pub use print::{print, print_all};
pub use printf::printf;
pub use quote::{Quoted, is_printable, quote, unquote};
pub use text::text_of;
