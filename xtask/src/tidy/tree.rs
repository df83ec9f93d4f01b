//! The files of the repository, as the rules read them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All files of the repository.
pub(crate) struct Tree {
    sources: Vec<Source>,
    /// Files and folders.
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads what git knows or would take up; without git, everything but build output.
    pub(crate) fn read(root: &Path) -> Self {
        let paths = listed_by_git(root).unwrap_or_else(|| walk(root));
        Self::new(paths.into_iter().filter_map(|path| {
            // A file that git knows and that was deleted just now is no longer there.
            let bytes = fs::read(root.join(&path)).ok()?;
            // What is no text (a picture) counts as empty: no rule has anything to say about it.
            let text = String::from_utf8(bytes).unwrap_or_default();
            Some(Source { path, text })
        }))
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let source = |&(path, text): &(&str, &str)| Source { path: path.into(), text: text.into() };
        Self::new(files.iter().map(source))
    }

    fn new(sources: impl Iterator<Item = Source>) -> Self {
        let sources: Vec<Source> = sources.collect();
        let with_folders = sources.iter().flat_map(|source| Path::new(&source.path).ancestors());
        let paths = with_folders.map(|path| path.to_string_lossy().into_owned()).collect();
        Self { sources, paths }
    }

    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }

    pub(crate) fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// Whether there is such a file or folder.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }
}

/// One file.
pub(crate) struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Relative to the root, with `/` between the folders.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|it| it.to_str()).unwrap_or_default()
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// The lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The lines of the product: none in a test file, else those before the inline test module.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().take(self.tests_start())
    }

    /// The lines of the tests: all of a test file, else those of the inline test module.
    pub(crate) fn test_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().skip(self.tests_start())
    }

    /// How many lines there are before the tests.
    fn tests_start(&self) -> usize {
        if self.is_test_file() {
            return 0;
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let is_mark = |line: &str| TEST_MARKS.iter().any(|mark| line.starts_with(mark));
        let marked = (0..lines.len()).filter(|&at| is_mark(lines[at]));
        marked.into_iter().find(|&at| opens_module(&lines[at + 1..])).unwrap_or(lines.len())
    }

    pub(crate) fn is_test_file(&self) -> bool {
        let mut folders: Vec<&str> = self.path.split('/').collect();
        let name = folders.pop();
        folders.contains(&"tests") || name == Some("tests.rs")
    }
}

/// A mark on `mod tests;` or on an import says nothing about the lines that follow; without this
/// difference one such line at the top of a file would hide the whole file from the rules.
fn opens_module(after_mark: &[&str]) -> bool {
    let mut items = after_mark.iter().filter(|line| !line.starts_with("#["));
    let item = items.next().copied().unwrap_or_default();
    let words: Vec<&str> = item.split_whitespace().collect();
    words.contains(&"mod") && item.ends_with('{')
}

fn listed_by_git(root: &Path) -> Option<BTreeSet<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.current_dir(root).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: BTreeSet<String> = text.split_terminator('\0').map(str::to_owned).collect();
    // An unpacked archive inside of another repository: git has an answer, but not for us.
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).into_iter().flatten().flatten();
        for entry in entries {
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder {
                found.insert(path.to_string_lossy().replace('\\', "/"));
            } else if !NOT_OURS.iter().any(|name| path.ends_with(name)) {
                folders.push(path);
            }
        }
    }
    found
}

/// Also of tests that need a feature.
const TEST_MARKS: &[&str] = &["#[cfg(test)]", "#[cfg(all(test,"];
const NOT_OURS: &[&str] = &["target", ".git"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::root;

    #[test]
    fn with_and_without_git_the_same_code_is_found() {
        let code = |paths: BTreeSet<String>| -> BTreeSet<String> {
            paths.into_iter().filter(|path| path.starts_with("xtask/src/")).collect()
        };
        let walked = code(walk(&root()));
        assert!(walked.contains("xtask/src/tidy/tree.rs"), "{walked:?}");
        if let Some(listed) = listed_by_git(&root()) {
            assert_eq!(code(listed), walked);
        }
    }

    #[test]
    fn only_an_inline_module_starts_the_tests() {
        let inline = "fn a() {}\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests {\n}\n";
        let declared = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(product_lines("src/a.rs", inline), 1);
        let with_feature = "fn a() {}\n#[cfg(all(test, feature = \"x\"))]\nmod tests {\n}\n";
        assert_eq!(product_lines("src/a.rs", with_feature), 1);
        assert_eq!(product_lines("src/a.rs", declared), 3);
        assert_eq!(product_lines("src/a/tests.rs", declared), 0);
        assert_eq!(product_lines("tests/a.rs", declared), 0);
    }

    fn product_lines(path: &str, text: &str) -> usize {
        Tree::of(&[(path, text)]).sources()[0].product_lines().count()
    }

    #[test]
    fn folders_are_known_too() {
        let tree = Tree::of(&[("docs/a/b.md", "")]);
        assert!(tree.has("docs/a/b.md") && tree.has("docs/a") && tree.has("docs"));
        assert!(!tree.has("docs/b.md"));
    }
}
