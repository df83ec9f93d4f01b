//! The layers of the library and of the core: each may use those below it, and none that is above.

use std::collections::BTreeMap;

use crate::tidy::Findings;
use crate::tidy::paths::{declared, named};
use crate::tidy::tree::{Source, Tree};

/// Nodes know no engine, the engine knows no lock, locks know no client; and in the core no machine
/// knows the client that composes them.
pub(super) fn upward_paths(source: &Source, tree: &Tree) -> Findings {
    let Some((layered, file)) = Layered::of(source.path()) else { return Findings::new() };
    let Some(own) = layered.layer_of_file(file).filter(|_| !source.is_test_file()) else {
        return Findings::new();
    };
    let exports = layered.exports(tree);
    let mut found = Findings::new();
    for path in named(file, source.text()) {
        let Some(head) = path.segments.first() else { continue };
        let module = exports.get(head).unwrap_or(head);
        let above = layered.layer(module).filter(|layer| *layer > own);
        found.extend(above.map(|layer| {
            let (own, above) = (layered.layers[own].0, layered.layers[layer].0);
            (path.line, format!("`crate::{head}` is of the layer `{above}`, above `{own}`"))
        }));
        if head == "*" {
            found.push((path.line, "`crate::*` may be of any layer: name what is used".to_owned()));
        }
    }
    found.dedup();
    found
}

/// A module without a layer could use everything, and be used by all.
pub(super) fn unlisted_modules(source: &Source, _: &Tree) -> Findings {
    let Some((layered, "lib.rs")) = Layered::of(source.path()) else { return Findings::new() };
    let unlisted = declared(source.text()).into_iter();
    let unlisted = unlisted.filter(|(_, module)| layered.layer(module).is_none());
    unlisted.map(|(line, module)| (line, format!("`{module}` is in no layer of {THIS}"))).collect()
}

/// A crate that is built in layers.
struct Layered {
    root: &'static str,
    /// Names and modules, from the lowest to the highest.
    layers: &'static [(&'static str, &'static [&'static str])],
    /// Files that are compiled for tests only.
    tests: &'static [&'static str],
}

impl Layered {
    /// The crate of a file, and the file below its root.
    fn of(path: &str) -> Option<(&'static Self, &str)> {
        CRATES.iter().find_map(|layered| Some((layered, path.strip_prefix(layered.root)?)))
    }

    fn layer_of_file(&self, file: &str) -> Option<usize> {
        let module = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        self.layer(module).filter(|_| !self.tests.contains(&file))
    }

    fn layer(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|(_, modules)| modules.contains(&module))
    }

    /// From which module each name comes that the root of the crate exports.
    fn exports(&self, tree: &Tree) -> BTreeMap<String, String> {
        let Some(root) = tree.source(&format!("{}lib.rs", self.root)) else {
            return BTreeMap::new();
        };
        let exported = named("lib.rs", root.text()).into_iter().filter_map(|path| {
            let (first, last) = (path.segments.first()?, path.segments.last()?);
            (first != last).then(|| (last.clone(), first.clone()))
        });
        exported.collect()
    }
}

const THIS: &str = "xtask/src/tidy/layers.rs";

const CRATES: &[Layered] = &[LIBRARY, CORE];

const LIBRARY: Layered = Layered {
    root: "crates/quorate/src/",
    layers: &[
        (
            "base",
            &[
                "clock",
                "error",
                "fence",
                "detached_lease",
                "diagnose",
                "holder",
                "inspect",
                "nonces",
                "observe",
                "owner_id",
                "timers",
                "node_error",
                "who",
            ],
        ),
        ("nodes", &["node", "membership"]),
        ("engine", &["engine"]),
        ("primitives", &["primitive"]),
        ("client", &["client", "blocking", "manual"]),
    ],
    tests: &["engine/lease_tests.rs"],
};

const CORE: Layered = Layered {
    root: "crates/quorate-core/src/",
    layers: &[
        (
            "words",
            &[
                "backoff",
                "command",
                "fence",
                "hex",
                "inspect",
                "membership",
                "moment",
                "mutant",
                "name",
                "queue",
                "quorum",
                "share",
                "terms",
                "time_text",
            ],
        ),
        ("node", &["store"]),
        ("machines", &["acquire", "dialect", "lease", "renew", "round", "schedule", "tickets"]),
        ("client", &["client"]),
    ],
    tests: &[],
};

#[cfg(test)]
mod tests {
    use super::THIS;
    use crate::tidy::testing::{fires, is_quiet};

    const NODE: &str = "crates/quorate/src/node/redis.rs";
    const MUTEX: &str = "crates/quorate/src/primitive/mutex.rs";
    const CLIENT: &str = "crates/quorate/src/client.rs";
    const LIB: &str = "crates/quorate/src/lib.rs";

    /// A library in which these files are, with all modules that they need.
    fn with<'a>(path: &'a str, text: &'a str) -> Vec<(&'a str, &'a str)> {
        let rest = [
            (
                LIB,
                "//! A.\nmod client;\nmod node;\nmod primitive;\npub use self::client::Client;\n",
            ),
            ("crates/quorate/src/node.rs", "//! A.\nmod redis;\n"),
            ("crates/quorate/src/primitive.rs", "//! A.\nmod mutex;\n"),
        ];
        rest.into_iter().chain([(path, text)]).collect()
    }

    #[test]
    fn paths_go_down_the_layers() {
        let upward = [
            "use crate::engine::Engine;",
            "pub use crate::engine::Engine;",
            "pub(super) use crate::engine::Engine;",
            "use {crate::engine::Engine, std::fmt};",
            "use super::super::engine::Engine;",
            "use crate::{clock::Clock, engine::{Engine, Quiet}};",
            "use crate::{\n    clock::{Clock, node_time},\n    engine::Engine,\n};",
            "fn a(engine: &crate::engine::Engine) {}",
        ];
        for text in upward {
            let message = "`crate::engine` is of the layer `engine`, above `nodes`";
            let text = format!("//! A.\n{text}\n");
            fires(&with(NODE, &text), &format!("{NODE}:2: {message}"));
        }
        is_quiet(&with(CLIENT, "//! A.\nuse crate::engine::Engine;\n"));
        is_quiet(&with(MUTEX, "//! A.\nuse super::guard::Guard;\nuse super::super::engine;\n"));
    }

    #[test]
    fn exports_are_of_the_layer_that_they_come_from() {
        let message = "`crate::Client` is of the layer `client`, above `primitives`";
        fires(&with(MUTEX, "//! A.\nuse crate::Client;\n"), &format!("{MUTEX}:2: {message}"));
        let message = "`crate::*` may be of any layer: name what is used";
        fires(&with(MUTEX, "//! A.\nuse crate::*;\n"), &format!("{MUTEX}:2: {message}"));
    }

    #[test]
    fn tests_and_documentation_may_name_everything_and_what_follows_may_not() {
        let text = "//! See [`Client`](crate::Client).\n/// And `crate::engine`.\nfn a() {}\n";
        is_quiet(&with(NODE, text));
        let tests = "//! A.\n#[cfg(test)]\nmod tests {\n    use crate::Client;\n}\n";
        is_quiet(&with(NODE, tests));
        let message = "`crate::Client` is of the layer `client`, above `nodes`";
        let after = format!("{tests}use crate::Client;\n");
        fires(&with(NODE, &after), &format!("{NODE}:6: {message}"));
    }

    #[test]
    fn every_module_is_in_a_layer() {
        let text = "//! A.\nmod client;\nmod frob;\n";
        fires(&[(LIB, text)], &format!("{LIB}:3: `frob` is in no layer of {THIS}"));
        is_quiet(&[("crates/quorate-cli/src/lib.rs", text)]);
    }

    #[test]
    fn machines_of_the_core_do_not_know_the_client() {
        let (lib, machine) =
            ("crates/quorate-core/src/lib.rs", "crates/quorate-core/src/dialect.rs");
        let message = "`crate::client` is of the layer `client`, above `machines`";
        let lib = (lib, "//! A.\nmod dialect;\n");
        let text = "//! A.\nuse crate::client::Config;\n";
        fires(&[lib, (machine, text)], &format!("{machine}:2: {message}"));
        is_quiet(&[lib, (machine, "//! A.\nuse crate::command::Command;\n")]);
    }
}
