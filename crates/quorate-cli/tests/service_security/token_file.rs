//! Tokens created by `quorate token`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Output};

use crate::fixture::Cluster;

/// A token, and the entry for the file.
pub(crate) struct Token {
    pub(crate) secret: String,
    pub(crate) entry: String,
    pub(crate) header: String,
}

impl Token {
    /// Runs `quorate token`.
    #[track_caller]
    pub(crate) fn new(cluster: &Cluster, args: &[&str]) -> Self {
        let Output { status, stdout, stderr } =
            cluster.quorate(&[&["token"], args].concat()).output().expect("it runs");
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
pub(crate) fn write(cluster: &Cluster, text: &str) -> PathBuf {
    let path = cluster.path("tokens.toml");
    // Replace the file atomically, so that the service never reads a partial file.
    let fresh = cluster.path("tokens.new");
    fs::write(&fresh, text).expect("a folder");
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600)).expect("our file");
    fs::rename(&fresh, &path).expect("a folder");
    path
}

/// A cluster of one instance with these tokens, each given by the arguments of `quorate token`.
pub(crate) fn start<const N: usize>(tokens: [&[&str]; N], args: &[&str]) -> (Cluster, [Token; N]) {
    let mut cluster = Cluster::start(0, 0, &[]);
    let tokens = tokens.map(|args| Token::new(&cluster, args));
    let text: String = tokens.iter().map(|token| token.entry.as_str()).collect();
    let path = write(&cluster, &text).display().to_string();
    cluster.add(&[&["--tokens", &path], args].concat());
    (cluster, tokens)
}
