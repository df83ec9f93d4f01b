//! Tokens created by `quorate token`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Output};

use crate::fixture::Fixture;

/// A token, and the entry for the file.
pub(crate) struct Token {
    pub(crate) secret: String,
    pub(crate) entry: String,
    pub(crate) header: String,
}

impl Token {
    /// Runs `quorate token`.
    #[track_caller]
    pub(crate) fn new(fixture: &Fixture, args: &[&str]) -> Self {
        let Output { status, stdout, stderr } =
            fixture.quorate(&[&["token"], args].concat()).output().expect("it runs");
        let [entry, told] = [stdout, stderr].map(|it| String::from_utf8(it).expect("text"));
        assert!(status.success(), "{told}");
        let secret = told.trim().rsplit(' ').next().expect("the token").to_owned();
        assert!(secret.starts_with("qt_"), "{told}");
        Self { header: format!("Bearer {secret}"), secret, entry }
    }

    /// The header of a request with this token.
    pub(crate) fn auth(&self) -> [(&str, &str); 1] {
        [("Authorization", &self.header)]
    }
}

/// Writes a file that only its owner can read.
pub(crate) fn write(fixture: &Fixture, text: &str) -> PathBuf {
    let path = fixture.path("tokens.toml");
    // Replace the file atomically, so that the service never reads a partial file.
    let fresh = fixture.path("tokens.new");
    fs::write(&fresh, text).expect("a folder");
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600)).expect("our file");
    fs::rename(&fresh, &path).expect("a folder");
    path
}

/// A fixture with one instance with these tokens, each given by the arguments of `quorate token`.
pub(crate) fn start<const N: usize>(tokens: [&[&str]; N], args: &[&str]) -> (Fixture, [Token; N]) {
    let mut fixture = Fixture::start(0, 0, &[]);
    let tokens = tokens.map(|args| Token::new(&fixture, args));
    let text: String = tokens.iter().map(|token| token.entry.as_str()).collect();
    let path = write(&fixture, &text).display().to_string();
    fixture.add(&[&["--tokens", &path], args].concat());
    (fixture, tokens)
}
