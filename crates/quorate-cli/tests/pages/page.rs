//! Pages and their fences.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// A code fence of a page.
#[derive(Debug)]
pub(crate) struct Fence {
    /// The line of its text, counted from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// All fences of a page, such as `docs/command.md`.
pub(crate) fn fences(page: &str) -> Vec<Fence> {
    let text = fs::read_to_string(repository(page)).expect("the page is there");
    let (mut fences, mut lines) = (Vec::new(), (1..).zip(text.lines()));
    while let Some((line, opening)) = lines.next() {
        let Some(language) = opening.trim_start().strip_prefix("```") else { continue };
        let is_inside = |line: &&str| line.trim_start() != "```";
        let text: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(is_inside).collect();
        let (language, text) = (language.to_owned(), text.join("\n") + "\n");
        fences.push(Fence { line: line + 1, language, text });
    }
    fences
}

/// A file or folder of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    Path::new(&package).join("../..").join(path)
}
