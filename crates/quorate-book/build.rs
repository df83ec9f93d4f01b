//! Turns each Rust snippet of the README and the pages in `docs` into a documentation test.
//!
//! A snippet is the body of an async function in which `client` is a client of memory nodes, so
//! the pages do not repeat this. A snippet with a `main` function is a whole program.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let docs = root.join("docs");
    let readme = root.join("README.md");
    println!("cargo::rerun-if-changed={}", docs.display());
    println!("cargo::rerun-if-changed={}", readme.display());
    let entries = fs::read_dir(&docs).expect("docs is a folder of the repository");
    let mut pages: Vec<PathBuf> = entries
        .map(|entry| entry.expect("docs can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.insert(0, readme);
    let modules: String = pages.iter().map(|page| modules_of(page)).collect();
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("snippets.rs"), modules).expect("cargo has made the folder");
}

/// One module per snippet. Its name is the place of the snippet, which a failed test then shows.
fn modules_of(page: &Path) -> String {
    let text = fs::read_to_string(page).expect("docs can be read");
    let name = page.file_stem().expect("it has a name").to_string_lossy().replace('-', "_");
    let mut modules = String::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```rust") else { continue };
        let code: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let test = format!("```rust{info}\n{}\n```", program(&code.join("\n")));
        modules.push_str(&format!("#[doc = {test:?}]\nmod {name}_line_{at} {{}}\n"));
    }
    modules
}

fn program(code: &str) -> String {
    if code.contains("fn main()") {
        return code.to_owned();
    }
    [BEGIN, code, END].join("\n")
}

const BEGIN: &str = "\
#[tokio::main(flavor = \"current_thread\")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
let client = quorate::Client::memory();";
const END: &str = "Ok(()) }";
