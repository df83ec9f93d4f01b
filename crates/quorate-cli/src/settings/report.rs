//! `quorate config`: the effective settings and their sources, without secrets.

use std::{borrow::Cow, path::PathBuf};

use quorate::Client;
use serde_json::{Value, json};
use url::Url;

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
        let nodes: Vec<String> = settings.nodes.value.iter().map(|url| redacted(url)).collect();
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

/// An address with all possible secrets replaced, even in places where they do not belong. Invalid
/// parts are shown, so that they can be corrected.
pub(super) fn redacted(address: &str) -> String {
    let hidden = || "(not an address)".to_owned();
    let Ok(mut url) = Url::parse(address) else { return hidden() };
    let rest = &address[address.find("://").map_or(0, |at| at + 3)..];
    let (_, after_host) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // An `@` after the host: a special character has split a password.
    if url.cannot_be_a_base() || url.has_host() && after_host.contains('@') {
        return hidden();
    }
    // Each call fails only if the address cannot have this part.
    let _ = match url.password() {
        Some(_) => url.set_password(Some(REDACTED)),
        // Many users write a password here.
        None if !url.username().is_empty() => url.set_username(REDACTED),
        None => Ok(()),
    };
    if url.query().is_some() {
        let pairs: Vec<(String, String)> = url.query_pairs().map(redacted_option).collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    if url.fragment().is_some() {
        url.set_fragment(Some(REDACTED));
    }
    url.to_string()
}

/// Whether redaction changes the address.
pub(super) fn has_secret(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| url.as_str() != redacted(address))
}

/// An option of an address. An unknown key may be the rest of a password.
fn redacted_option((key, value): (Cow<'_, str>, Cow<'_, str>)) -> (String, String) {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    match &*key {
        "db" if is_number => (key.into(), value.into()),
        "db" | "user" | "username" | "pass" | "password" => (key.into(), REDACTED.into()),
        _ => (REDACTED.into(), REDACTED.into()),
    }
}

const REDACTED: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_passwords() {
        for (address, shown) in [
            ("redis://10.0.0.1", "redis://10.0.0.1"),
            ("redis://user:secret@h:1/2", "redis://user:***@h:1/2"),
            ("unix:///a/b?db=1&pass=secret", "unix:///a/b?db=1&pass=***"),
            ("redis://s3cret@h2", "redis://***@h2"),
            ("redis://s3cret:@h2", "redis://***@h2"),
            ("redis://:secret@h2", "redis://:***@h2"),
            ("redis://h3?password=s3cret", "redis://h3?password=***"),
            ("unix:///a/b?user=u&db=secret&s3cret", "unix:///a/b?user=***&db=***&***=***"),
            ("redis://h#s3cret", "redis://h#***"),
            ("unix:///a@b", "unix:///a@b"),
            ("redis://user:12/s3cret@h", "(not an address)"),
            ("redis://user:12?s3cret@h", "(not an address)"),
            ("redis://user:12#s3cret@h", "(not an address)"),
            ("redis:s3cret@h", "(not an address)"),
            ("secret", "(not an address)"),
        ] {
            assert_eq!(redacted(address), shown);
            let is_hidden = address != shown && Url::parse(address).is_ok();
            assert_eq!(has_secret(address), is_hidden, "{address}");
        }
    }
}
