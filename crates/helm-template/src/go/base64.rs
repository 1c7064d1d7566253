//! Base64, as `encoding/json` writes bytes.

use base64::Engine;

pub fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
