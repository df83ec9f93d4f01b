//! `cargo xtask deb`: the Debian package, which must install, start and leave nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo_tools::CARGO_DEB;
use crate::debian;
use crate::failure::Failure;
use crate::output::say;
use crate::process::{cargo, read, root, run as run_command, target};
use crate::steps::Steps;

mod machine;

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let (profile, build, pack_args) = match args {
        [] => ("release", &["--release"][..], &[][..]),
        [flag] if flag == "--debug" => ("debug", &[][..], FAST),
        _ => {
            return Err(Failure::usage(format!(
                "deb knows only --debug, not `{}`",
                args.join(" ")
            )));
        }
    };
    let mut steps = Steps::of("deb");
    let mut command = cargo("build --locked --package quorate-cli".split(' '));
    steps.run("build", || run_command(command.args(build)))?;
    let program = target().join(profile).join(PROGRAM);
    steps.run("package", || pack(&program, pack_args))?;
    steps.run("install", install)?;
    steps.finish();
    Ok(())
}

/// Packs and installs a program that was built for tests.
pub(crate) fn check(program: &Path) -> Result<(), String> {
    pack(program, FAST)?;
    install()
}

/// Makes the package from the program and the files that it generates.
fn pack(program: &Path, more: &[&str]) -> Result<(), String> {
    if debian::can_install() {
        debian::ensure_all(&[
            ("xz", "xz-utils"),
            ("strip", "binutils"),
            ("dpkg-shlibdeps", "dpkg-dev"),
        ])?;
    }
    let mut cargo_deb = CARGO_DEB.ensure()?;
    let folder = folder();
    remove(&folder)?;
    // For cargo-deb, this is the build folder.
    let build = folder.join("release");
    let failed = |error| format!("writing to {}: {error}", build.display());
    for part in ["man", "completions"] {
        fs::create_dir_all(build.join(part)).map_err(failed)?;
    }
    fs::copy(program, build.join(PROGRAM)).map_err(failed)?;
    for (file, text) in generated(program)? {
        fs::write(build.join(file), text).map_err(failed)?;
    }
    // Cargo-deb compresses them only without `--fast`.
    let pages = names_in(&build.join("man"))?;
    run_command(Command::new("gzip").args(["-9", "--no-name"]).args(pages))?;
    cargo_deb.args(["--no-build", "--locked", "--package", "quorate-cli", "--output"]);
    cargo_deb.arg(package()).args(more).current_dir(root()).env("CARGO_TARGET_DIR", &folder);
    run_command(&mut cargo_deb)?;
    say(format!("{}", package().display()));
    Ok(())
}

fn names_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    entries.map_err(|error| format!("{}: {error}", folder.display()))
}

/// The man pages and the completions, with their paths in the build folder.
fn generated(program: &Path) -> Result<Vec<(String, String)>, String> {
    let mut files = Vec::new();
    for (shell, name) in [("bash", "quorate.bash"), ("zsh", "_quorate"), ("fish", "quorate.fish")] {
        let text = read(Command::new(program).args(["completions", shell]))?;
        files.push((format!("completions/{name}"), text));
    }
    // Each page names those of its subcommands.
    let mut names = vec![PROGRAM.to_owned()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        next += 1;
        let text = read(Command::new(program).arg("man").args(name.split('-').skip(1)))?;
        names.extend(text.lines().filter_map(|line| line.strip_suffix("(1)")).map(unescaped));
        files.push((format!("man/{name}.1"), text));
    }
    Ok(files)
}

fn unescaped(name: &str) -> String {
    name.replace('\\', "")
}

/// Installs, starts and removes the package on a machine of its own, where that is ours to do.
fn install() -> Result<(), String> {
    if debian::can_install() {
        return machine::check(&package(), &folder().join("machine"));
    }
    say("not installed: that needs root on Debian or Ubuntu");
    Ok(())
}

fn folder() -> PathBuf {
    target().join("deb")
}

fn package() -> PathBuf {
    folder().join("quorate.deb")
}

fn remove(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).map_err(|error| format!("removing {}: {error}", folder.display()))
}

const PROGRAM: &str = "quorate";
/// Compresses less.
const FAST: &[&str] = &["--fast"];
