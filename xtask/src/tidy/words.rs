//! Rules about words that must not appear.
//!
//! The needles are put together with `concat!`, so that no rule finds itself.

use crate::tidy::Findings;
use crate::tidy::texts::texts;
use crate::tidy::tree::{Source, Tree};

/// Marks of unfinished work: finish it, or write it down where it will be found.
pub(super) fn leftovers(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, line) in source.lines() {
        let words = LEFTOVER_WORDS.iter().filter(|word| has_word(line, word));
        let calls = LEFTOVER_CALLS.iter().filter(|call| has_start_of_word(line, call));
        found.extend(words.chain(calls).map(|mark| (at, format!("leftover mark `{mark}`"))));
    }
    found
}

/// A file that names a folder of one machine is broken on every other one.
pub(super) fn paths_of_one_machine(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, line) in source.lines() {
        let outside = OUTSIDE.iter().filter(|path| line.contains(**path));
        let absolute = ABSOLUTE.iter().filter(|path| has_absolute_path(line, path));
        found.extend(outside.chain(absolute).map(|path| (at, format!("the path `{path}`"))));
    }
    found
}

/// The word means two things around locks (who holds it, and how often it was taken), so this
/// code has a name for each of them instead.
pub(super) fn bare_token(source: &Source, _: &Tree) -> Findings {
    let found = source.lines().filter(|(_, line)| has_word(&line.to_lowercase(), "token"));
    found.map(|(at, _)| (at, "the word `token`: say which one is meant".to_owned())).collect()
}

/// Words and phrases that have a clearer alternative, or another meaning here.
pub(super) fn unclear(source: &Source, _: &Tree) -> Findings {
    let pieces = texts(source);
    let phrases: Vec<&Phrase> =
        UNCLEAR.iter().filter(|phrase| phrase.applies_to(source.path())).collect();
    let mut found = Vec::new();
    for (index, (at, piece)) in pieces.iter().enumerate() {
        let piece = plain(piece);
        // A phrase can wrap: it counts where it begins.
        let next = pieces.get(index + 1).filter(|(next, _)| *next == at + 1);
        let joined = format!("{piece} {}", next.map(|(_, next)| plain(next)).unwrap_or_default());
        let phrases = phrases.iter().filter(|phrase| phrase.begins_in(&joined, piece.len()));
        found.extend(phrases.map(|Phrase { words, instead, .. }| {
            (*at, format!("`{words}` is unclear: {instead}"))
        }));
    }
    found
}

/// The files that list words and phrases are full of them.
pub(super) fn is_checked(source: &Source) -> bool {
    !THESE.contains(&source.path())
}

/// Lower case, with single spaces.
fn plain(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A phrase that is not used, and what is used instead.
struct Phrase {
    words: &'static str,
    instead: &'static str,
    /// How the text can go on where the phrase means something else.
    unless_before: &'static [&'static str],
    /// Where the phrase means something else in all files.
    unless_below: Option<&'static str>,
}

impl Phrase {
    const fn new(words: &'static str, instead: &'static str) -> Self {
        Self { words, instead, unless_before: &[], unless_below: None }
    }

    const fn unless_before(self, unless_before: &'static [&'static str]) -> Self {
        Self { unless_before, ..self }
    }

    const fn unless_below(self, folder: &'static str) -> Self {
        Self { unless_below: Some(folder), ..self }
    }

    fn applies_to(&self, path: &str) -> bool {
        !self.unless_below.is_some_and(|folder| path.starts_with(folder))
    }

    /// Whether it begins in the first `length` bytes of the text.
    fn begins_in(&self, text: &str, length: usize) -> bool {
        text.match_indices(self.words).take_while(|(at, _)| *at < length).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + self.words.len()..]);
            let means_another = self.unless_before.iter().any(|other| after.starts_with(other));
            !before.ends_with(is_word_part) && !after.starts_with(is_word_part) && !means_another
        })
    }
}

/// Whether `word` stands alone: neither a letter, a digit nor an underscore next to it.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_word_part) && !after.starts_with(is_word_part)
    })
}

/// As [`has_word`], but anything may follow.
pub(super) fn has_start_of_word(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(is_word_part))
}

/// Whether `path` is where a path begins, and not in the middle of a longer one.
fn has_absolute_path(line: &str, path: &str) -> bool {
    let is_path_part = |c: char| is_word_part(c) || ['.', '-', '~', '}', ')'].contains(&c);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_path_part))
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

const LEFTOVER_WORDS: &[&str] =
    &[concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK"), concat!("TO", "DO")];
const LEFTOVER_CALLS: &[&str] =
    &[concat!("to", "do!("), concat!("un", "implemented!("), concat!("db", "g!(")];
const OUTSIDE: &[&str] = &[concat!("../", "shared")];
const ABSOLUTE: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

const THESE: &[&str] = &["xtask/src/tidy/words.rs", "xtask/src/tidy/names.rs"];

/// In lower case.
const UNCLEAR: &[Phrase] = &[
    Phrase::new("whoever", NAME_THE_ACTOR),
    Phrase::new("one who", NAME_THE_ACTOR),
    Phrase::new("those who", NAME_THE_ACTOR),
    Phrase::new("somebody", NAME_THE_ACTOR),
    Phrase::new("so many", "give the number, or say `up to`"),
    Phrase::new("so long as", "say `while`"),
    Phrase::new("is told", REPORTS),
    Phrase::new("are told", REPORTS),
    Phrase::new("be told", REPORTS),
    Phrase::new("been told", REPORTS),
    Phrase::new("being told", REPORTS),
    Phrase::new("was told", REPORTS),
    Phrase::new("were told", REPORTS),
    Phrase::new("told that", REPORTS),
    Phrase::new("tells", REPORTS),
    Phrase::new("of its day", "describe the present"),
    Phrase::new("comes in its turn", FIFO),
    Phrase::new("come in their turn", FIFO),
    Phrase::new("without end", "say `indefinitely`"),
    Phrase::new("also if", "say `even if`"),
    Phrase::new("not if", "say `unless`, or what happens instead"),
    Phrase::new("stands in line", FIFO),
    Phrase::new("stand in line", FIFO),
    Phrase::new("in line", "say `in the queue`").unless_before(LINES_OF_FILES),
    Phrase::new("in the line", "say `in the queue`").unless_before(LINES_OF_FILES),
    Phrase::new("the line", "say `the queue`").unless_before(LINES_OF_FILES).unless_below("xtask/"),
    Phrase::new("keeper", "say `watchdog`"),
    Phrase::new("keepers", "say `watchdog`"),
    Phrase::new("restart guard", QUARANTINE),
    Phrase::new("restart guards", QUARANTINE),
    Phrase::new("restart_guard", QUARANTINE),
    Phrase::new("guarded", QUARANTINE),
    Phrase::new("unguarded", QUARANTINE),
    Phrase::new("under guard", QUARANTINE),
    Phrase::new("under the guard", QUARANTINE),
    Phrase::new("half the guard", QUARANTINE),
    Phrase::new("quarter of the guard", QUARANTINE),
    Phrase::new("council", "say `membership`"),
    Phrase::new("chamber", "say `membership`"),
    Phrase::new("mend", "say `fix`"),
    Phrase::new("mends", "say `fix`"),
    Phrase::new("mended", "say `fix`"),
    Phrase::new("mending", "say `fix`"),
    Phrase::new("look at", "say `read`, `check` or `inspect`"),
    Phrase::new("looks at", "say `read`, `check` or `inspect`"),
    Phrase::new("looking at", "say `read`, `check` or `inspect`"),
    Phrase::new("looked at", "say `read`, `check` or `inspect`"),
    Phrase::new("leash", "say what is limited, and by what"),
    Phrase::new("collar", "say what is limited, and by what"),
    Phrase::new("desk", "say what it is"),
    Phrase::new("office", "say what it is"),
    Phrase::new("voice", "say `reporter`, or what reports"),
    Phrase::new("wish", "say what is set or requested"),
    Phrase::new("wishes", "say what is set or requested"),
    Phrase::new("mouth", "say `sender`"),
    Phrase::new("rig", "say `fixture`"),
    Phrase::new("nosy", "say what it does"),
    Phrase::new("pact", "say `agreed config`"),
    Phrase::new("turnstile", "say `the folder's lock file`"),
    Phrase::new("greeting", "say `handshake`, or name the command"),
    Phrase::new("greetings", "say `handshake`, or name the command"),
    Phrase::new("in its turn", FIFO),
    Phrase::new("in their turn", FIFO),
    Phrase::new("stands in", "say `is in` or `is queued in`").unless_before(&[" for"]),
    Phrase::new("stand in", "say `is in` or `is queued in`").unless_before(&[" for"]),
    Phrase::new("hand on", HAND_OFF),
    Phrase::new("hands on", HAND_OFF),
    Phrase::new("handed on", HAND_OFF),
    Phrase::new("asks nobody", "say what it decides alone"),
    Phrase::new("comes too late", "say `arrives too late`"),
    Phrase::new("came too late", "say `arrived too late`"),
    Phrase::new("come too late", "say `arrive too late`"),
    Phrase::new("the judge", "say `the checker`"),
    Phrase::new("hear", RECEIVES),
    Phrase::new("heard", RECEIVES),
    Phrase::new("hears", RECEIVES),
    Phrase::new("lets in", ADMITS),
    Phrase::new("let in", ADMITS),
    Phrase::new("letting in", ADMITS),
    Phrase::new("of today", "describe the present"),
    Phrase::new("for ever", "say `forever`"),
    Phrase::new("lives on", "say `stays valid` or `stays held`"),
    Phrase::new("who has it", HOLDS),
    Phrase::new("nobody has", HOLDS),
    Phrase::new("nobody holds", HOLDS),
    Phrase::new("be had", "say `be acquired`"),
    Phrase::new("had by", HOLDS).unless_before(&[" then"]),
    Phrase::new("has had", HOLDS).unless_before(&[" an effect"]),
    Phrase::new("what came of", "name the result"),
    Phrase::new("is over", ENDED),
    Phrase::new("was over", ENDED),
    Phrase::new("were over", ENDED),
    Phrase::new("are over", ENDED),
    Phrase::new("key has gone", "say `has expired` or `was deleted`"),
    Phrase::new("keys have gone", "say `have expired` or `were deleted`"),
    Phrase::new("had gone", "say `had ended`, `had expired` or `was deleted`"),
    Phrase::new("caller has gone", "say `has dropped its future` or `has left`"),
    Phrase::new("waiter has gone", "say `has left`"),
    Phrase::new("prolong", "say `extend`"),
    Phrase::new("prolonged", "say `extended`"),
    Phrase::new("prolonging", "say `extending`"),
    Phrase::new("prolongs", "say `extends`"),
    Phrase::new("lives of", "say `lifetimes`, or the glossary's `incarnations`"),
    Phrase::new("goes on without", "say `continues without`"),
    Phrase::new("go on without", "say `continue without`"),
    Phrase::new("has the lock", HOLDS),
    Phrase::new("have the lock", HOLDS),
    Phrase::new("had the lock", HOLDS),
    Phrase::new("had it", HOLDS),
    Phrase::new("thrown out of", "say `removed from`"),
    Phrase::new("a crowd", "say how many, or `under contention`"),
    Phrase::new("also when", "say `even when`"),
    Phrase::new("troubles", "say `errors`"),
    Phrase::new("first review", "describe the present"),
    Phrase::new("second review", "describe the present"),
];

const NAME_THE_ACTOR: &str = "name the actor";
const RECEIVES: &str = "say `receive` or `answer`";
const REPORTS: &str = "say `reports` or `notifies`";
const FIFO: &str = "say `waits`, `in FIFO order`";
const HAND_OFF: &str = "say `hand off` or `hand over`";
const ADMITS: &str = "say `admits` or `accepts`";
const HOLDS: &str = "say which client holds it, or that no client does";
const ENDED: &str = "say `has ended` or `has expired`";
const QUARANTINE: &str = "say `quarantine`; a guard is a held lock";
/// How the text goes on after a line of a file.
const LINES_OF_FILES: &[&str] = &[" {", " 1", " end", " number", " of "];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn leftover_marks() {
        for mark in LEFTOVER_WORDS {
            let text = format!("//! A.\n// {mark}: later\n");
            fires(&[("a.rs", &text)], &format!("a.rs:2: leftover mark `{mark}`"));
        }
        for mark in LEFTOVER_CALLS {
            let text = format!("//! A.\nfn a() {{ {mark}) }}\n");
            fires(&[("a.rs", &text)], &format!("a.rs:2: leftover mark `{mark}`"));
        }
        let lua = format!("-- KEYS, ARGV, replies.\n-- {}\n", LEFTOVER_WORDS[0]);
        fires(&[("a.lua", &lua)], &format!("a.lua:2: leftover mark `{}`", LEFTOVER_WORDS[0]));
        is_quiet(&[("a.rs", concat!("//! The TO", "DOS and XX", "XX of hackers.\n"))]);
        is_quiet(&[("a.md", concat!("# A title with TO", "DO\n"))]);
    }

    #[test]
    fn paths_of_other_machines() {
        for path in OUTSIDE.iter().chain(ABSOLUTE) {
            let text = format!("cd {path}x\n");
            fires(&[("run", &text)], &format!("run:1: the path `{path}`"));
        }
        let inner = ABSOLUTE[0];
        is_quiet(&[("run", &format!("curl https://example.org{inner}x; ls home{inner}\n"))]);
    }

    #[test]
    fn the_bare_word_token() {
        let path = "crates/quorate/src/lib.rs";
        let message = "crates/quorate/src/lib.rs:2: the word `token`: say which one is meant";
        fires(&[(path, "//! A.\nlet token = 1;\n")], message);
        fires(&[(path, "//! A.\n// The fencing-Token.\n")], message);
        is_quiet(&[(path, "//! A.\nfn stop(cancellation_token: CancellationToken) {}\n")]);
        is_quiet(&[("crates/quorate-testkit/src/lib.rs", "//! A token.\n")]);
    }
    #[test]
    fn unclear_phrases() {
        for phrase in UNCLEAR {
            let text = format!("# A\n\nAs {}.\n", phrase.words.to_uppercase());
            let tree = Tree::of(&[("a.md", &text)]);
            let found = unclear(&tree.sources()[0], &tree);
            let message = format!("`{}` is unclear: {}", phrase.words, phrase.instead);
            assert!(found.contains(&(3, message)), "{found:?}");
        }
    }

    #[test]
    fn phrases_that_wrap() {
        let message = "`without end` is unclear: say `indefinitely`";
        fires(&[("a.md", "# A\n\nWaits without\nend.\n")], &format!("a.md:3: {message}"));
        let code = "//! Waits without\n//! end.\n";
        fires(&[("a.rs", code)], &format!("a.rs:1: {message}"));
        is_quiet(&[("a.rs", "// Without\n\n// end.\n".replace("// W", "//! W").as_str())]);
    }

    #[test]
    fn names_in_code_and_other_meanings() {
        is_quiet(&[
            ("a.rs", "//! A.\nfn whoever(somebody: Line) {} // see `whoever`, bookkeeper\n"),
            ("a.md", "# A\n\nThe error is in line 12 of [x](a.md#the-keeper).\n\n## The keeper_\n"),
        ]);
    }
}
