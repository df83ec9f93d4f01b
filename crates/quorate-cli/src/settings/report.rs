//! `quorate config`: the effective settings and their sources, without secrets.

use std::path::PathBuf;

use quorate::{Client, masked_address};
use serde_json::{Value, json};

use super::{Setting, Settings};
use crate::time;

/// One row for each setting: its name, its value, its source.
pub(crate) struct SettingsReport(Vec<Row>);

struct Row {
    name: &'static str,
    value: String,
    json: Value,
    from: String,
}

impl SettingsReport {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut rows = Vec::new();
        let mut add = |name, value: String, json: Value, from: String| {
            rows.push(Row { name, value, json, from });
        };
        let nodes: Vec<String> =
            settings.nodes.value.iter().map(|url| masked_address(url)).collect();
        let shown = if nodes.is_empty() { "this machine".into() } else { nodes.join(",") };
        add("nodes", shown, json!(nodes), settings.nodes.from.to_string());
        for (name, setting) in [("ttl", &settings.ttl), ("max_ttl", &settings.max_ttl)] {
            let millis = u64::try_from(setting.value.as_millis()).unwrap_or(u64::MAX);
            add(name, time::shown(setting.value), json!(millis), setting.from.to_string());
        }
        let prefix = &settings.prefix;
        add("prefix", prefix.value.clone(), json!(prefix.value), prefix.from.to_string());
        let durable = &settings.durable_nodes;
        let is_durable = durable.value;
        add("durable_nodes", is_durable.to_string(), json!(is_durable), durable.from.to_string());
        let quarantine = &settings.quarantine;
        let default = || "with three nodes or more".into();
        let shown = quarantine.value.map_or_else(default, |is_on| is_on.to_string());
        add("quarantine", shown, json!(quarantine.value), quarantine.from.to_string());
        let who = &settings.who;
        let shown = who.value.clone().unwrap_or_else(|| "program, host and process".into());
        add("who", shown, json!(who.value), who.from.to_string());
        let mut add_path = |name, setting: &Setting<Option<PathBuf>>, default: &str| {
            let path = setting.value.as_ref().map(|path| path.display().to_string());
            let value = path.clone().unwrap_or_else(|| default.into());
            rows.push(Row { name, value, json: json!(path), from: setting.from.to_string() });
        };
        let own = Client::local_folder().map(|folder| folder.display().to_string());
        add_path(
            "dir",
            &settings.dir,
            &own.unwrap_or_else(|_| "none: set QUORATE_DIR or HOME".into()),
        );
        add_path("tls_ca", &settings.tls_ca, "the system's");
        add_path("tls_cert", &settings.tls_cert, "none");
        add_path("tls_key", &settings.tls_key, "none");
        Self(rows)
    }

    pub(crate) fn rows(&self) -> Vec<[String; 3]> {
        self.0.iter().map(|row| [row.name.into(), row.value.clone(), row.from.clone()]).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let name = |row: &Row| match row.name {
            name @ ("ttl" | "max_ttl") => format!("{name}_ms"),
            name => name.to_owned(),
        };
        let entry = |row: &Row| (name(row), json!({ "value": row.json, "from": row.from }));
        let settings: serde_json::Map<String, Value> = self.0.iter().map(entry).collect();
        json!({ "settings": settings })
    }
}

/// Whether the address contains what may be a password.
pub(super) fn has_secret(address: &str) -> bool {
    masked_address(address) != address
}
