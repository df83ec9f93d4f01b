//! The token file.

use std::{
    collections::BTreeSet,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use super::{Scope, Token};

/// Why a token file is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("cannot read the tokens in {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It does not contain valid tokens.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    sha256: String,
    scopes: Vec<Scope>,
    #[serde(default)]
    prefix: String,
    expires: Option<toml::value::Datetime>,
}

pub(super) fn read(path: &Path) -> Result<Vec<Token>, TokenFileError> {
    let text = fs::read_to_string(path)
        .map_err(|error| TokenFileError::Unreadable { path: path.into(), error })?;
    parse(&text).map_err(|what| TokenFileError::Malformed { path: path.into(), what })
}

fn parse(text: &str) -> Result<Vec<Token>, String> {
    let at = |span: Range<usize>, what: &str| {
        let before = text.get(..span.start).unwrap_or(text);
        format!("line {}: {what}", before.matches('\n').count() + 1)
    };
    let told = |error: &toml::de::Error, what: &str| match error.span() {
        Some(span) => at(span, what),
        None => what.to_owned(),
    };
    // Syntax errors do not quote the file, which may contain a token by mistake.
    toml::from_str::<toml::Table>(text).map_err(|error| told(&error, error.message()))?;
    let file: File =
        toml::from_str(text).map_err(|error| told(&error, &without_content(error.message())))?;
    if file.token.is_empty() {
        return Err("there is no [[token]]: no client could use the service".to_owned());
    }
    let mut names = BTreeSet::new();
    let mut tokens = Vec::with_capacity(file.token.len());
    for entry in file.token {
        let span = entry.span();
        let entry = entry.into_inner();
        if !names.insert(entry.name.clone()) {
            return Err(at(span, "another token has the same name"));
        }
        tokens.push(entry.token().map_err(|what| at(span, what))?);
    }
    Ok(tokens)
}

/// An error message without quotes of the content.
fn without_content(message: &str) -> String {
    if message.starts_with("unknown field") {
        return "unknown key: a [[token]] has name, sha256, scopes, prefix and expires".to_owned();
    }
    if message.starts_with("unknown variant") {
        return "unknown scope: use read, lock or admin".to_owned();
    }
    if message.starts_with("missing field") {
        return message.to_owned();
    }
    // For example: invalid type: string "…", expected a sequence
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("wrong type: expected {expected}"),
        None => "this cannot be an entry of a token file".to_owned(),
    }
}

impl Entry {
    fn token(self) -> Result<Token, &'static str> {
        let hash = hash(&self.sha256)
            .ok_or("sha256 must be the 64 hexadecimal digits of the token's hash")?;
        if self.name.is_empty() {
            return Err("the name must not be empty");
        }
        if self.scopes.is_empty() {
            return Err("the token needs at least one of the scopes read, lock and admin");
        }
        let expires = match self.expires {
            Some(time) => {
                let parsed = humantime::parse_rfc3339(&time.to_string());
                Some(parsed.map_err(|_| "expires must be like 2027-01-31T00:00:00Z")?)
            }
            None => None,
        };
        let (name, prefix) = (self.name.into(), self.prefix.into());
        Ok(Token { name, hash, scopes: self.scopes, prefix, expires })
    }
}

fn hash(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_with_all_fields() {
        let text = format!(
            "[[token]]\nname = \"ci\"\nsha256 = \"{}\"\nscopes = [\"read\", \"lock\"]\n\
             prefix = \"ci:\"\nexpires = 2027-01-31T00:00:00Z\n",
            "0f".repeat(32)
        );
        let tokens = parse(&text).unwrap();
        assert_eq!((&*tokens[0].name, &*tokens[0].prefix), ("ci", "ci:"));
        assert_eq!(tokens[0].hash, [15; 32]);
        assert!(tokens[0].expires.is_some());
    }

    #[test]
    fn invalid_file_is_rejected_without_revealing_its_text() {
        let good = format!("name = \"a\"\nsha256 = \"{}\"\nscopes = [\"lock\"]\n", "0".repeat(64));
        let cases = [
            (String::new(), "there is no [[token]]"),
            ("[[token]]\nsecret = \"hunter2\"\n".to_owned(), "line 2: unknown key"),
            ("[[token]]\nhunter2 = 1\n".to_owned(), "line 2: unknown key"),
            ("[[token]]\nname = \"a\"\nname = \"hunter2\"\n".to_owned(), "line 3: duplicate key"),
            ("[[token]]\n\"hunter2\"\n".to_owned(), "line 2: "),
            ("[[token]]\nname = hunter2\n".to_owned(), "line 2: "),
            ("token = \"hunter2\"\n".to_owned(), "line 1: wrong type: expected a sequence"),
            (format!("[[token]]\n{good}[[token]]\n{good}"), "line 5: another token has the same"),
            (format!("[[token]]\n{}", good.replace("00", "x0")), "line 1: sha256 must be the 64"),
            (format!("[[token]]\n{}", good.replace("\"lock\"", "")), "at least one of the scopes"),
            (format!("[[token]]\n{}", good.replace("lock", "hunter2")), "line 4: unknown scope"),
            (format!("[[token]]\n{}", good.replace("[\"lock\"]", "\"hunter2\"")), "line 4: wrong"),
            (format!("[[token]]\n{}", good.replace("\"a\"", "\"\"")), "name must not be empty"),
            (format!("[[token]]\n{good}expires = 07:32:00\n"), "expires must be like"),
            (format!("[[token]]\n{good}expires = \"hunter2\"\n"), "line 5: "),
        ];
        for (text, what) in cases {
            let told = parse(&text).map(|_| ()).unwrap_err();
            assert!(told.contains(what), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
