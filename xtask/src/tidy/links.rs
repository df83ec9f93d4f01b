//! Links in Markdown files: the target file and the target heading must exist.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::tidy::Findings;
use crate::tidy::prose::prose_lines;
use crate::tidy::tree::{Source, Tree};

/// Links to missing files. Links to other sites are not followed.
pub(super) fn missing_files(source: &Source, tree: &Tree) -> Findings {
    let links = links(source).filter(|(_, file, _)| file_of(source, file, tree).is_none());
    links.map(|(at, file, _)| (at, format!("dead link to `{file}`"))).collect()
}

/// Links to missing headings of pages that exist.
pub(super) fn missing_headings(source: &Source, tree: &Tree) -> Findings {
    let dead = |(_, file, anchor): &(usize, &str, &str)| {
        file_of(source, file, tree).is_some_and(|path| !has_anchor(tree, &path, anchor))
    };
    let links = links(source).filter(dead);
    links.map(|(at, file, anchor)| (at, format!("no heading for `{file}#{anchor}`"))).collect()
}

/// The links within the repository: line, file, anchor.
fn links(source: &Source) -> impl Iterator<Item = (usize, &str, &str)> {
    let targets = prose_lines(source.text())
        .flat_map(|(at, line)| targets(line).map(move |target| (at, target)));
    let targets = targets.filter(|(_, target)| !is_elsewhere(target));
    targets.map(|(at, target)| {
        let (file, anchor) = parts(target);
        (at, file, anchor)
    })
}

/// The path of a link's file, if the file exists.
fn file_of(source: &Source, file: &str, tree: &Tree) -> Option<String> {
    resolve(source.path(), file).filter(|path| tree.has(path))
}

/// The targets of `[text](target)` in a line, outside of code spans and without titles.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    target_ranges(line).into_iter().map(|range| &line[range])
}

/// Where the targets are in a line.
pub(crate) fn target_ranges(line: &str) -> Vec<Range<usize>> {
    let spans = code_spans(line);
    let starts = line.match_indices(OPEN).map(|(at, _)| at + OPEN.len());
    let starts = starts.filter(|start| !spans.iter().any(|span| span.contains(start)));
    let ranges = starts.filter_map(|start| {
        let (inside, _) = line[start..].split_once(')')?;
        let target = inside.split_whitespace().next().unwrap_or_default();
        let start = start + usize::from(target.starts_with('<'));
        let target = target.trim_start_matches('<').trim_end_matches('>');
        Some(start..start + target.len())
    });
    ranges.collect()
}

/// The byte ranges of a line that are code.
fn code_spans(line: &str) -> Vec<Range<usize>> {
    let marks: Vec<usize> = line.match_indices('`').map(|(at, _)| at).collect();
    marks.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Whether a target is on another site.
pub(crate) fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The file and the heading of a target. Both can be empty.
pub(crate) fn parts(target: &str) -> (&str, &str) {
    target.split_once('#').unwrap_or((target, ""))
}

/// Resolves a link from the file that contains it to a path in the repository. None if the link
/// leads outside. An empty link leads to the file itself.
pub(crate) fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
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

/// Only headings of Markdown files are checked.
fn has_anchor(tree: &Tree, path: &str, anchor: &str) -> bool {
    if anchor.is_empty() || !path.ends_with(".md") {
        return true;
    }
    tree.source(path).is_some_and(|source| anchors(source.text()).contains(anchor))
}

/// The anchors of a page: those of its headings, and `id` attributes.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose_lines(text) {
        let ids = line.split(" id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
        anchors.extend(ids.map(|(id, _)| id.to_owned()));
        let Some(slug) = heading(line).map(slug) else { continue };
        let count = times.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

/// The text of a heading.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

/// The anchor that both GitHub and mdBook derive from a heading.
fn slug(heading: &str) -> String {
    let signs = without_targets(heading).to_lowercase();
    let kept = signs.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A link in a heading counts with its text only.
fn without_targets(heading: &str) -> String {
    let mut pieces = heading.split(OPEN);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    text.extend(pieces.map(|piece| piece.split_once(')').map_or(piece, |(_, rest)| rest)));
    text
}

const OPEN: &str = "](";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::faults_in_links;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        faults_in_links(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn link_to_a_missing_file_is_a_fault() {
        let link = |target: &str| format!("# A\n\nSee [the text]({target}).\n");
        let other = ("docs/sub/b.md", "# B\n\n## Part\n");
        for target in ["c.md", "b.md", "../../x.md", "sub/b.md/c"] {
            let message = format!("docs/a.md:3: dead link to `{target}`");
            assert_eq!(faults(&[("docs/a.md", &link(target)), other]), [message]);
        }
        assert_eq!(faults(&[("a.md", &link("b.md#part"))]), ["a.md:3: dead link to `b.md`"]);
        for target in [
            "sub/b.md",
            "./sub/b.md#part",
            "../docs/sub/b.md \"title\"",
            "sub",
            "sub/",
            "#a",
            "https://example.org/none.md",
            "https://example.org/#none",
            "mailto:a@example.org",
        ] {
            assert!(faults(&[("docs/a.md", &link(target)), other]).is_empty(), "{target}");
        }
        let code = "# A\n\nWrite `[x](none.md)`.\n\n```\n[x](none.md)\n```\n";
        assert!(faults(&[("a.md", code)]).is_empty());
    }

    #[test]
    fn link_to_a_missing_heading_is_a_fault() {
        let page = "# A\n\n[here](#none) [there](b.md#part-2) [none](c.md#d)\n";
        assert_eq!(
            faults(&[("a.md", page), ("b.md", "# B\n\n```\n## Part 2\n```\n")]),
            [
                "a.md:3: dead link to `c.md`",
                "a.md:3: no heading for `#none`",
                "a.md:3: no heading for `b.md#part-2`",
            ]
        );
        let page = "# A\n\n[here](#a) [there](b.md#part-2) [line](b.rs#L5)\n";
        let files = [("a.md", page), ("b.md", "# B\n\n## Part 2\n"), ("b.rs", "//! B.\n")];
        assert!(faults(&files).is_empty());
    }

    #[test]
    fn all_links_of_a_line_count() {
        let line = "[a](b) `[c](d)` [e](<f> \"g\")[h](";
        assert_eq!(targets(line).collect::<Vec<_>>(), ["b", "f"]);
    }

    #[test]
    fn anchors_follow_the_rules_of_github() {
        let page = "# `quorate run`, and more\n## A [link](to.md) & a_b\n## Twice\n## Twice\n\
                    <a id=\"x\"></a><a id=\"y\"></a>\n#none\n";
        let expected = ["a-link--a_b", "quorate-run-and-more", "twice", "twice-1", "x", "y"];
        assert_eq!(anchors(page).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn link_that_leads_outside_resolves_to_nothing() {
        assert_eq!(resolve("a/b.md", "../../c.md"), None);
        assert_eq!(resolve("a/b.md", "../c.md"), Some("c.md".to_owned()));
        assert_eq!(resolve("a/b.md", ""), Some("a/b.md".to_owned()));
    }
}
