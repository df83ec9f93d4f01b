//! `cargo xtask api`: the rules of the public API, checked on what rustdoc says about it.
//!
//! No type of another crate is shown to users, so that what the library is built on can change; and
//! every item has an example. Items that are hidden from the documentation do not count.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::api::document::Document;
use crate::api::surface::{Public, surface};
use crate::failure::Failure;
use crate::output::say;
use crate::process::{cargo, root, run as run_command, target};

mod document;
mod examples;
mod foreign;
mod surface;
#[cfg(test)]
mod testing;

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err(Failure::usage("api takes no arguments"));
    }
    check().map_err(|why| Failure::failed(format!("api: {why}")))
}

/// Describes the library and the core, whose items the library shows as its own, and says what is
/// wrong with what users see.
pub(crate) fn check() -> Result<(), String> {
    let library = describe("quorate", &["--all-features"])?;
    let core = describe("quorate-core", &[])?;
    let surface = surface(&library, &core);
    let found = findings(&surface);
    for finding in &found {
        say(finding);
    }
    match found.len() {
        0 => say(format!("{} public items", surface.len())),
        count => return Err(format!("{count} faults in the public API")),
    }
    Ok(())
}

/// Everything that is wrong, each as `path:line: message`, in order. An empty API is wrong too: it
/// must not pass for a good one.
fn findings(surface: &[Public<'_>]) -> Vec<String> {
    if surface.iter().all(|it| it.item.kind() == "module") {
        return vec!["there is no public item at all".to_owned()];
    }
    let rules = [foreign::findings, examples::findings];
    let mut found: Vec<String> =
        surface.iter().flat_map(|it| rules.iter().flat_map(|rule| rule(it))).collect();
    found.sort();
    found.dedup();
    found
}

/// Lets rustdoc write about a package, and reads it.
fn describe(package: &str, more: &[&str]) -> Result<Document, String> {
    let mut command = cargo(["rustdoc", "--locked", "--quiet", "--package", package, "--lib"]);
    in_own_folder(command.args(more));
    run_command(command.args(["--", "-Zunstable-options", "--output-format", "json"]))?;
    let name = package.replace('-', "_");
    let file = root().join(folder()).join("doc").join(name).with_extension("json");
    let text = fs::read_to_string(&file)
        .map_err(|error| format!("rustdoc left no {}: {error}", file.display()))?;
    Document::parse(&text)
}

/// Rustdoc's output as JSON is not stable, so a variable has to allow it. Some build scripts read
/// that variable too. In a folder of its own, such a build invalidates no other.
pub(crate) fn in_own_folder(command: &mut Command) -> &mut Command {
    command.arg("--target-dir").arg(folder()).env("RUSTC_BOOTSTRAP", "1")
}

fn folder() -> PathBuf {
    target().join("api")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::testing::{core, library};

    #[test]
    fn api_without_items_does_not_pass_for_a_good_one() {
        let empty = library(json!([]), json!({}));
        assert_eq!(findings(&surface(&empty, &core())), ["there is no public item at all"]);
    }

    #[test]
    fn each_rule_is_asked_about_each_item() {
        let output = json!({"resolved_path": {"path": "Notify", "id": 90, "args": null}});
        let function = json!({"function": {"sig": {"inputs": [], "output": output}}});
        let found = library(
            json!([1]),
            json!({"1": {"name": "wake", "span": {"filename": "a.rs", "begin": [7, 1]},
                         "visibility": "public", "docs": "Wakes.", "inner": function}}),
        );
        assert_eq!(
            findings(&surface(&found, &core())),
            [
                "a.rs:7: quorate::wake has no example",
                "a.rs:7: quorate::wake shows `tokio::sync::Notify`",
            ]
        );
    }
}
