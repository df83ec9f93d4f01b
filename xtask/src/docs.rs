//! `cargo xtask docs`: the pages in `docs` as a book with search, without dead links.
//!
//! Links that lead out of `docs` work in a checkout and on the repository's site. In the book they
//! lead to that site, so the book is built from a copy in which these links are rewritten.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo_tools::MDBOOK;
use crate::failure::Failure;
use crate::output::say;
use crate::process::{root, run as run_command, target};
use crate::tidy::links::{is_elsewhere, parts, resolve, target_ranges};
use crate::tidy::prose::prose_lines;
use crate::tidy::tree::{Source, Tree};
use crate::tidy::{self, Fault};

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err(Failure::usage("docs takes no arguments"));
    }
    build().map_err(|why| Failure::failed(format!("docs: {why}")))
}

/// Checks the pages and builds the book.
pub(crate) fn build() -> Result<(), String> {
    let tree = Tree::read(&root());
    let mut faults = tidy::faults_in_links(&tree);
    faults.extend(unlisted_pages(&tree));
    for fault in &faults {
        say(fault.to_string());
    }
    if !faults.is_empty() {
        return Err(format!("{} faults in links", faults.len()));
    }
    let (copy, book) = (target().join("book-source"), target().join("book"));
    remove(&copy).and_then(|()| remove(&book))?;
    copy_pages(&tree, &copy)?;
    let mut mdbook = MDBOOK.ensure()?;
    run_command(mdbook.arg("build").arg(&copy).arg("--dest-dir").arg(&book))?;
    say(format!("{}", book.join("index.html").display()));
    Ok(())
}

/// Pages that the book would leave out.
fn unlisted_pages(tree: &Tree) -> Vec<Fault> {
    let listed = |page: &Source| {
        let summary = tree.source(SUMMARY).map(Source::text).unwrap_or_default();
        let mut links = summary.lines().flat_map(|line| {
            target_ranges(line).into_iter().filter_map(|range| resolve(SUMMARY, &line[range]))
        });
        links.any(|link| link == page.path())
    };
    let pages = tree.sources().iter().filter(|page| is_page(page) && page.path() != SUMMARY);
    let unlisted = pages.filter(|page| !listed(page));
    let fault = |page: &Source| Fault {
        path: page.path().to_owned(),
        line: 1,
        message: format!("{SUMMARY} does not list this page"),
    };
    unlisted.map(fault).collect()
}

fn is_page(source: &Source) -> bool {
    source.path().starts_with(PAGES) && source.extension() == "md"
}

fn remove(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).map_err(|error| format!("removing {}: {error}", folder.display()))
}

/// Copies all that is below `docs`. Pages get links that work in the book.
fn copy_pages(tree: &Tree, folder: &Path) -> Result<(), String> {
    for source in tree.sources() {
        let Some(path) = source.path().strip_prefix(PAGES) else { continue };
        let from = root().join(source.path());
        let to: PathBuf = folder.join(path);
        let parent = to.parent().unwrap_or(folder);
        let copied = fs::create_dir_all(parent).and_then(|()| match is_page(source) {
            true => fs::write(&to, for_the_book(source)),
            false => fs::copy(&from, &to).map(drop),
        });
        copied.map_err(|error| format!("copying {}: {error}", from.display()))?;
    }
    Ok(())
}

/// The page with absolute links in place of those that lead out of `docs`.
fn for_the_book(page: &Source) -> String {
    let mut lines: Vec<String> = page.text().lines().map(str::to_owned).collect();
    for (at, line) in prose_lines(page.text()) {
        for range in target_ranges(line).into_iter().rev() {
            if let Some(target) = target_outside(page.path(), &line[range.clone()]) {
                lines[at - 1].replace_range(range, &target);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// A link that leads out of `docs`, as one to the repository's site.
fn target_outside(from: &str, target: &str) -> Option<String> {
    let (file, anchor) = parts(target);
    if is_elsewhere(target) {
        return None;
    }
    let path = resolve(from, file).filter(|path| !path.starts_with(PAGES))?;
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    Some(format!("{SITE}/{path}{anchor}"))
}

const PAGES: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";
/// The site redirects from `blob` to `tree` for a folder.
const SITE: &str = "https://github.com/quorate/quorate/blob/main";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_are_absolute() {
        let target = |target| target_outside("docs/design/a.md", target);
        assert_eq!(target("../b.md#part"), None);
        assert_eq!(target("#part"), None);
        assert_eq!(target("https://example.org"), None);
        assert_eq!(target("../../README.md"), Some(format!("{SITE}/README.md")));
        assert_eq!(target("../../a.md#b"), Some(format!("{SITE}/a.md#b")));
    }

    #[test]
    fn only_links_in_prose_are_rewritten() {
        let page = "# A\n[a](../x.md) [b](b.md) [c](../y)\n```\n[a](../x.md)\n```\n";
        let tree = Tree::of(&[("docs/a.md", page)]);
        let expected =
            format!("# A\n[a]({SITE}/x.md) [b](b.md) [c]({SITE}/y)\n```\n[a](../x.md)\n```\n");
        assert_eq!(for_the_book(&tree.sources()[0]), expected);
    }

    #[test]
    fn page_that_the_summary_does_not_list_is_a_fault() {
        let summary = "# Summary\n- [A](a.md)\n";
        let pages =
            [("docs/SUMMARY.md", summary), ("docs/a.md", "# A\n"), ("docs/b/c.md", "# C\n")];
        let found = unlisted_pages(&Tree::of(&pages));
        let found: Vec<String> = found.iter().map(Fault::to_string).collect();
        assert_eq!(found, ["docs/b/c.md:1: docs/SUMMARY.md does not list this page"]);
    }

    #[test]
    fn site_is_that_of_the_repository() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let site = SITE.strip_suffix("/blob/main").unwrap();
        assert!(manifest.contains(&format!("repository = \"{site}\"")), "{site}");
    }
}
