//! The programs in `docs/clients.md`: each is complete, and does what the page describes.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::{
    fixture::{Fixture, Response},
    tool::{Tool, ToolOutput, repository, tools},
};

#[test]
fn curl_program_works() {
    check("curl", "sh", "orders.sh", |tool| tool);
}

#[test]
fn python_program_works_without_packages() {
    check("python-stdlib", "python3", "orders.py", |tool| tool.env("PYTHONWARNINGS", "error"));
}

#[test]
fn python_program_works_with_the_package() {
    let package = repository("clients/python/src");
    check("python-package", "python3", "orders.py", |tool| tool.env("PYTHONPATH", package));
}

#[test]
fn node_program_works_without_packages() {
    check("node-fetch", "node", "orders.mjs", |tool| tool);
}

#[test]
fn node_program_works_with_the_package() {
    check("npm-package", "node", "orders.mjs", |tool| {
        let modules = tool.folder().join("node_modules");
        fs::create_dir(&modules).expect("the folder is ours");
        symlink(repository("clients/npm"), modules.join("quorate")).expect("the folder is ours");
        tool
    });
}

#[test]
fn go_program_works() {
    // Compiled in advance, and kept between runs: compiling may take longer than the lease of the
    // holder.
    let cached = |tool: Tool| tool.env("GOCACHE", tools().join("go-cache"));
    let go = cached(Tool::new("go")).args(["build", "-o", "orders", "orders.go"]);
    fs::write(go.folder().join("orders.go"), snippet("go")).expect("the folder is ours");
    { go }.run_well();
    check("go", "go", "orders.go", |tool| cached(tool).args(["run"]));
}

#[test]
fn java_program_works() {
    check("java", "java", "Orders.java", |tool| tool);
}

#[test]
fn every_program_of_the_page_is_run() {
    let page = page();
    let marked = page.matches(MARK).count();
    let tests = include_str!("snippets.rs").matches("    check(\"").count();
    assert_eq!(marked, tests);
    // Every block with a language is a program that is tested.
    let blocks = page.lines().filter(|line| line.len() > 3 && line.starts_with("```")).count();
    assert_eq!(marked, blocks);
}

/// Runs a program while the lock is held, and when it is free, with a service that requires a
/// token.
#[track_caller]
fn check(mark: &str, program: &str, file: &str, prepare: impl FnOnce(Tool) -> Tool) {
    let service = ProtectedService::start();
    let mut tool = prepare(Tool::new(program));
    fs::write(tool.folder().join(file), snippet(mark)).expect("the folder is ours");
    tool = tool.args([file]).env("QUORATE_URL", service.url()).env("QUORATE_TOKEN", &service.token);

    let holder = service.acquire().assert_status(200);
    let ToolOutput { is_success, out, err } = tool.run();
    assert!(!is_success && !out.contains("working"), "the lock is held: {out}{err}");
    service.release(&holder.lease_id());

    let ToolOutput { out, err, .. } = tool.run_well();
    let lines: Vec<&str> = out.lines().collect();
    let [working, renewed, "released"] = lines[..] else { panic!("{out}{err}") };
    assert!(renewed.starts_with("renewed"), "{out}{err}");
    let fence = working.strip_prefix("working with fence ").and_then(|it| it.parse::<u64>().ok());
    let fence = fence.unwrap_or_else(|| panic!("no fence: {out}{err}"));
    assert!(fence > holder.number("fence"), "{out}{err}");
    let next = service.acquire().assert_status(200);
    assert!(next.number("fence") > fence, "{next:?}");
}

/// A service that requires a token.
struct ProtectedService {
    fixture: Fixture,
    token: String,
}

impl ProtectedService {
    fn start() -> Self {
        let mut fixture = Fixture::start(0, 0, &[]);
        let made = fixture.quorate(&["token", "docs"]).output().expect("it runs");
        let told = String::from_utf8(made.stderr).expect("it prints text");
        let is_token = |word: &&str| word.starts_with("qt_");
        let token = told.split_whitespace().find(is_token).expect("a token").to_owned();
        let path = fixture.path("tokens.toml");
        fs::write(&path, made.stdout).expect("the folder is ours");
        fixture.add(&["--tokens", &path.display().to_string()]);
        Self { fixture, token }
    }

    fn url(&self) -> String {
        self.fixture.instances[0].url.clone()
    }

    /// Acquires the lock of the page, if it is free.
    fn acquire(&self) -> Response {
        let authorization = format!("Bearer {}", self.token);
        let headers = [("Authorization", authorization.as_str())];
        let request = json!({ "ttl_ms": 60_000 });
        self.fixture.instances[0].acquire_with("orders%3A42", &headers, &request)
    }

    fn release(&self, lease_id: &str) {
        let authorization = format!("Bearer {}", self.token);
        let headers = [("Authorization", authorization.as_str())];
        let path = format!("/v1/leases/{lease_id}");
        self.fixture.instances[0].send("DELETE", &path, &headers, None).assert_status(204);
    }
}

/// The block of code that follows a mark.
#[track_caller]
fn snippet(mark: &str) -> String {
    let page = page();
    let marked = page.split_once(&format!("{MARK}{mark} -->\n```"));
    let (_, block) = marked.unwrap_or_else(|| panic!("no program is marked {mark}"));
    let (_, code) = block.split_once('\n').expect("the language, and then the code");
    let (code, _) = code.split_once("\n```\n").expect("the block ends");
    format!("{code}\n")
}

fn page() -> String {
    fs::read_to_string(repository("docs/clients.md")).expect("it is there")
}

const MARK: &str = "<!-- run: ";
