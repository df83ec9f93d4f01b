//! Rules about the names in code.

use crate::tidy::Findings;
use crate::tidy::texts::identifiers;
use crate::tidy::tree::{Source, Tree};

/// Words that have a clearer alternative, or another meaning, as a part of an identifier.
pub(super) fn old_names(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, name) in identifiers(source) {
        let words = words_of(&name);
        let old = OLD.iter().find(|(old, _)| words.iter().any(|word| word == old));
        found.extend(
            old.map(|(old, instead)| (at, format!("`{old}` in the name `{name}`: {instead}"))),
        );
    }
    found
}

/// The words of a name in any of the usual forms, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let (mut words, mut was_lower) = (String::new(), false);
    for sign in name.chars() {
        if sign.is_uppercase() && was_lower {
            words.push('_');
        }
        was_lower = sign.is_lowercase();
        words.extend(sign.to_lowercase());
    }
    words.split('_').map(str::to_owned).collect()
}

/// In lower case.
const OLD: &[(&str, &str)] = &[
    ("chamber", MEMBERSHIP),
    ("chambers", MEMBERSHIP),
    ("collar", DEADLINE),
    ("council", MEMBERSHIP),
    ("desk", "say what it is: `program`, `transaction`"),
    ("desks", "say what it is: `program`, `transaction`"),
    ("ear", RECEIVER),
    ("ears", RECEIVER),
    ("greeting", "say `handshake`, or name the command"),
    ("greetings", "say `handshake`, or name the command"),
    ("hear", RECEIVED),
    ("heard", RECEIVED),
    ("hears", RECEIVED),
    ("keeper", "say `watchdog`"),
    ("keepers", "say `watchdog`"),
    ("leash", DEADLINE),
    ("look", "say `check`, `read`, `inspect` or `search`"),
    ("looks", "say `check`, `read`, `inspect` or `search`"),
    ("meeting", "say `handshake`"),
    ("mend", "say `fix` or `repair`"),
    ("mended", "say `fix` or `repair`"),
    ("mouth", "say `sender`"),
    ("nosy", "say what it does"),
    ("office", "say what it is: `store`, `folder`"),
    ("pact", "say `config`"),
    ("prolong", "say `extend`"),
    ("prolongation", "say `extension`"),
    ("prolonged", "say `extended`"),
    ("rig", FIXTURE),
    ("said", "say what was sent: `reply`, `message`, `output`"),
    ("saying", "say what was sent: `reply`, `message`, `output`"),
    ("sight", "say `observation`"),
    ("spoken", "say what was sent: `reply`, `message`, `output`"),
    ("trial", FIXTURE),
    ("trouble", "say `node_error`"),
    ("troubles", "say `node_errors`"),
    ("turnstile", "say `lock_file`"),
    ("unheard", "say `unavailable` or `unanswered`"),
    ("voice", "say `reporter`"),
    ("wish", "say `output`"),
];

const DEADLINE: &str = "say `deadline` or `termination`";
const FIXTURE: &str = "say `fixture`";
const MEMBERSHIP: &str = "say `membership`";
const RECEIVED: &str = "say `received` or `answered`";
const RECEIVER: &str = "say `receiver` or `listener`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn old_names_in_every_form() {
        let message = |name| format!("a.rs:2: `desk` in the name `{name}`: {}", OLD[4].1);
        for (code, name) in [
            ("struct Desk;", "Desk"),
            ("fn the_desk() {}", "the_desk"),
            ("const DESK: u8 = 1;", "DESK"),
            ("let a = b.desk;", "desk"),
            ("mod desk;", "desk"),
            ("type A = OpenDeskList;", "OpenDeskList"),
        ] {
            let found = old_names(
                &Tree::of(&[("a.rs", &format!("//! A.\n{code}\n"))]).sources()[0],
                &Tree::of(&[]),
            );
            let found: Vec<_> =
                found.into_iter().map(|(at, text)| format!("a.rs:{at}: {text}")).collect();
            assert_eq!(found, [message(name)]);
        }
        for (old, instead) in OLD {
            let code = format!("//! A.\nfn a_{old}() {{}}\n");
            fires(&[("a.rs", &code)], &format!("a.rs:2: `{old}` in the name `a_{old}`: {instead}"));
        }
    }

    #[test]
    fn texts_and_longer_words() {
        is_quiet(&[("a.rs", "//! A.\nfn trials() { b(\"TRIAL\", 'd') } // trial, hearing\n")]);
        is_quiet(&[("a.rs", "//! A.\nlet (hearing, prefix, clear, wished) = early;\n")]);
        is_quiet(&[("a.md", "# A\n\nThe fn `trial_1`.\n")]);
    }
}
