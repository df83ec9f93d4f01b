//! Where the deliberate bugs of the core stand: apart from the rules that they break.

use crate::tidy::Findings;
use crate::tidy::limits::code_of;
use crate::tidy::tree::{Source, Tree};
use crate::tidy::words::has_start_of_word;

/// Without the lines of every `mutate!` the program is correct, so nothing else
/// may stand on these lines, and no rule may name a mutant.
pub(super) fn mixed_mutants(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    let mut statement = String::new();
    let mut before = String::from(";");
    for (at, line) in source.product_lines().filter(|_| source.path() != MUTANTS) {
        let code = code_of(line).trim();
        if statement.is_empty() && !code.starts_with(OPENING) {
            let is_named =
                has_start_of_word(&code.to_lowercase(), "mutant") || code.contains(FEATURE);
            if code.contains(MACRO) || is_named && code != DECLARATION {
                found.push((at, MESSAGE.to_owned()));
            }
        } else {
            statement.push_str(code);
            let Some(rest) = behind(&statement) else { continue };
            if rest != ";" || !before.ends_with(['{', '}', ';']) {
                found.push((at, MESSAGE.to_owned()));
            }
            statement.clear();
        }
        if !code.is_empty() {
            code.clone_into(&mut before);
        }
    }
    found
}

/// What follows the bracket that closes the first one; `None` if none does.
fn behind(statement: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, sign) in statement.char_indices() {
        match sign {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(&statement[at + 1..]),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

const MUTANTS: &str = "crates/quorate-core/src/mutant.rs";
const DECLARATION: &str = "pub mod mutant;";
const FEATURE: &str = "__mutants";
const MACRO: &str = "mutate!";
const OPENING: &str = "mutate!(";
const MESSAGE: &str = "a mutant is in a `mutate!` that has its lines for itself";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{fires, is_quiet};

    const PATH: &str = "crates/quorate-core/src/lib.rs";

    #[test]
    fn mutant_is_a_statement_on_lines_of_its_own() {
        for code in [
            "mutate!(NoYield => return);",
            "if a {\n    mutate!(A | B if c => let d = e(f));\n}",
            "a();\nmutate!(A\n    // Why.\n    => let b = c(d)\n        .e());\nf();",
        ] {
            is_quiet(&[(PATH, &format!("//! A.\nfn a() {{\n{code}\n}}\n"))]);
        }
        for code in [
            "a(); mutate!(NoYield => return);",
            "mutate!(NoYield => return); a();",
            "mutate!(A => b);\nlet a = mutant::current();",
            "mutate!(NoYield => a)",
            "mutate! { NoYield => a }",
            "let a = is_on(Mutant::NoYield);",
            "#[cfg(feature = \"__mutants\")]",
            "let a =\n    mutate!(NoYield => b);",
        ] {
            let text = format!("//! A.\nfn a() {{\n{code}\n}}\n");
            let line = 2 + code.lines().count();
            fires(&[(PATH, &text)], &format!("{PATH}:{line}: {MESSAGE}"));
            is_quiet(&[("crates/quorate-sim/src/lib.rs", &text)]);
        }
    }

    #[test]
    fn comments_tests_and_the_mutants_themselves_may_name_them() {
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::mutant::Mutant;\n}\n";
        let lib = format!("//! [`mutant`].\n#[macro_use]\npub mod mutant;\n{tests}");
        is_quiet(&[(PATH, &lib), (MUTANTS, "//! A.\npub enum Mutant {}\n")]);
    }
}
