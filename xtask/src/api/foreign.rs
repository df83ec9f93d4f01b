//! No item shows a type or a trait of a crate that users do not know about.

use serde_json::Value;

use crate::api::document::{Document, Item};
use crate::api::surface::Public;

pub(super) fn findings(public: &Public<'_>) -> Vec<String> {
    let Public { path, item, document } = public;
    let mut found = Vec::new();
    let mut check = |at: Item<'_>, shown: Item<'_>| {
        let line = |home| format!("{}: {path} shows `{home}`", at.place());
        found.extend(foreign_in(shown, document).into_iter().map(line));
    };
    check(*item, *item);
    parts(*item, document).into_iter().for_each(|part| check(part, part));
    for block in implementations(*item, document) {
        check(block, block);
        // The methods of an inherent block are items by themselves.
        if !block.inner()["trait"].is_null() {
            document.items(&block.inner()["items"]).for_each(|member| check(block, member));
        }
    }
    found
}

/// The homes of all foreign items that one item mentions.
fn foreign_in(item: Item<'_>, document: &Document) -> Vec<String> {
    let inner = item.inner();
    if item.kind() == "use" {
        // One that could be followed would not be here.
        let home = document.home(&inner["id"]).unwrap_or_default();
        let is_known = home.first().is_some_and(|first| STANDARD.contains(first));
        return if is_known { Vec::new() } else { vec![home.join("::")] };
    }
    let mut mentions = Vec::new();
    collect_mentions(inner, &mut mentions);
    let foreign = mentions.into_iter().filter_map(|(written, id)| match document.home(id) {
        Some(home) if STANDARD.contains(&home[0]) || OURS.contains(&home[0]) => None,
        Some(home) => Some(home.join("::")),
        // What is private here has no home, but is not another crate's.
        None => document.item(id).is_none().then(|| written.to_owned()),
    });
    foreign.collect()
}

/// Paths to types and traits, wherever they stand: as arguments, bounds, defaults or outputs.
fn collect_mentions<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect_mentions(value, found)),
        Value::Object(fields) => {
            if let (Some(Value::String(path)), Some(id)) = (fields.get("path"), fields.get("id")) {
                found.push((path, id));
            }
            fields.values().for_each(|value| collect_mentions(value, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The public fields of a type, and its variants with theirs.
fn parts<'a>(item: Item<'a>, document: &'a Document) -> Vec<Item<'a>> {
    let (inner, kind) = (item.inner(), &item.inner()["kind"]);
    let lists = match item.kind() {
        "enum" => vec![&inner["variants"]],
        "union" => vec![&inner["fields"]],
        "struct" | "variant" => {
            vec![&kind["tuple"], &kind["plain"]["fields"], &kind["struct"]["fields"]]
        }
        _ => return Vec::new(),
    };
    let direct = lists.into_iter().flat_map(|ids| document.items(ids));
    direct.flat_map(|part| [vec![part], parts(part, document)].concat()).collect()
}

/// What is written for a type or a trait. What another crate gives to every type (a blanket), and
/// what the compiler finds out (such as `Send`), is not ours to choose.
fn implementations<'a>(item: Item<'a>, document: &'a Document) -> Vec<Item<'a>> {
    let ids = match item.kind() {
        "struct" | "enum" | "union" => &item.inner()["impls"],
        "trait" => &item.inner()["implementations"],
        _ => return Vec::new(),
    };
    let is_chosen = |block: &Item<'_>| {
        let inner = block.inner();
        inner["blanket_impl"].is_null() && inner["is_synthetic"] != true
    };
    document.items(ids).filter(is_chosen).collect()
}

const STANDARD: &[&str] = &["std", "core", "alloc"];

/// The core is published with the library, and follows its versions.
const OURS: &[&str] = &["quorate", "quorate_core"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::testing::findings_of;

    #[test]
    fn function_shows_what_is_in_its_signature_and_bounds() {
        for inner in [
            json!({"sig": {"inputs": [["it", notify()]]}}),
            json!({"sig": {"output": {"borrowed_ref": {"type": notify()}}}}),
            json!({"sig": {"output": {"resolved_path": {"path": "Option", "id": 91, "args": {
                "angle_bracketed": {"args": [{"type": notify()}]}}}}}}),
            json!({"sig": {}, "generics": {"params": [{"kind": {"type": {"bounds": [
                {"trait_bound": {"trait": {"path": "Notify", "id": 90}}}]}}}]}}),
        ] {
            let items = json!({"1": item(5, "wake", &json!({"function": inner}))});
            fires(&json!([1]), &items, "a.rs:5: quorate::wake shows `tokio::sync::Notify`");
        }
        let known = |id: u32| json!(["it", {"resolved_path": {"path": "Known", "id": id}}]);
        let inner = json!({"sig": {"inputs": [known(80), known(91), known(1)]}});
        is_quiet(&json!([1]), &json!({"1": item(5, "wake", &json!({"function": inner}))}));
    }

    #[test]
    fn type_shows_its_public_fields_and_those_of_its_variants() {
        let field = item(6, "it", &json!({"struct_field": notify()}));
        for kind in [json!({"plain": {"fields": [2]}}), json!({"tuple": [null, 2]})] {
            let holder = item(5, "Holder", &json!({"struct": {"kind": kind, "impls": []}}));
            let items = json!({"1": holder, "2": field});
            fires(&json!([1]), &items, "a.rs:6: quorate::Holder shows `tokio::sync::Notify`");
        }
        for kind in [json!({"struct": {"fields": [2]}}), json!({"tuple": [2]})] {
            let variant = item(5, "Busy", &json!({"variant": {"kind": kind}}));
            let holder = item(4, "Why", &json!({"enum": {"variants": [3], "impls": []}}));
            let items = json!({"1": holder, "2": field, "3": variant});
            fires(&json!([1]), &items, "a.rs:6: quorate::Why shows `tokio::sync::Notify`");
        }
    }

    #[test]
    fn type_shows_what_is_written_for_it_and_not_what_every_type_has() {
        let holder = item(5, "Holder", &json!({"struct": {"kind": "unit", "impls": [2]}}));
        let items = |block: &Value| json!({"1": holder, "2": item(8, "", &json!({"impl": block}))});
        let message = "a.rs:8: quorate::Holder shows `tokio::sync::Notify`";
        let own = json!({"trait": {"path": "Notify", "id": 90}, "items": []});
        fires(&json!([1]), &items(&own), message);
        let from = json!({"trait": {"path": "Clone", "id": 91, "args": [notify()]}, "items": []});
        fires(&json!([1]), &items(&from), message);
        let blanket = json!({"trait": {"path": "Notify", "id": 90}, "blanket_impl": {}});
        is_quiet(&json!([1]), &items(&blanket));
        let auto = json!({"trait": {"path": "Notify", "id": 90}, "is_synthetic": true});
        is_quiet(&json!([1]), &items(&auto));
    }

    #[test]
    fn member_of_what_is_written_counts_once() {
        let holder = item(5, "Holder", &json!({"struct": {"kind": "unit", "impls": [2]}}));
        let member = item(9, "wake", &json!({"function": {"sig": {"output": notify()}}}));
        let items = |of: &Value| {
            let block = item(8, "", &json!({"impl": {"trait": of, "items": [3]}}));
            json!({"1": holder, "2": block, "3": member})
        };
        let inherent = "a.rs:9: quorate::Holder::wake shows `tokio::sync::Notify`";
        fires(&json!([1]), &items(&Value::Null), inherent);
        let of_a_trait = "a.rs:8: quorate::Holder shows `tokio::sync::Notify`";
        fires(&json!([1]), &items(&json!({"path": "Clone", "id": 91})), of_a_trait);
    }

    #[test]
    fn trait_shows_its_bounds_and_for_whom_it_is_written() {
        let message = |line: u32| format!("a.rs:{line}: quorate::Wake shows `tokio::sync::Notify`");
        let bounds = json!([{"trait_bound": {"trait": {"path": "Notify", "id": 90}}}]);
        let wake = item(5, "Wake", &json!({"trait": {"items": [], "bounds": bounds}}));
        fires(&json!([1]), &json!({"1": wake}), &message(5));
        let wake = item(5, "Wake", &json!({"trait": {"items": [], "implementations": [2]}}));
        let block = item(8, "", &json!({"impl": {"for": notify(), "items": []}}));
        fires(&json!([1]), &json!({"1": wake, "2": block}), &message(8));
    }

    #[test]
    fn item_of_another_crate_cannot_be_shown_as_ours() {
        let import = |id: u32| json!({"use": {"name": "It", "id": id, "is_glob": false}});
        let items = json!({"1": item(5, "", &import(90))});
        fires(&json!([1]), &items, "a.rs:5: quorate::It shows `tokio::sync::Notify`");
        is_quiet(&json!([1]), &json!({"1": item(5, "", &import(91))}));
        is_quiet(&json!([1]), &json!({"1": item(5, "", &import(80))}));
    }

    fn notify() -> Value {
        json!({"resolved_path": {"path": "Notify", "id": 90, "args": null}})
    }

    fn item(line: u32, name: &str, inner: &Value) -> Value {
        json!({"name": name, "span": {"filename": "a.rs", "begin": [line, 1]}, "inner": inner})
    }

    #[track_caller]
    fn fires(root: &Value, items: &Value, expected: &str) {
        assert_eq!(findings_of(findings, root.clone(), items.clone()), [expected]);
    }

    #[track_caller]
    fn is_quiet(root: &Value, items: &Value) {
        assert_eq!(findings_of(findings, root.clone(), items.clone()), Vec::<String>::new());
    }
}
