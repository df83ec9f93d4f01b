//! The settings file. An unknown key is an error, because it is probably misspelled.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

use super::{report::has_secret, split_addresses};
use crate::{
    exit::{CONFIG, Failure},
    time,
};

/// The keys of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) nodes: Option<Nodes>,
    pub(super) dir: Option<PathBuf>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) ttl: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) max_ttl: Option<Duration>,
    pub(super) prefix: Option<String>,
    pub(super) who: Option<String>,
    pub(super) quarantine: Option<bool>,
    pub(super) durable_nodes: Option<bool>,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
}

/// Addresses: a list, or one text separated by commas.
#[derive(Debug)]
pub(super) struct Nodes(Vec<String>);

impl Nodes {
    pub(super) fn list(&self) -> Vec<String> {
        self.0.clone()
    }

    pub(super) fn has_password(&self) -> bool {
        self.0.iter().any(|node| has_secret(node))
    }
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        // The file may be a pipe, so it is read only once.
        let text = fs::read_to_string(path).map_err(|error| {
            let is_link = fs::symlink_metadata(path).is_ok();
            Failure::new(
                CONFIG,
                match error.kind() {
                    io::ErrorKind::NotFound if !is_link => {
                        format!("no settings file at {shown}")
                    }
                    _ => format!("cannot read {shown}: {error}"),
                },
            )
        })?;
        toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
            Failure::new(
                CONFIG,
                format!("{shown}, line {line}: {}", without_secrets(error.message())),
            )
        })
    }
}

/// An error can quote values of the file, which may contain passwords: of a wrong value, only the
/// expected type is reported.
fn without_secrets(message: &str) -> String {
    let starts = ["invalid type: ", "invalid value: "];
    let is_about_a_value = starts.iter().any(|start| message.starts_with(start));
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if is_about_a_value => format!("expected {expected}"),
        _ if message.contains("://") => "invalid value".into(),
        Some(_) | None => message.into(),
    }
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Addresses;
        impl<'de> Visitor<'de> for Addresses {
            type Value = Nodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of addresses, or a text of addresses separated by commas")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Nodes, E> {
                Ok(Nodes(split_addresses(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Nodes, A::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = list.next_element()? {
                    nodes.push(node);
                }
                Ok(Nodes(nodes))
            }
        }
        from.deserialize_any(Addresses)
    }
}

/// As in a flag: a number without a unit means seconds.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    struct DurationVisitor;
    impl Visitor<'_> for DurationVisitor {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration: a number followed by ms, s, m or h, such as \"500ms\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            time::parse(text).map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
            self.visit_str(&seconds.to_string())
        }

        fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
            self.visit_str(&seconds.to_string())
        }
    }
    from.deserialize_any(DurationVisitor).map(Some)
}
