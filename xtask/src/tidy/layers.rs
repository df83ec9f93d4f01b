//! The layers of the library: each may use those below it, and none that is above.

use crate::tidy::Findings;
use crate::tidy::tree::{Source, Tree};

/// Nodes know no engine, the engine knows no lock, and locks know no client.
pub(super) fn upward_imports(source: &Source, _: &Tree) -> Findings {
    let Some(path) = source.path().strip_prefix(LIBRARY) else { return Findings::new() };
    let Some(own) = layer(path) else { return Findings::new() };
    let lines: Vec<(usize, &str)> = source.product_lines().collect();
    let mut found = Vec::new();
    for (at, (number, line)) in lines.iter().enumerate() {
        let rest = || lines[at..].iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
        for module in imported(line, rest) {
            let above = layer(&module).filter(|layer| *layer > own);
            found.extend(above.map(|layer| {
                let (own, above) = (LAYERS[own].0, LAYERS[layer].0);
                (*number, format!("`crate::{module}` is of the layer `{above}`, above `{own}`"))
            }));
        }
    }
    found
}

/// The modules of this crate that the line names; `rest` begins with it.
fn imported(line: &str, rest: impl Fn() -> String) -> Vec<String> {
    let code = line.trim_start();
    // What is only shown to users under another path is not used.
    if code.starts_with("//") || code.starts_with("pub use ") {
        return Vec::new();
    }
    if code.trim_start_matches("pub(crate) ").starts_with("use crate::{") {
        let rest = rest();
        let body = rest.split_once("use crate::{").map_or("", |(_, body)| body);
        return heads(body.split(';').next().unwrap_or_default());
    }
    code.split("crate::").skip(1).map(first_word).collect()
}

/// The first word of each path in a tree of imports.
fn heads(tree: &str) -> Vec<String> {
    let (mut depth, mut heads, mut is_start) = (0_usize, Vec::new(), true);
    for (at, sign) in tree.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            sign if sign.is_whitespace() => {}
            _ if is_start => {
                heads.push(first_word(&tree[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    heads
}

fn first_word(path: &str) -> String {
    path.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').collect()
}

/// The layer of a file or of a module; none is for the tests of several layers.
fn layer(path: &str) -> Option<usize> {
    let is_of = |module: &str| {
        let rest = path.strip_prefix(module);
        rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
    };
    if TESTS.iter().any(|tests| is_of(tests)) {
        return None;
    }
    // An operator is a user of nodes, although what it does belongs to them.
    if is_of("membership/operator") {
        return Some(LAYERS.len() - 1);
    }
    LAYERS.iter().position(|(_, modules)| modules.iter().any(|module| is_of(module)))
}

const LIBRARY: &str = "crates/quorate/src/";

/// From the lowest to the highest. What is in none of them may be used by all.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "base",
        &[
            "clock", "error", "fence", "handover", "inspect", "nonces", "observe", "timers",
            "trouble", "who",
        ],
    ),
    ("nodes", &["node", "membership", "memory", "Tls"]),
    ("engine", &["engine"]),
    ("primitives", &["primitive", "CancellationToken", "Guard", "Mutex", "RwLock", "Semaphore"]),
    ("client", &["client", "blocking", "Client", "ClientBuilder", "NodesChanged", "Shutdown"]),
];

const TESTS: &[&str] = &["engine/lease_tests"];

#[cfg(test)]
mod tests {
    use crate::tidy::testing::{fires, is_quiet};

    const NODE: &str = "crates/quorate/src/node/redis.rs";
    const MUTEX: &str = "crates/quorate/src/primitive/mutex.rs";
    const CLIENT: &str = "crates/quorate/src/client.rs";

    /// A library in which these files are, with all modules that they need.
    fn with<'a>(path: &'a str, text: &'a str) -> Vec<(&'a str, &'a str)> {
        let rest = [
            ("crates/quorate/src/lib.rs", "//! A.\nmod client;\nmod node;\nmod primitive;\n"),
            ("crates/quorate/src/node.rs", "//! A.\nmod redis;\n"),
            ("crates/quorate/src/primitive.rs", "//! A.\nmod mutex;\n"),
        ];
        rest.into_iter().chain([(path, text)]).collect()
    }

    #[test]
    fn imports_go_down_the_layers() {
        let upward = [
            "use crate::engine::Engine;",
            "use crate::{clock::Clock, engine::{Engine, Quiet}};",
            "use crate::{\n    clock::{Clock, node_time},\n    engine::Engine,\n};",
            "fn a(engine: &crate::engine::Engine) {}",
        ];
        for text in upward {
            let message = "`crate::engine` is of the layer `engine`, above `nodes`";
            let text = format!("//! A.\n{text}\n");
            fires(&with(NODE, &text), &format!("{NODE}:2: {message}"));
            is_quiet(&with(CLIENT, &text));
        }
        let message = "`crate::Client` is of the layer `client`, above `primitives`";
        fires(&with(MUTEX, "//! A.\nuse crate::Client;\n"), &format!("{MUTEX}:2: {message}"));
    }

    #[test]
    fn tests_documentation_and_exports_may_name_everything() {
        let text = "//! See [`Client`](crate::Client).\n/// And `crate::engine`.\nfn a() {}\n";
        is_quiet(&with(NODE, text));
        is_quiet(&with(NODE, "//! A.\n#[cfg(test)]\nmod tests {\n    use crate::Client;\n}\n"));
        is_quiet(&with(NODE, "//! A.\npub use crate::engine::Engine;\n"));
    }
}
