//! The file of settings. A key that is not known is an error: it would be a typing error that
//! nobody notices.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de};

use super::{separate, shown::has_secret};
use crate::{
    exit::{CONFIG, Failure},
    time,
};

/// What can stand in it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) nodes: Option<Nodes>,
    pub(super) dir: Option<PathBuf>,
    #[serde(default, deserialize_with = "length_of_time")]
    pub(super) ttl: Option<Duration>,
    #[serde(default, deserialize_with = "length_of_time")]
    pub(super) max_ttl: Option<Duration>,
    pub(super) prefix: Option<String>,
    pub(super) who: Option<String>,
    pub(super) restart_guard: Option<bool>,
    pub(super) durable_nodes: Option<bool>,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
}

/// Addresses: a list, or one text with commas between.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Nodes {
    List(Vec<String>),
    Text(String),
}

impl Nodes {
    pub(super) fn list(&self) -> Vec<String> {
        match self {
            Self::List(list) => list.clone(),
            Self::Text(text) => separate(text),
        }
    }

    pub(super) fn has_password(&self) -> bool {
        self.list().iter().any(|node| has_secret(node))
    }
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::new(CONFIG, format!("{shown} cannot be read: {error}")))?;
        toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
            Failure::new(CONFIG, format!("{shown}, line {line}: {}", unrevealing(error.message())))
        })
    }
}

/// An error can quote what stands in the file, passwords too.
fn unrevealing(message: &str) -> &str {
    match message.contains("://") {
        true => "this is not what belongs here",
        false => message,
    }
}

fn length_of_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    time::parse(&text).map(Some).map_err(de::Error::custom)
}
