//! Crates made by hand, for the tests of the rules.

use serde_json::{Value, json};

use crate::api::document::Document;
use crate::api::surface::surface;

/// A library with these items at its root, and all of its items by number. It knows three items of
/// other crates: 80 is the core's `Why`, 90 is tokio's `Notify`, 91 is the standard `Clone`.
pub(super) fn library(root: Value, mut items: Value) -> Document {
    items["0"] = json!({"name": "quorate", "docs": EXAMPLE, "inner": {"module": {"items": root}}});
    document(&json!({
        "format_version": 57,
        "root": 0,
        "index": items,
        "paths": {
            "0": {"path": ["quorate"]},
            "80": {"path": ["quorate_core", "lease", "Why"]},
            "90": {"path": ["tokio", "sync", "Notify"]},
            "91": {"path": ["core", "clone", "Clone"]},
        },
    }))
}

/// A core with one enum, whose numbers differ from those of the library.
pub(super) fn core() -> Document {
    document(&json!({
        "format_version": 57,
        "root": 0,
        "index": {
            "0": {"name": "quorate_core", "inner": {"module": {"items": []}}},
            "1": {"name": "Why", "docs": EXAMPLE, "inner": {"enum": {"impls": [2]}}},
            "2": {"inner": {"impl": {"trait": null, "items": [3]}}},
            "3": {"name": "as_str", "docs": EXAMPLE, "inner": {"function": {}}},
        },
        "paths": {"1": {"path": ["quorate_core", "lease", "Why"]}},
    }))
}

/// What a rule says about a library with these items, all at its root.
pub(super) fn findings_of(
    rule: fn(&super::Public<'_>) -> Vec<String>,
    root: Value,
    items: Value,
) -> Vec<String> {
    surface(&library(root, items), &core()).iter().flat_map(rule).collect()
}

fn document(value: &Value) -> Document {
    Document::parse(&value.to_string()).expect("a known form")
}

pub(super) const EXAMPLE: &str = "A.\n\n# Examples\n\n```\nassert!(true);\n```";
