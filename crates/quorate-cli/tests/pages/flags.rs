//! Command lines on all pages: the verbs and flags of quorate exist.

use std::{collections::BTreeMap, fs};

use crate::{
    page::{fences, repository},
    session::Session,
};

#[test]
fn command_lines_on_the_pages_have_only_verbs_and_flags_that_exist() {
    let (mut helps, mut checked) = (BTreeMap::new(), 0);
    for page in pages() {
        let shell = fences(&page);
        for fence in shell.iter().filter(|it| ["console", "sh"].contains(&&*it.language)) {
            for words in fence.text.lines().flat_map(command_lines) {
                let verb = verb_of(&words);
                let help = helps.entry(verb.clone()).or_insert_with(|| help(&verb));
                for flag in words.iter().filter(|word| word.starts_with('-')) {
                    let name = flag.split('=').next().unwrap_or_default();
                    let exists = help.split([' ', ',', '\n']).any(|word| word == name);
                    assert!(exists, "{page}:{}: {verb} has no {name}", fence.line);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 30, "the pages have flags: {checked}");
}

fn pages() -> Vec<String> {
    let folder = fs::read_dir(repository("docs")).expect("the folder is there");
    let names = folder.map(|entry| entry.expect("it can be read").file_name());
    let names = names.map(|name| name.into_string().expect("it is text"));
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    pages.chain(["README.md".to_owned()]).collect()
}

/// Each call of quorate in a line, without its name and without the command that it runs.
fn command_lines(line: &str) -> Vec<Vec<&str>> {
    let line = line.split(" # ").next().unwrap_or_default();
    let calls = line.split("quorate ").skip(1).filter(|_| !line.starts_with("quorate:"));
    calls
        .map(|call| {
            let ends = |word: &&str| !["--", "|", "||", ">>", ">", "&", "-c"].contains(word);
            call.split_whitespace()
                .map(|word| word.trim_end_matches([')', '"']))
                .take_while(ends)
                .collect()
        })
        .collect()
}

/// `run`, or `nodes admit`.
fn verb_of(words: &[&str]) -> String {
    let count = if words.first() == Some(&"nodes") { 2 } else { 1 };
    words.iter().take(count).copied().collect::<Vec<_>>().join(" ")
}

fn help(verb: &str) -> String {
    let output = Session::new().run(&format!("quorate {verb} --help"));
    assert!(output.status.success(), "there is no verb {verb}");
    String::from_utf8(output.stdout).expect("it is text")
}
