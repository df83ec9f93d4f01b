//! The scripts and settings of the page about the command. The reader's programs have stand-ins.

use std::fs;

use quorate_testkit::Server;

use crate::{page::fences, session::Session};

#[test]
fn scripts_of_the_page_about_the_command_run_as_written() {
    let scripts = fences("docs/command.md").into_iter();
    let scripts: Vec<_> = scripts.filter(|it| ["console", "sh"].contains(&&*it.language)).collect();
    assert!(scripts.len() > 10, "the page has scripts");
    for fence in scripts.iter().filter(|fence| !fence.text.contains("quorate serve")) {
        let servers = Server::start_many(3);
        let session = Session::new();
        READERS_PROGRAMS.iter().for_each(|name| session.stand_in(name));
        let mut script = fence.text.replace("/usr/local/bin/", "./");
        for (number, server) in (1..).zip(&servers) {
            script = script.replace(&format!("redis://10.0.0.{number}"), &server.url());
        }
        // A minimum is for clocks that differ, and the test need not wait for it.
        let script = script.replace("--min-hold 40s ", "");
        let settings = "export url=http://127.0.0.1 BUILD=7";
        let output = session.run(&format!("{settings}\nset -e\n{script}"));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "docs/command.md:{}: {text}", fence.line);
    }
}

#[test]
fn settings_file_of_the_page_is_valid() {
    let page = fences("docs/command.md");
    let file = page.iter().find(|fence| fence.language == "toml").expect("the page shows the file");
    let session = Session::new();
    fs::write(session.folder().join("config.toml"), &file.text).expect("the folder is ours");
    let output = session.run("quorate config --config config.toml");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for line in file.text.lines() {
        let (key, _) = line.split_once(" = ").expect("each line is a setting");
        assert!(text.contains(key.trim()), "{key} in {text}");
    }
}

/// What the scripts on the page run.
const READERS_PROGRAMS: [&str; 10] = [
    "backup", "curl", "deploy", "migrate", "rebuild", "render", "report", "serve", "step",
    "transfer",
];
