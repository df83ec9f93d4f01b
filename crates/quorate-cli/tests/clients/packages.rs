//! The packages in `clients/`: their tests, types and archives.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    fixture::Fixture,
    tool::{Tool, kit, repository},
};

#[test]
fn python_tests_pass() {
    let fixture = Fixture::nodes(3);
    let python = Tool::new("python3").in_folder(repository("clients/python"));
    let python = python.env("PYTHONPATH", "src").args(["-W", "error", "-m", "unittest", "-v"]);
    let output = on_service(python, &fixture).run_well();
    // Unittest succeeds even if it finds no test.
    assert!(output.err.contains("stays_lost"), "{}", output.err);
}

#[test]
fn python_types_are_complete() {
    let mypy = Tool::new("python3").in_folder(repository("clients/python"));
    let cache = mypy.folder().join("cache");
    let mypy = mypy.env("PYTHONPATH", kit("python")).args(["-m", "mypy", "--cache-dir"]);
    let output = mypy.args([cache]).run_well();
    assert!(output.out.starts_with("Success: no issues found in "), "{}", output.out);
}

#[test]
fn python_archives_are_complete() {
    let build = Tool::new("python3");
    let (source, archives) = (build.folder().join("source"), build.folder().join("dist"));
    copy(&repository("clients/python"), &source);
    let args = ["-m", "build", "--no-isolation", "--outdir"];
    let build = build.env("PYTHONPATH", kit("python")).in_folder(&source);
    let mut build = build.args(args).args([&archives]);
    build.run_well();
    let found = files(&archives);
    assert_eq!(found, ["quorate-0.1.0-py3-none-any.whl", "quorate-0.1.0.tar.gz"]);
    let code = "import quorate, sys, zipfile\n\
                names = zipfile.ZipFile(sys.argv[1]).namelist()\n\
                assert 'quorate/py.typed' in names, names\n\
                assert not any('test' in name for name in names), names\n\
                assert quorate.__file__.startswith(sys.argv[1]), quorate.__file__\n";
    let wheel = archives.join(&found[0]);
    let python = Tool::new("python3").env("PYTHONPATH", &wheel).args(["-c", code]);
    python.args([wheel]).run_well();
}

#[test]
fn npm_tests_pass() {
    let fixture = Fixture::nodes(3);
    let node = Tool::new("node").in_folder(repository("clients/npm"));
    let node = node.args(["--test", "test/client.test.js", "test/loss.test.js"]);
    let output = on_service(node, &fixture).run_well();
    // Node succeeds even if it finds no test.
    assert!(output.out.contains("stays lost"), "{}", output.out);
}

#[test]
fn npm_types_are_checked_and_up_to_date() {
    let sources = repository("clients/npm");
    let made = tempfile::tempdir().expect("a folder");
    typescript().in_folder(&sources).args(["-p", ".", "--outDir"]).args([made.path()]).run_well();
    let committed = sources.join("types");
    assert_eq!(files(made.path()), files(&committed));
    for name in files(&committed) {
        let [made, committed] =
            [made.path(), &committed].map(|folder| fs::read_to_string(folder.join(&name)).unwrap());
        assert_eq!(made, committed, "{name}: run `npm run types` in clients/npm");
    }
    typescript().in_folder(&sources).args(["-p", "test"]).run_well();
}

#[test]
fn npm_archive_is_complete() {
    let npm = Tool::new("npm").in_folder(repository("clients/npm"));
    let folder = npm.folder().to_owned();
    let mut npm = npm.args(["pack", "--pack-destination"]).args([&folder]);
    npm.run_well();
    Tool::new("tar").in_folder(&folder).args(["-xzf", "quorate-0.1.0.tgz"]).run_well();
    let package = folder.join("package");
    assert_eq!(files(&package), ["README.md", "package.json", "src", "types"]);
    let modules = folder.join("node_modules");
    fs::create_dir(&modules).expect("the folder is ours");
    fs::rename(&package, modules.join("quorate")).expect("the folder is ours");
    let code = "import { Client } from 'quorate'; console.log(typeof Client);";
    let node = Tool::new("node").in_folder(&folder).args(["--input-type=module", "-e", code]);
    assert_eq!({ node }.run_well().out, "function\n");
}

/// The tests of a client get two instances on three servers, and the binary to start more.
fn on_service(tool: Tool, fixture: &Fixture) -> Tool {
    let urls: Vec<&str> = fixture.instances.iter().map(|instance| instance.url.as_str()).collect();
    let tool = tool.env("QUORATE_TEST_URLS", urls.join(","));
    tool.env("QUORATE_TEST_BINARY", env!("CARGO_BIN_EXE_quorate"))
}

fn typescript() -> Tool {
    let modules = kit("npm").join("node_modules");
    let compiler = modules.join("typescript/bin/tsc");
    let types = modules.join("@types");
    Tool::new("node").args([compiler]).args(["--typeRoots"]).args([types])
}

/// The names in a folder, in order.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &PathBuf) {
    fs::create_dir_all(to).expect("the folder is ours");
    for name in files(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("the folder is ours");
        }
    }
}
