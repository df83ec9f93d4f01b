//! All items that users of the library can name.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::document::{Document, Item};

/// An item, with the path by which users know it.
pub(super) struct Public<'a> {
    pub(super) path: String,
    pub(super) item: Item<'a>,
    /// Where the numbers in the item are to be looked up.
    pub(super) document: &'a Document,
}

/// Walks through all modules. An item of the core that the library shows as its own is followed
/// there; one of any other crate ends as the `use` that shows it.
pub(super) fn surface<'a>(library: &'a Document, core: &'a Document) -> Vec<Public<'a>> {
    let mut walk = Walk { core, found: Vec::new(), paths: BTreeSet::new() };
    if let Some(root) = library.root() {
        walk.visit(library, root, root.name().to_owned());
    }
    walk.found
}

struct Walk<'a> {
    core: &'a Document,
    found: Vec<Public<'a>>,
    /// Modules may show each other.
    paths: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, document: &'a Document, item: Item<'a>, path: String) {
        if !self.paths.insert(path.clone()) {
            return;
        }
        self.found.push(Public { path: path.clone(), item, document });
        self.visit_members(document, item, &path);
    }

    fn visit_members(&mut self, document: &'a Document, item: Item<'a>, path: &str) {
        let inner = item.inner();
        match item.kind() {
            "module" | "trait" => self.visit_all(document, &inner["items"], path),
            "struct" | "enum" | "union" => {
                for block in document.items(&inner["impls"]) {
                    if block.inner()["trait"].is_null() {
                        self.visit_all(document, &block.inner()["items"], path);
                    }
                }
            }
            _ => {}
        }
    }

    fn visit_all(&mut self, document: &'a Document, ids: &'a Value, path: &str) {
        for item in document.items(ids) {
            if item.kind() == "use" {
                self.follow(document, item, path);
            } else {
                self.visit(document, item, format!("{path}::{}", item.name()));
            }
        }
    }

    fn follow(&mut self, document: &'a Document, import: Item<'a>, path: &str) {
        let inner = import.inner();
        let name = inner["name"].as_str().unwrap_or_default();
        let here = document.item(&inner["id"]).map(|item| (document, item));
        let shown = here.or_else(|| {
            let item = self.core.at_home(&document.home(&inner["id"])?)?;
            Some((self.core, item))
        });
        match shown {
            Some((home, item)) if inner["is_glob"] == true => self.visit_members(home, item, path),
            Some((home, item)) => self.visit(home, item, format!("{path}::{name}")),
            None => self.visit(document, import, format!("{path}::{name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::testing::{core, library};

    #[test]
    fn modules_methods_and_items_of_the_core_are_found_by_the_path_of_users() {
        let document = library(
            json!([1, 3]),
            json!({
                "1": {"name": "error", "inner": {"module": {"items": [2]}}},
                "2": {"inner": {"use": {"name": "Why", "id": 80, "is_glob": false}}},
                "3": {"inner": {"use": {"name": "Client", "id": 4, "is_glob": false}}},
                "4": {"name": "Client", "inner": {"struct": {"impls": [5, 6]}}},
                "5": {"inner": {"impl": {"trait": null, "items": [7]}}},
                "6": {"inner": {"impl": {"trait": {"path": "Clone", "id": 91}, "items": [8]}}},
                "7": {"name": "mutex", "inner": {"function": {}}},
                "8": {"name": "clone", "inner": {"function": {}}},
            }),
        );
        let paths = [
            "quorate",
            "quorate::error",
            "quorate::error::Why",
            "quorate::error::Why::as_str",
            "quorate::Client",
            "quorate::Client::mutex",
        ];
        assert_eq!(paths_of(&document), paths);
    }

    #[test]
    fn glob_shows_the_items_of_a_module_and_cycles_end() {
        let document = library(
            json!([1]),
            json!({
                "1": {"inner": {"use": {"name": "inside", "id": 2, "is_glob": true}}},
                "2": {"name": "inside", "inner": {"module": {"items": [3, 4]}}},
                "3": {"name": "Guard", "inner": {"struct": {"impls": []}}},
                "4": {"inner": {"use": {"name": "again", "id": 5, "is_glob": false}}},
                "5": {"name": "again", "inner": {"module": {"items": [3]}}},
            }),
        );
        let paths = ["quorate", "quorate::Guard", "quorate::again", "quorate::again::Guard"];
        assert_eq!(paths_of(&document), paths);
    }

    fn paths_of(document: &Document) -> Vec<String> {
        surface(document, &core()).into_iter().map(|it| it.path).collect()
    }
}
