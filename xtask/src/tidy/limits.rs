//! Rules about what the crates of this repository may use.

use crate::tidy::Findings;
use crate::tidy::tree::{Source, Tree};
use crate::tidy::words::has_start_of_word;

/// What the library is built on may be replaced, so no public item may show it.
pub(super) fn redis_in_the_api(source: &Source, _: &Tree) -> Findings {
    let lines: Vec<&str> = source.product_lines().map(|(_, line)| code_of(line)).collect();
    let mut found = Vec::new();
    for at in (0..lines.len()).filter(|&at| starts_public_item(lines[at])) {
        let item = declaration(&lines[at..]);
        let shown = FOREIGN.iter().filter(|path| has_start_of_word(&item, path));
        found.extend(shown.map(|path| (at + 1, format!("`{path}` in a public item"))));
    }
    found
}

fn starts_public_item(line: &str) -> bool {
    let Some(item) = line.trim_start().strip_prefix("pub ") else {
        return false;
    };
    let mut words = item.split_whitespace().skip_while(|word| FUNCTION_KINDS.contains(word));
    words.next().is_some_and(|keyword| PUBLIC_ITEMS.contains(&keyword))
}

/// The lines up to the body or the end: rustfmt breaks a long signature into many lines.
fn declaration(lines: &[&str]) -> String {
    let end = lines.iter().position(|line| line.contains(['{', ';'])).unwrap_or(lines.len());
    lines.iter().take(end + 1).copied().collect::<Vec<_>>().join("\n")
}

/// Sessions, marks and ids must not be guessed: one file draws them, from the operating system.
pub(super) fn guessable_numbers(source: &Source, _: &Tree) -> Findings {
    let is_source = source.path() == NONCES;
    let lines = source.product_lines().filter(|_| !is_source);
    let found = lines.filter(|(_, line)| code_of(line).contains("from_random"));
    found.map(|(at, _)| (at, format!("`from_random` outside of {NONCES}"))).collect()
}

/// The core gets time and chance as arguments. What reads a clock, depends on a random seed,
/// rounds, or reaches the outside would make two runs of one seed differ.
pub(super) fn impure_core(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, line) in source.product_lines() {
        let code = code_of(line);
        let banned = IMPURE.iter().filter(|needle| code.contains(**needle));
        found.extend(banned.map(|needle| (at, format!("`{needle}` in the core"))));
    }
    found
}

/// What the core depends on must not change under us, so it depends on nothing. Optional are only
/// traits for its types, which no other crate can implement.
pub(super) fn core_dependencies(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    let mut inside = false;
    for (at, line) in source.lines() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            inside = is_dependency_table(header.trim_end_matches(']'));
        } else if inside && !is_optional(line) && !line.is_empty() && !line.starts_with('#') {
            found.push((at, "the core has no dependencies".to_owned()));
        }
    }
    found
}

fn is_optional(line: &str) -> bool {
    line.ends_with("optional = true }")
}

/// Also for one package (`dependencies.x`) and for one platform (`target.x.dependencies`). Those
/// of the tests are another table.
fn is_dependency_table(name: &str) -> bool {
    name.split('.').any(|part| ["dependencies", "build-dependencies"].contains(&part))
}

/// The line without its comment. `//` inside of a URL has no space before it.
pub(super) fn code_of(line: &str) -> &str {
    let comments = line.match_indices("//").map(|(at, _)| &line[..at]);
    let mut before_comments =
        comments.filter(|before| before.trim_end() != *before || before.is_empty());
    before_comments.next().unwrap_or(line)
}

const FOREIGN: &[&str] = &[
    "redis::",
    "redis_protocol::",
    "rustix::",
    "rustls::",
    "socket2::",
    "tokio::",
    "tokio_rustls::",
    "url::",
];
const NONCES: &str = "crates/quorate/src/nonces.rs";
const PUBLIC_ITEMS: &[&str] = &["fn", "struct", "enum", "type", "trait"];
const FUNCTION_KINDS: &[&str] = &["const", "async"];
const IMPURE: &[&str] =
    &["Instant::now", "SystemTime", "HashMap", "HashSet", "std::net", "std::thread", "f32", "f64"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn redis_in_public_items() {
        let path = "crates/quorate/src/lib.rs";
        for item in [
            "pub fn a() -> redis::Client {}",
            "    pub async fn a(x: &redis::Client) {}",
            "pub fn a(\n    x: u32,\n    y: redis::Client,\n) {\n}",
            "pub struct A(redis::Client);",
            "pub type A = Box<redis::Client>;",
            "pub enum A { B(redis::Client) }",
        ] {
            let text = format!("//! A.\n{item}\n");
            fires(&[(path, &text)], &format!("{path}:2: `redis::` in a public item"));
        }
        for item in [
            "pub(crate) fn a() -> redis::Client {}",
            "pub fn a() -> Client {\n    redis::Client::open(\"redis://localhost\")\n}",
            "pub struct A {\n    client: redis::Client,\n}",
            "pub fn a() {} // redis::Client is inside",
            "pub fn a() -> my_redis::Client {}",
        ] {
            is_quiet(&[(path, &format!("//! A.\n{item}\n"))]);
        }
        let private = "//! A.\npub fn a() -> redis::Client {}\n";
        is_quiet(&[("crates/quorate-testkit/src/lib.rs", private)]);
    }

    #[test]
    fn numbers_that_could_be_guessed() {
        let path = "crates/quorate/src/lib.rs";
        let text = "//! A.\nlet a = Session::from_random(jitter.next());\n";
        fires(&[(path, text)], &format!("{path}:2: `from_random` outside of {NONCES}"));
        let map = "//! A.\nlet a = draw().map(Mark::from_random);\n";
        fires(&[(path, map)], &format!("{path}:2: `from_random` outside of {NONCES}"));
        let test = "//! A.\n#[cfg(test)]\nmod tests {\n    Mark::from_random(1);\n}\n";
        is_quiet(&[(path, test), ("crates/quorate-sim/src/lib.rs", text)]);
        is_quiet(&[(path, "//! A.\nmod nonces;\n"), (NONCES, text)]);
    }

    #[test]
    fn impurity_in_the_core() {
        let path = "crates/quorate-core/src/lib.rs";
        for needle in IMPURE {
            let text = format!("//! A.\nlet a = {needle};\n");
            let test = format!("//! A.\n#[cfg(test)]\nmod tests {{\n    use {needle};\n}}\n");
            fires(&[(path, &text)], &format!("{path}:2: `{needle}` in the core"));
            is_quiet(&[(path, &test), ("crates/quorate/src/lib.rs", &text)]);
            is_quiet(&[(
                path,
                &format!("//! Not {needle}.\n/// Nor {needle}.\nx(); // {needle}\n"),
            )]);
        }
    }

    #[test]
    fn dependencies_of_the_core() {
        let path = "crates/quorate-core/Cargo.toml";
        for table in ["dependencies", "target.'cfg(unix)'.dependencies", "dependencies.bytes"] {
            let text = format!("[package]\nname = \"a\"\n\n[{table}]\nversion = \"1\"\n");
            fires(&[(path, &text)], &format!("{path}:5: the core has no dependencies"));
            is_quiet(&[("crates/quorate/Cargo.toml", &text)]);
        }
        let optional = "serde = { version = \"1\", optional = true }\n";
        let others = "[dev-dependencies]\nx = \"1\"\n[lints]\nx = true\n";
        let good = format!("[dependencies]\n# Traits.\n{optional}\n{others}");
        is_quiet(&[(path, &good)]);
    }

    #[test]
    fn comments_are_no_code_but_a_url_is() {
        assert_eq!(code_of("let a = 1; // one"), "let a = 1; ");
        assert_eq!(code_of("// one"), "");
        assert_eq!(code_of("open(\"redis://a\"); // b"), "open(\"redis://a\"); ");
        assert_eq!(code_of("open(\"redis://a\");"), "open(\"redis://a\");");
    }
}
