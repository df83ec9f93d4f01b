//! `cargo xtask package`: packs the crates that are published, and builds each from its package.

use crate::failure::Failure;
use crate::process::{cargo, run as run_command};

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err(Failure::usage("package takes no arguments"));
    }
    // Without `--allow-dirty`: what is packed must be what was committed.
    pack(&[]).map_err(|why| Failure::failed(format!("package: {why}")))
}

/// Packs the crates without building them: fast, and also with changes that are not committed.
pub(crate) fn check() -> Result<(), String> {
    pack(&["--no-verify", "--allow-dirty"])
}

fn pack(more: &[&str]) -> Result<(), String> {
    let mut command = cargo(["package", "--locked"]);
    for name in PUBLISHED {
        command.args(["--package", name]);
    }
    run_command(command.args(more))
}

/// All other crates have `publish = false`.
const PUBLISHED: [&str; 4] = ["quorate-core", "quorate", "quorate-server", "quorate-cli"];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::root;

    #[test]
    fn exactly_the_published_crates_can_be_published() {
        for folder in ["bench", "bench/workload", "xtask"]
            .map(|it| root().join(it))
            .into_iter()
            .chain(crates())
        {
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let name = folder.file_name().unwrap().to_str().unwrap();
            let is_private = manifest.contains("\npublish = false\n");
            assert_ne!(is_private, PUBLISHED.contains(&name), "{name}");
            for key in ["description", "readme", "keywords", "categories"] {
                assert!(is_private || manifest.contains(&format!("\n{key} = ")), "{name}: {key}");
            }
        }
    }

    fn crates() -> impl Iterator<Item = std::path::PathBuf> {
        let folders = fs::read_dir(root().join("crates")).unwrap();
        folders.map(|folder| folder.unwrap().path())
    }
}
