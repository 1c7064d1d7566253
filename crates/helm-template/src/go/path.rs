//! Go's `path`: slash-separated paths, on any platform. Paths are bytes, because file names need not be UTF-8.

/// The shortest equivalent path (`path.Clean`).
pub fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            // The parent of the root is the root.
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    let inside = parts.join(&b'/');
    match (rooted, inside.is_empty()) {
        (true, _) => [b"/", inside.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => inside,
    }
}

/// The last element of a path.
pub fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let trimmed = &path[..end];
    let name = &trimmed[memchr::memrchr(b'/', trimmed).map_or(0, |at| at + 1)..];
    if name.is_empty() { b"/" } else { name }
}

/// All but the last element of a path.
pub fn dir(path: &[u8]) -> Vec<u8> {
    clean(&path[..memchr::memrchr(b'/', path).map_or(0, |at| at + 1)])
}

/// The suffix of the last element that starts at its last dot.
pub fn ext(path: &[u8]) -> &[u8] {
    match memchr::memrchr2(b'.', b'/', path) {
        Some(at) if path[at] == b'.' => &path[at..],
        _ => b"",
    }
}
