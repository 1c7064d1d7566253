//! URL formatting.

use super::escape::{UrlPart, escape};
use super::{Url, User};

impl Url {
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.write_place(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, UrlPart::Fragment));
        }
        out
    }

    fn write_place(&self, out: &mut Vec<u8>) {
        let has_host = !self.host.is_empty() || self.user.is_some();
        if has_host || (!self.scheme.is_empty() && !self.path.is_empty()) {
            out.extend_from_slice(b"//");
        }
        if let Some(user) = &self.user {
            out.extend(user.write());
            out.push(b'@');
        }
        out.extend(escape(&self.host, UrlPart::Host));
        let path = if self.path == b"*" { self.path.clone() } else { escape(&self.path, UrlPart::Path) };
        if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
            out.push(b'/');
        }
        // Without this prefix, the first segment could be parsed as a scheme.
        let segment = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        if out.is_empty() && segment.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }

    /// The host without port and brackets.
    pub fn hostname(&self) -> &[u8] {
        let host = &self.host;
        let port = memchr::memrchr(b':', host).filter(|at| host[at + 1..].iter().all(u8::is_ascii_digit));
        let host = &host[..port.unwrap_or(host.len())];
        host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host)
    }
}

impl User {
    pub fn write(&self) -> Vec<u8> {
        let mut out = escape(&self.name, UrlPart::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, UrlPart::User));
        }
        out
    }
}
