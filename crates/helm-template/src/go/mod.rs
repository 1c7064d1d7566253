//! The parts of Go that templates depend on.
//!
//! Modules:
//! - `quote`, `number`: literals.
//! - `float`, `print`, `printf`, `verbs`: formatting of values, as in `fmt` and `strconv`.
//! - `unicode`: character categories and case mapping.
//! - `encoding`: base64 and base32.
//! - [`path`], [`url`], [`regexp`], [`time`]: the Go packages of these names.

mod encoding;
mod float;
mod number;
pub mod path;
mod print;
mod printf;
mod quote;
pub mod regexp;
mod text;
pub mod time;
pub mod unicode;
pub mod url;
mod verbs;

pub use encoding::{CorruptInputError, base32, base32_decode, base64, base64_decode};
pub use float::{FloatFormat, format as format_float};
pub use number::{Number, NumberSyntaxError, any_float as parse_float, int as parse_int};
pub use print::{print, print_all, print_bytes, print_line, write as write_printed};
pub use printf::printf;
pub(crate) use printf::printf_within;
pub use quote::{Quoted, can_backquote, is_printable, quote, quote_bytes, unquote};
pub use text::lossy_text;
