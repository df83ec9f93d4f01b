//! The texts of a file: what people read in it, without the code.
//!
//! Names in code are left out: identifiers, code spans, targets of links. A phrase can wrap, so
//! texts are pieces with line numbers, which a rule joins again.

use crate::tidy::paths::{comment, literal};
use crate::tidy::prose::fence_of;
use crate::tidy::tree::Source;

/// One line of text, and its number in the file.
pub(super) type Piece = (usize, String);

/// What people read in this file.
pub(super) fn texts(source: &Source) -> Vec<Piece> {
    let lines = || source.lines().map(|(at, line)| (at, line.to_owned()));
    match source.extension() {
        "rs" => outside_of_code(of_rust(source.text()).into_iter()),
        "md" => outside_of_code(lines()),
        "lua" => lines().filter_map(|(at, line)| Some((at, after(&line, "--")?))).collect(),
        extension if WHOLE.contains(&extension) => lines().collect(),
        _ if is_script(source) => lines().collect(),
        _ => Vec::new(),
    }
}

/// The comments and the string literals of Rust code.
fn of_rust(text: &str) -> Vec<Piece> {
    let texts = parts_of_rust(text).into_iter().filter(|part| part.kind == Kind::Text);
    texts
        .flat_map(|part| (part.line..).zip(part.text.lines()))
        .map(|(at, text)| (at, without_mark(text).to_owned()))
        .collect()
}

/// The identifiers of a file of Rust code, each with its line.
pub(super) fn identifiers(source: &Source) -> Vec<Piece> {
    let words = parts_of_rust(source.text()).into_iter().filter(|part| part.kind == Kind::Word);
    words.map(|part| (part.line, part.text.to_owned())).collect()
}

struct Part<'a> {
    kind: Kind,
    line: usize,
    text: &'a str,
}

#[derive(PartialEq)]
enum Kind {
    /// A comment or a literal.
    Text,
    /// An identifier, a keyword or a number.
    Word,
    Sign,
}

fn parts_of_rust(text: &str) -> Vec<Part<'_>> {
    let (mut parts, mut line, mut rest) = (Vec::new(), 1, text);
    while let Some(sign) = rest.chars().next() {
        let (kind, length) = if let Some(length) = comment(rest).or_else(|| literal(rest)) {
            (Kind::Text, length)
        } else if is_of_word(sign) {
            (Kind::Word, rest.find(|sign| !is_of_word(sign)).unwrap_or(rest.len()))
        } else {
            (Kind::Sign, sign.len_utf8())
        };
        let (text, after) = rest.split_at(length);
        parts.push(Part { kind, line, text });
        line += text.matches('\n').count();
        rest = after;
    }
    parts
}

fn without_mark(text: &str) -> &str {
    let text = text.trim_start().trim_end_matches('\\');
    let marks = ["///", "//!", "//", "/*", "*"];
    marks.iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text)
}

fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// Only the comments of code fences, and nothing of code spans and the targets of links.
fn outside_of_code(lines: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut open: Option<String> = None;
    let mut pieces = Vec::new();
    for (at, line) in lines {
        match (&open, fence_of(&line)) {
            (None, Some(fence)) => open = Some(fence.to_owned()),
            (Some(start), Some(end)) if end.starts_with(start) && line.trim() == end => open = None,
            (None, None) => pieces.push((at, without_links(&without_spans(&line)))),
            (Some(_), _) => {
                let comment = ["// ", "# ", "-- "].iter().find_map(|mark| after(&line, mark));
                pieces.extend(comment.map(|comment| (at, without_spans(&comment))));
            }
        }
    }
    pieces
}

fn without_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

fn without_links(line: &str) -> String {
    let mut parts = line.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("](");
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    text
}

/// What follows the first such mark.
fn after(line: &str, mark: &str) -> Option<String> {
    line.split_once(mark).map(|(_, comment)| comment.to_owned())
}

/// Programs of the shell and the like, which have no extension.
fn is_script(source: &Source) -> bool {
    source.text().starts_with("#!") || source.path().ends_with("Dockerfile")
}

/// Files that are read as a whole: code in them that looks like a text is rare.
const WHOLE: &[&str] =
    &["c", "js", "py", "service", "sh", "snap", "svg", "toml", "ts", "yaml", "yml"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn of(path: &str, text: &str) -> Vec<Piece> {
        let pieces = texts(&Tree::of(&[(path, text)]).sources()[0]).into_iter();
        let pieces = pieces.map(|(at, text)| (at, text.trim().to_owned()));
        pieces.filter(|(_, text)| !text.is_empty()).collect()
    }

    fn expect(path: &str, text: &str, expected: &[(usize, &str)]) {
        let expected: Vec<Piece> =
            expected.iter().map(|&(at, text)| (at, text.to_owned())).collect();
        assert_eq!(of(path, text), expected);
    }

    #[test]
    fn rust_has_comments_and_string_literals() {
        let code = "//! One.\nfn a(line: &'a str) { // two\n    say(\"three\\\n    four\");\n}\n";
        expect("a.rs", code, &[(1, "One."), (2, "two"), (3, "\"three"), (4, "four\"")]);
        expect(
            "a.rs",
            "/* one\n * two */ let x = r#\"three\"#;\n",
            &[(1, "one"), (2, "two */"), (2, "r#\"three\"#")],
        );
    }

    #[test]
    fn examples_have_comments_only() {
        let code = "/// One.\n/// ```\n/// let a = 1; // two\n/// # use x;\n/// ```\n/// Three.\n";
        expect("a.rs", code, &[(1, "One."), (3, "two"), (4, "use x;"), (6, "Three.")]);
        let page = "# One\n\n```console\n$ run a   # two\n```\n";
        expect("a.md", page, &[(1, "# One"), (4, "two")]);
    }

    #[test]
    fn code_spans_and_targets_of_links_are_left_out() {
        let page = "Also `x` if [the text](docs/the-a.md#a) says `y`.\n";
        expect("a.md", page, &[(1, "Also `` if [the text]( says ``.")]);
    }

    #[test]
    fn other_files_are_read_by_their_kind() {
        expect("a.lua", "local line = 1 -- one\n", &[(1, "one")]);
        expect("a.toml", "a = 1 # one\n", &[(1, "a = 1 # one")]);
        expect("run", "#!/bin/sh\necho one\n", &[(1, "#!/bin/sh"), (2, "echo one")]);
        expect("package-lock.json", "{\"line\": 1}\n", &[]);
        expect("LICENSE", "One.\n", &[]);
    }
}
