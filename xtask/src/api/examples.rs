//! Every item shows what it is for, in code that is compiled.

use crate::api::surface::Public;

pub(super) fn findings(public: &Public<'_>) -> Vec<String> {
    let item = public.item;
    if !SHOWN.contains(&item.kind()) || has_example(item.docs()) || is_mirror(public) {
        return Vec::new();
    }
    vec![format!("{}: {} has no example", item.place(), public.path)]
}

/// Whether it is the blocking version of an async item, and links to that one's example.
fn is_mirror(public: &Public<'_>) -> bool {
    public.path.starts_with(MIRRORS) && public.item.docs().contains("[`crate::")
}

/// Whether there is a section for examples with code in it that rustdoc compiles.
fn has_example(docs: &str) -> bool {
    let (mut is_code, mut is_section) = (false, false);
    for line in docs.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_code = !is_code;
            if is_code && is_section && is_compiled(language) {
                return true;
            }
        } else if !is_code && line.starts_with("# ") {
            // Inside of code such a line is a hidden one.
            is_section = line.trim_end() == "# Examples";
        }
    }
    false
}

fn is_compiled(language: &str) -> bool {
    let words = language.split([',', ' ']).filter(|word| !word.is_empty());
    words.into_iter().all(|word| COMPILED.contains(&word))
}

/// Fields, variants and what is written for a trait are shown with the item that they belong to.
const SHOWN: &[&str] = &[
    "assoc_const",
    "constant",
    "enum",
    "function",
    "macro",
    "module",
    "proc_macro",
    "static",
    "struct",
    "trait",
    "trait_alias",
    "type_alias",
    "union",
];
const MIRRORS: &str = "quorate::blocking::";
const COMPILED: &[&str] = &["rust", "no_run", "should_panic"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::testing::{EXAMPLE, findings_of};

    #[test]
    fn every_kind_of_item_needs_an_example() {
        for kind in SHOWN {
            let item = |docs: &str| {
                let place = json!({"filename": "a.rs", "begin": [3, 1]});
                json!({"1": {"name": "it", "docs": docs, "span": place, "inner": {*kind: {}}}})
            };
            let found = findings_of(findings, json!([1]), item("It is there."));
            assert_eq!(found, ["a.rs:3: quorate::it has no example"], "{kind}");
            assert!(findings_of(findings, json!([1]), item(EXAMPLE)).is_empty(), "{kind}");
        }
    }

    #[test]
    fn blocking_items_may_link_to_the_example_of_their_async_counterpart() {
        let item = |name: &str, docs: &str| {
            let place = json!({"filename": "a.rs", "begin": [3, 1]});
            json!({
                "1": {"name": name, "inner": {"module": {"items": [2]}}, "docs": EXAMPLE},
                "2": {"name": "it", "docs": docs, "span": place, "inner": {"function": {}}},
            })
        };
        let found = |name, docs| findings_of(findings, json!([1]), item(name, docs)).len();
        assert_eq!(found("blocking", "It waits. See [`crate::it`]."), 0);
        assert_eq!(found("blocking", "It waits."), 1);
        assert_eq!(found("other", "It waits. See [`crate::it`]."), 1);
    }

    #[test]
    fn example_is_code_that_is_compiled_in_a_section_for_examples() {
        let section = |code: &str| format!("A.\n\n# Examples\n\nSo:\n\n{code}\n");
        for code in ["```\na();\n```", "```no_run\na();\n```", "```rust,should_panic\na();\n```"] {
            assert!(has_example(&section(code)), "{code}");
        }
        for code in ["", "```text\na\n```", "```ignore\na();\n```", "```rust,ignore\na();\n```"] {
            assert!(!has_example(&section(code)), "{code}");
        }
        assert!(!has_example("A.\n\n```\na();\n```\n"), "no section");
        assert!(!has_example("# Examples\n\n# Errors\n\n```\na();\n```\n"), "another section");
        let hidden = "# Errors\n\n```text\n# Examples\n```\n\n```\na();\n```\n";
        assert!(!has_example(hidden), "a line of code is no heading");
    }
}
