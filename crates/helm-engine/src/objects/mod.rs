//! Built-in objects besides `.Values` and `.Release`: `.Chart`, `.Files`, `.Capabilities`.

mod capabilities;
mod files;
mod metadata;
mod record;

pub use capabilities::capabilities;
pub use files::FilesObject;
pub use metadata::metadata;

#[cfg(test)]
mod tests;
