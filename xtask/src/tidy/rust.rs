//! Rules for every Rust file.

use std::path::Path;

use crate::tidy::Findings;
use crate::tidy::tree::{Source, Tree};

pub(super) fn module_documentation(source: &Source, _: &Tree) -> Findings {
    if source.text().starts_with("//!") {
        return Vec::new();
    }
    vec![(1, "the file must start with `//!` and say what it is for".to_owned())]
}

/// Tests may be longer than the code they test, up to a limit. Documentation does not count:
/// it is read on pages of its own, and a limit would be paid with its examples.
pub(super) fn length(source: &Source, _: &Tree) -> Findings {
    let product = source.product_lines().filter(|(_, line)| !is_documentation(line)).count();
    let all = source.lines().filter(|(_, line)| !is_documentation(line)).count();
    if product > MAX_PRODUCT_LINES {
        vec![(1, format!("{product} lines before the tests, {MAX_PRODUCT_LINES} at most"))]
    } else if all > MAX_LINES {
        vec![(1, format!("{all} lines, {MAX_LINES} at most"))]
    } else {
        Vec::new()
    }
}

fn is_documentation(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

/// A test that never runs, or a warning that nobody sees again.
pub(super) fn silenced(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, line) in source.lines() {
        let attributes = SILENCERS.iter().filter(|(needle, _)| line.contains(needle));
        found.extend(attributes.map(|(_, message)| (at, (*message).to_owned())));
    }
    found
}

/// A test that sleeps is slow on a fast machine and wrong on a slow one. Under a paused clock a
/// sleep takes no time; such a line says so in a comment.
pub(super) fn sleeping_tests(source: &Source, _: &Tree) -> Findings {
    let sleeps = |line: &str| {
        SLEEPS.iter().any(|needle| line.contains(needle)) && !line.contains(PAUSED_CLOCK)
    };
    let found = source.test_lines().filter(|(_, line)| sleeps(line));
    let message = "a test must not sleep: wait for the event, or pause the clock";
    found.map(|(at, _)| (at, message.to_owned())).collect()
}

/// A file that no module declares is not compiled, and nobody notices.
pub(super) fn dead_module(source: &Source, tree: &Tree) -> Findings {
    let Some((name, parents)) = module_and_parents(source.path()) else {
        return Vec::new();
    };
    let declares = |parent: &String| tree.source(parent).is_some_and(|it| declares(it, name));
    if parents.iter().any(declares) {
        return Vec::new();
    }
    vec![(1, format!("not compiled: no `mod {name};` in {}", parents.join(" or ")))]
}

/// The name of a module, and the files that may declare it. None for the root of a crate.
fn module_and_parents(path: &str) -> Option<(&str, Vec<String>)> {
    let (package, inside) = path.split_once("/src/")?;
    if inside.starts_with("bin/") || ["lib.rs", "main.rs"].contains(&inside) {
        return None;
    }
    let inside = Path::new(inside);
    let name = inside.file_stem()?.to_str()?;
    let parents = match inside.parent()?.to_str()? {
        "" => vec![format!("{package}/src/lib.rs"), format!("{package}/src/main.rs")],
        folder => vec![format!("{package}/src/{folder}.rs")],
    };
    Some((name, parents))
}

fn declares(parent: &Source, name: &str) -> bool {
    let declaration = format!("mod {name};");
    parent.lines().any(|(_, line)| {
        let line = line.trim();
        let visibility = line.strip_suffix(&declaration).map(str::trim_end);
        visibility.is_some_and(|it| it.is_empty() || it.starts_with("pub") || it.ends_with(']'))
    })
}

const MAX_PRODUCT_LINES: usize = 500;
const MAX_LINES: usize = 800;
const SILENCERS: &[(&str, &str)] = &[
    (concat!("#[", "ignore"), "an ignored test: make it run, or remove it"),
    (concat!("#[", "allow("), "use `expect` with a reason, it ends with its cause"),
    (concat!("#![", "allow("), "use `expect` with a reason, it ends with its cause"),
];
const SLEEPS: &[&str] = &[concat!("thread::", "sleep("), concat!("time::", "sleep(")];
const PAUSED_CLOCK: &str = "// tidy: paused clock";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn documentation_comes_first() {
        let message = "a.rs:1: the file must start with `//!` and say what it is for";
        fires(&[("a.rs", "use std::fmt;\n\n//! Too late.\n")], message);
        is_quiet(&[("a.rs", "//! A.\n")]);
    }

    #[test]
    fn long_files() {
        let code = |lines: usize| format!("//! A.\n{}", "fn a() {}\n".repeat(lines));
        let tests = |lines: usize| format!("#[cfg(test)]\nmod tests {{\n{}", "\n".repeat(lines));
        fires(&[("a.rs", &code(501))], "a.rs:1: 501 lines before the tests, 500 at most");
        fires(&[("tests/a.rs", &code(801))], "tests/a.rs:1: 801 lines, 800 at most");
        fires(&[("a.rs", &(code(500) + &tests(299)))], "a.rs:1: 801 lines, 800 at most");
        is_quiet(&[("a.rs", &code(500)), ("b.rs", &(code(500) + &tests(200)))]);
        is_quiet(&[("tests/a.rs", &code(800)), ("a/tests.rs", &code(800))]);
    }

    #[test]
    fn documentation_makes_no_file_too_long_but_other_comments_do() {
        let long = |line: &str| format!("//! A.\n{}", line.repeat(501));
        is_quiet(&[("a.rs", &long("    /// A.\n")), ("b.rs", &long("//! A.\n"))]);
        let message = "a.rs:1: 501 lines before the tests, 500 at most";
        fires(&[("a.rs", &long("    // A.\n"))], message);
    }

    #[test]
    fn silencers() {
        for (needle, message) in SILENCERS {
            let text = format!("//! A.\n{needle}…)]\n");
            fires(&[("a.rs", &text)], &format!("a.rs:2: {message}"));
        }
        is_quiet(&[("a.rs", "//! A.\n#[expect(dead_code, reason = \"a test uses it\")]\n")]);
    }

    #[test]
    fn sleeping() {
        let message = "a test must not sleep: wait for the event, or pause the clock";
        for call in SLEEPS {
            let code = format!("//! A.\nfn a() {{ {call}1) }}\n");
            let test = format!("//! A.\n#[cfg(test)]\nmod tests {{\n    {call}1);\n}}\n");
            let paused = code.replace(") }\n", ") } // tidy: paused clock\n");
            fires(&[("tests/a.rs", &code)], &format!("tests/a.rs:2: {message}"));
            fires(&[("a/tests.rs", &code)], &format!("a/tests.rs:2: {message}"));
            fires(&[("a.rs", &test)], &format!("a.rs:4: {message}"));
            is_quiet(&[("a.rs", &code), ("tests/a.rs", &paused)]);
        }
    }

    #[test]
    fn dead_modules() {
        let a = ("x/src/a.rs", "//! A.\n");
        let b = ("x/src/a/b.rs", "//! B.\n");
        let nowhere = "x/src/a.rs:1: not compiled: no `mod a;` in x/src/lib.rs or x/src/main.rs";
        fires(&[a], nowhere);
        fires(&[a, ("x/src/lib.rs", "//! X.\nmod aa;\nmod ba;\n// mod a;\n")], nowhere);
        fires(&[b], "x/src/a/b.rs:1: not compiled: no `mod b;` in x/src/a.rs");
        is_quiet(&[a, ("x/src/main.rs", "//! X.\npub(crate) mod a;\n")]);
        is_quiet(&[("x/src/lib.rs", "//! X.\nmod a;\n"), ("x/src/a.rs", "//! A.\nmod b;\n"), b]);
        is_quiet(&[("x/src/bin/tool.rs", "//! X.\n"), ("x/tests/a.rs", "//! A.\n")]);
    }
}
