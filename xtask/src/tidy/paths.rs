//! The paths that a Rust file names: in its imports, and in its code.

/// A path from the root of its crate, and the line where its import or expression begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) line: usize,
    pub(super) segments: Vec<String>,
}

/// What a file of one crate names in this crate. Comments, texts, and what is only compiled for
/// tests do not count.
pub(super) fn named(file: &str, text: &str) -> Vec<Path> {
    let tokens = tokens(text);
    let mut reader =
        Reader { tokens: &tokens, at: 0, inside: Vec::new(), depth: 0, found: Vec::new() };
    reader.read();
    let here = module_of(file);
    let absolute = |(line, inside, path): (usize, Vec<String>, Vec<String>)| {
        let here = here.iter().cloned().chain(inside).collect();
        Some(Path { line, segments: from_root(path, here)? })
    };
    reader.found.into_iter().filter_map(absolute).collect()
}

/// The modules that a file declares, and the lines where it does.
pub(super) fn declared(text: &str) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let modules = tokens.windows(3).filter_map(|three| match three {
        [(line, Token::Word("mod")), (_, Token::Word(name)), (_, Token::Sign(';'))] => {
            Some((*line, (*name).to_owned()))
        }
        _ => None,
    });
    modules.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// `::`
    Separator,
    Sign(char),
}

/// The words and signs with their lines, counted from 1.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let (mut tokens, mut line, mut rest) = (Vec::new(), 1, text);
    while let Some(sign) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest));
        let length = match skipped {
            Some(length) => length,
            None if is_of_word(sign) => {
                let length = rest.find(|sign| !is_of_word(sign)).unwrap_or(rest.len());
                tokens.push((line, Token::Word(&rest[..length])));
                length
            }
            None if rest.starts_with("::") => {
                tokens.push((line, Token::Separator));
                2
            }
            None => {
                if !sign.is_whitespace() {
                    tokens.push((line, Token::Sign(sign)));
                }
                sign.len_utf8()
            }
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// How long the comment is with which the text begins.
pub(super) fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |end| end + 2))
}

/// How long the text or the character is with which the code begins.
pub(super) fn literal(code: &str) -> Option<usize> {
    let body = code.trim_start_matches(['b', 'c']);
    let prefix = code.len() - body.len();
    if let Some(raw) = body.strip_prefix('r') {
        let quoted = raw.trim_start_matches('#');
        let hashes = raw.len() - quoted.len();
        let inside = quoted.strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        let length = inside.find(&close).map_or(inside.len(), |end| end + close.len());
        return Some(code.len() - inside.len() + length);
    }
    let quote = body.chars().next().filter(|sign| ['"', '\''].contains(sign))?;
    // `'a` of a lifetime has no end.
    let is_character =
        quote == '"' || body[1..].starts_with('\\') || body.chars().nth(2) == Some('\'');
    if !is_character {
        return None;
    }
    let mut signs = body.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            sign if sign == quote => return Some(prefix + at + 1),
            _ => {}
        }
    }
    Some(code.len())
}

/// Goes over the tokens once.
struct Reader<'a> {
    tokens: &'a [(usize, Token<'a>)],
    at: usize,
    /// The inline modules around, each with the depth of its braces.
    inside: Vec<(usize, &'a str)>,
    depth: usize,
    /// Line, inline modules around, path.
    found: Vec<(usize, Vec<String>, Vec<String>)>,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        let mut is_for_tests = false;
        while let Some(token) = self.peek(0) {
            match token {
                Token::Sign('#') => is_for_tests |= self.attribute(),
                Token::Sign('{') if is_for_tests => {
                    self.skip_block('{', '}');
                    is_for_tests = false;
                }
                Token::Word("use") if is_for_tests => {
                    while self.next().is_some_and(|token| token != Token::Sign(';')) {}
                    is_for_tests = false;
                }
                Token::Sign(';' | ',') => {
                    self.at += 1;
                    is_for_tests = false;
                }
                _ if is_for_tests => self.at += 1,
                _ => self.read_code(token),
            }
        }
    }

    fn read_code(&mut self, token: Token<'a>) {
        match (token, self.peek(1), self.peek(2)) {
            (Token::Word("mod"), Some(Token::Word(name)), Some(Token::Sign('{'))) => {
                self.inside.push((self.depth, name));
                self.at += 2;
            }
            // `use<>` says what a type captures.
            (Token::Word("use"), Some(next), _) if next != Token::Sign('<') => {
                let line = self.line();
                self.at += 1;
                self.tree(line, Vec::new());
            }
            (Token::Word("crate" | "self" | "super"), Some(Token::Separator), _) => {
                let line = self.line();
                self.tree(line, Vec::new());
            }
            (Token::Sign('{'), ..) => {
                self.depth += 1;
                self.at += 1;
            }
            (Token::Sign('}'), ..) => {
                self.depth = self.depth.saturating_sub(1);
                self.inside.retain(|(depth, _)| *depth < self.depth);
                self.at += 1;
            }
            _ => self.at += 1,
        }
    }

    /// One tree of paths, of which `before` was read already.
    fn tree(&mut self, line: usize, mut before: Vec<String>) {
        while let Some(token) = self.next() {
            match token {
                Token::Word(word) => {
                    before.push(word.to_owned());
                    if self.peek(0) != Some(Token::Separator) {
                        break;
                    }
                }
                Token::Sign('{') => return self.branches(line, &before),
                Token::Sign(sign) => {
                    before.push(sign.to_string());
                    break;
                }
                Token::Separator => {}
            }
        }
        if self.peek(0) == Some(Token::Word("as")) {
            self.at += 2;
        }
        let inside = self.inside.iter().map(|(_, name)| (*name).to_owned()).collect();
        self.found.push((line, inside, before));
    }

    /// What is between braces in a tree.
    fn branches(&mut self, line: usize, before: &[String]) {
        while let Some(token) = self.peek(0) {
            match token {
                Token::Sign('}') => {
                    self.at += 1;
                    return;
                }
                Token::Sign(',') => self.at += 1,
                _ => self.tree(line, before.to_vec()),
            }
        }
    }

    /// Reads an attribute. Returns whether it is for tests only.
    fn attribute(&mut self) -> bool {
        let start = self.at;
        self.at += 1;
        if self.peek(0) == Some(Token::Sign('!')) {
            self.at += 1;
        }
        if self.peek(0) == Some(Token::Sign('[')) {
            self.skip_block('[', ']');
        }
        let words = self.tokens[start..self.at].iter().filter_map(|(_, token)| match token {
            Token::Word(word) => Some(*word),
            _ => None,
        });
        let words: Vec<&str> = words.collect();
        words.starts_with(&["cfg", "test"]) || words.starts_with(&["cfg", "all", "test"])
    }

    /// Skips what is between these two signs, which begins here.
    fn skip_block(&mut self, open: char, close: char) {
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token {
                Token::Sign(sign) if sign == open => depth += 1,
                Token::Sign(sign) if sign == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).map(|(_, token)| *token)
    }

    fn next(&mut self) -> Option<Token<'a>> {
        self.at += 1;
        self.tokens.get(self.at - 1).map(|(_, token)| *token)
    }

    fn line(&self) -> usize {
        self.tokens[self.at].0
    }
}

/// The module that a file is.
fn module_of(file: &str) -> Vec<String> {
    let module = file.trim_end_matches(".rs");
    let parts = module.split('/').filter(|part| !["lib", ""].contains(part));
    parts.map(str::to_owned).collect()
}

/// The same path from the root of the crate; `None` if it may lead out of it.
fn from_root(path: Vec<String>, here: Vec<String>) -> Option<Vec<String>> {
    let mut parts = path.into_iter().peekable();
    let mut base = match parts.peek()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => here,
        _ => return None,
    };
    while let Some(part) = parts.next_if(|part| ["crate", "self", "super"].contains(&part.as_str()))
    {
        if part == "super" {
            base.pop();
        }
    }
    base.extend(parts.filter(|part| part != "self"));
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(file: &str, text: &str) -> Vec<String> {
        named(file, text).iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn imports_of_every_form_are_read() {
        let text = "use crate::a;\npub use crate::b::{self, c as d, e::*};\n\
                    pub(super) use {crate::f::g, std::h};\nuse super::{i, super::j};\nuse k::l;\n";
        let expected = ["a", "b", "b::c", "b::e::*", "f::g", "x::i", "j"];
        assert_eq!(paths("x/y.rs", text), expected);
    }

    #[test]
    fn code_is_read_and_comments_texts_and_tests_are_not() {
        let text = "//! crate::a\nfn f<'a>(x: &'a crate::b::C) -> char { '\\'' }\n\
                    const D: &str = \"crate::e\\\" crate::f\"; /* crate::g */\n\
                    const H: &str = r#\"crate::i\"#;\n#[cfg(test)]\nmod tests {\n    \
                    use crate::j;\n    fn k() { crate::l(); }\n}\n#[cfg(test)]\nuse crate::m;\n\
                    fn n() -> impl O + use<> { super::p::q(self::r()) }\n";
        let expected = ["b::C", "x::p::q", "x::y::r"];
        assert_eq!(paths("x/y.rs", text), expected);
        assert_eq!(named("x/y.rs", text)[1].line, 12);
    }

    #[test]
    fn inline_modules_count() {
        let text =
            "mod a {\n    use super::b;\n    mod c { use super::super::d; }\n}\nuse super::e;\n";
        assert_eq!(paths("x.rs", text), ["x::b", "x::d", "e"]);
        assert_eq!(paths("lib.rs", "pub use self::a::B;\n"), ["a::B"]);
    }

    #[test]
    fn declarations_are_found() {
        let text = "mod a;\n#[cfg(doc)]\npub mod b;\nmod c {}\n";
        assert_eq!(declared(text), [(1, "a".to_owned()), (3, "b".to_owned())]);
    }
}
