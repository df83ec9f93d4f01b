//! Rules for code fences: which of them are compiled or run is visible, and none is left out.

use crate::tidy::Findings;
use crate::tidy::prose::fence_of;
use crate::tidy::tree::{Source, Tree};

/// Every fence of a page names its language. A Rust fence is compiled, and runs unless it is
/// `no_run`. All other words after `rust` would leave it out of the tests.
pub(super) fn languages(source: &Source, _: &Tree) -> Findings {
    let fault = |(at, language): (usize, &str)| match language {
        "" => Some((at, "a fence without a language: use `text` for what no test checks".into())),
        "rust" | "rust,no_run" => None,
        _ if language.starts_with("rust") => {
            Some((at, format!("`{language}`: a Rust fence is `rust` or `rust,no_run`")))
        }
        _ => None,
    };
    opening(source.text()).into_iter().filter_map(fault).collect()
}

/// A snippet of the documentation that is ignored can be wrong unnoticed.
pub(super) fn ignored(source: &Source, _: &Tree) -> Findings {
    let info = |line: &str| {
        let text = line.trim_start().strip_prefix("//")?;
        let text = text.strip_prefix(['/', '!'])?.trim_start();
        Some(text.strip_prefix("```")?.to_owned())
    };
    let is_ignored = |info: String| info.split(',').any(|word| word.starts_with("ignore"));
    let found = source.lines().filter(|(_, line)| info(line).is_some_and(is_ignored));
    found.map(|(at, _)| (at, "an ignored snippet: compile it, or mark it `text`".into())).collect()
}

/// The lines that open a fence, each with what follows the backticks.
fn opening(text: &str) -> Vec<(usize, &str)> {
    let (mut open, mut found) = (None, Vec::new());
    for (at, line) in (1..).zip(text.lines()) {
        match (open, fence_of(line)) {
            (None, Some(start)) => {
                open = Some(start);
                found.push((at, line.trim()[start.len()..].trim()));
            }
            (Some(start), Some(end)) if end.starts_with(start) && line.trim() == end => open = None,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::tidy::testing::{fires, is_quiet};

    fn page(language: &str) -> String {
        format!("# A\n\n```{language}\ncode\n```\n")
    }

    #[test]
    fn fence_names_its_language() {
        let message = "a fence without a language: use `text` for what no test checks";
        fires(&[("docs/a.md", &page(""))], &format!("docs/a.md:3: {message}"));
        for language in ["rust", "rust,no_run", "console", "text"] {
            is_quiet(&[("docs/a.md", &page(language))]);
        }
    }

    #[test]
    fn rust_fence_is_compiled() {
        let message = "`rust,ignore`: a Rust fence is `rust` or `rust,no_run`";
        fires(&[("README.md", &page("rust,ignore"))], &format!("README.md:3: {message}"));
    }

    #[test]
    fn snippet_of_the_documentation_is_not_ignored() {
        let file = |info: &str| format!("//! A.\n//!\n//! ```{info}\n//! code\n//! ```\n");
        let message = "a.rs:3: an ignored snippet: compile it, or mark it `text`";
        fires(&[("a.rs", &file("ignore"))], message);
        fires(&[("a.rs", &file("rust,ignore-x86"))], message);
        is_quiet(&[("a.rs", &file("no_run"))]);
        is_quiet(&[("a.rs", &file(""))]);
    }
}
