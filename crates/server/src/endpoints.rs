//! `run/endpoints.json` in the data folder: the addresses of the running server.
//!
//! Written when the server is ready and removed when it stops. Commands read it, because ports may have been chosen by the system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kube: Option<String>,
}

fn endpoints_path(data: &Path) -> PathBuf {
    data.join("run").join("endpoints.json")
}

impl Endpoints {
    /// Writes the file atomically, by a rename.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        let path = endpoints_path(data);
        fs::create_dir_all(path.parent().expect("the file is in a folder"))?;
        let draft = path.with_extension("tmp");
        fs::write(&draft, serde_json::to_vec_pretty(self)?)?;
        fs::rename(draft, path)
    }

    /// `None` if the file does not exist.
    pub fn read(data: &Path) -> io::Result<Option<Self>> {
        match fs::read(endpoints_path(data)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn remove(data: &Path) {
        if let Err(error) = fs::remove_file(endpoints_path(data))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot delete the endpoints file");
        }
    }
}
