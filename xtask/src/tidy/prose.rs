//! Rules for Markdown files and for the headers of scripts.

use crate::tidy::Findings;
use crate::tidy::tree::{Source, Tree};

/// A script is called by position, so its header must say what each position means.
pub(super) fn script_header(source: &Source, _: &Tree) -> Findings {
    // A script may begin with `#!lua …` for the server; then the header is below.
    let lines = source.text().lines().skip_while(|line| line.starts_with("#!"));
    let header: Vec<&str> = lines.take_while(|line| line.starts_with("--")).collect();
    let header = header.join("\n");
    let says = |names: &[&str]| names.iter().any(|name| header.contains(name));
    let missing = HEADER_PARTS.iter().filter(|names| !says(names));
    missing.map(|names| (1, format!("the `--` header says nothing about {}", names[0]))).collect()
}

pub(super) fn one_title(source: &Source, _: &Tree) -> Findings {
    let titles: Vec<usize> =
        prose_lines(source).filter(|(_, line)| line.starts_with("# ")).map(|(at, _)| at).collect();
    match titles.split_first() {
        None => vec![(1, "no `# Title`".to_owned())],
        Some((_, more)) => more.iter().map(|&at| (at, "a second `# Title`".to_owned())).collect(),
    }
}

pub(super) fn dead_links(source: &Source, tree: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, line) in prose_lines(source) {
        let dead = |target: &&str| !resolve(source.path(), target).is_some_and(|it| tree.has(&it));
        let targets = link_targets(line);
        let targets = targets.iter().map(|target| file_of(target)).filter(|file| !file.is_empty());
        found.extend(targets.filter(dead).map(|file| (at, format!("dead link to `{file}`"))));
    }
    found
}

/// The lines outside of code fences. A fence ends with one of its own kind that is as long or
/// longer, so that a fence can show a fence.
fn prose_lines(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut open: Option<&str> = None;
    source.lines().filter(move |(_, line)| {
        let fence = fence_of(line);
        match (open, fence) {
            (None, None) => true,
            (None, Some(start)) => {
                open = Some(start);
                false
            }
            (Some(start), Some(end)) if end.starts_with(start) && line.trim() == end => {
                open = None;
                false
            }
            (Some(_), _) => false,
        }
    })
}

/// The run of backticks or tildes that begins the line, if it is long enough for a fence.
pub(super) fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim();
    let mark = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| &line[..length])
}

/// What stands in the round brackets of `[text](target)`, outside of code spans.
fn link_targets(line: &str) -> Vec<String> {
    let outside_of_code: String = line.split('`').step_by(2).collect();
    let after_text = outside_of_code.split("](").skip(1);
    after_text.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The file in a link target: without the title and the heading; empty if it is no file.
fn file_of(target: &str) -> &str {
    let target = target.split_whitespace().next().unwrap_or_default();
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere { "" } else { target.split('#').next().unwrap_or_default() }
}

/// A link, from the file that holds it to a path in the repository. None if it leads outside.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut folders: Vec<&str> = from.split('/').collect();
    folders.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                folders.pop()?;
            }
            name => folders.push(name),
        }
    }
    Some(folders.join("/"))
}

const HEADER_PARTS: &[&[&str]] = &[&["KEYS"], &["ARGV"], &["replies", "Replies", "reply", "Reply"]];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn headers_of_scripts() {
        let good = "-- Does it.\n-- KEYS: the lock. ARGV: the holder.\n-- Replies: 1.\nreturn 1\n";
        is_quiet(&[("a.lua", good), ("b.lua", &format!("#!lua flags=no-writes\n{good}"))]);
        for (part, changed) in [("KEYS", "keys"), ("ARGV", "args"), ("Replies", "Says")] {
            let bad = good.replace(part, changed);
            let part = part.replace('R', "r").replace("ArGV", "ARGV");
            let message = format!("a.lua:1: the `--` header says nothing about {part}");
            fires(&[("a.lua", &bad)], &message);
        }
    }

    #[test]
    fn titles() {
        fires(&[("a.md", "Text.\n\n## Not it\n")], "a.md:1: no `# Title`");
        fires(&[("a.md", "# One\n\n# Two\n")], "a.md:3: a second `# Title`");
        is_quiet(&[("a.md", "# One\n\n````sh\n```\n# no title\n````\n\n## Two\n")]);
    }

    #[test]
    fn links() {
        let link = |target: &str| format!("# A\n\nSee [the text]({target}).\n");
        let other = ("docs/sub/b.md", "# B\n");
        for target in ["c.md", "b.md", "../../x.md", "sub/b.md/c"] {
            let message = format!("docs/a.md:3: dead link to `{target}`");
            fires(&[("docs/a.md", &link(target)), other], &message);
        }
        fires(&[("a.md", &link("b.md#part"))], "a.md:3: dead link to `b.md`");
        for target in [
            "sub/b.md",
            "./sub/b.md#part",
            "../docs/sub/b.md \"title\"",
            "sub",
            "sub/",
            "#part",
            "https://example.org/none.md",
            "mailto:a@example.org",
        ] {
            is_quiet(&[("docs/a.md", &link(target)), other]);
        }
        is_quiet(&[("a.md", "# A\n\nWrite `[x](none.md)`.\n\n```\n[x](none.md)\n```\n")]);
    }

    #[test]
    fn a_link_that_leads_outside_resolves_to_nothing() {
        assert_eq!(resolve("a/b.md", "../../c.md"), None);
        assert_eq!(resolve("a/b.md", "../c.md"), Some("c.md".to_owned()));
    }
}
