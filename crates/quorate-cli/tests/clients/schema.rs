//! Requests that Schemathesis generates from the OpenAPI document. It finds undocumented responses:
//! statuses, media types, bodies of another form, and server errors.

use std::{fs, process::Stdio};

use crate::{
    fixture::Fixture,
    tool::{Tool, kit},
};

#[test]
fn every_response_is_as_documented_without_tokens() {
    let fixture = Fixture::start(0, 1, &["--max-wait", "50ms"]);
    attack(&fixture, &[]);
}

#[test]
fn every_response_is_as_documented_with_a_token() {
    let mut fixture = Fixture::start(0, 0, &[]);
    let mut command = fixture.quorate(&["token", "ci", "--scope", "admin"]);
    let output = command.stdout(Stdio::piped()).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let token = told.trim().rsplit(' ').next().expect("the token comes last");
    let path = fixture.path("tokens.toml");
    fs::write(&path, &output.stdout).expect("the folder is ours");
    fixture.add(&["--max-wait", "50ms", "--tokens", &path.display().to_string()]);
    attack(&fixture, &["--header", &format!("Authorization: Bearer {token}")]);
}

#[track_caller]
fn attack(fixture: &Fixture, more: &[&str]) {
    let document = format!("{}/openapi.json", fixture.any().url);
    // A stream of events does not end: each request lasts until its timeout.
    for which in [REQUESTS, STREAMS] {
        let tool = Tool::new("python3").env("PYTHONPATH", kit("schemathesis"));
        let tool = tool.args(["-c", PROGRAM, "run", &document]).args(ARGS).args(which);
        tool.args(more).run_well();
    }
}

const PROGRAM: &str = "from schemathesis.cli import schemathesis; schemathesis()";

/// The seed determines the choices, but not the number of requests: some follow from earlier
/// responses, such as lease ids. The excluded checks require what the schema cannot express, such
/// as which names are valid.
const ARGS: &[&str] = &[
    "--checks=not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,unsupported_method,\
     allow_header_conformance,ignored_auth",
    "--seed=1",
    "--generation-database=none",
    "--no-color",
];
const REQUESTS: &[&str] =
    &["--exclude-path=/v1/events", "--max-examples=40", "--request-timeout=10"];
const STREAMS: &[&str] =
    &["--include-path=/v1/events", "--phases=examples,coverage", "--request-timeout=1"];
