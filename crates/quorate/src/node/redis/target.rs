//! Addresses of servers, parsed once and displayed without secrets.

use std::{borrow::Cow, fmt, path::PathBuf};

use url::Url;

use super::masked_address;

/// The address of a server and the login.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u32,
    pub(crate) is_tls: bool,
    /// The address for people, without user and password.
    pub(crate) label: String,
}

/// The address where a server listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Endpoint {
    /// A host name or address, and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A text that is never displayed.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Target {
    /// Parses `redis://`, `rediss://`, `valkey://`, `valkeys://` and `unix://` addresses. Without a
    /// scheme the address is `redis://`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // Url::parse would drop some control characters. Others would be printed into logs.
        if text.chars().any(char::is_control) {
            return Err("the address contains a control character".into());
        }
        let with_scheme = match text.contains("://") {
            true => Cow::Borrowed(text),
            false if text.starts_with('/') => {
                return Err(format!("write unix://{}", masked_address(text)));
            }
            false if is_incomplete_scheme(text) => {
                return Err(format!("the scheme is followed by '://'; write {EXAMPLE}"));
            }
            false => Cow::Owned(format!("redis://{text}")),
        };
        if let Some(special) = special_in_login(&with_scheme) {
            let code = u32::from(special);
            return Err(format!("the user or password contains '{special}': write '%{code:02X}'"));
        }
        let invalid = |error| match text.contains(' ') {
            true => format!("{error}; it contains a space: separate addresses by commas"),
            false => format!("{error}; write {EXAMPLE}{}", with_special_characters(text)),
        };
        let url = Url::parse(&with_scheme).map_err(invalid)?;
        if url.fragment().is_some() {
            return Err("a part after '#' is not supported (write '%23' in a password)".into());
        }
        match url.scheme() {
            "redis" | "valkey" => Self::parse_tcp(&url, false),
            "rediss" | "valkeys" if cfg!(feature = "tls") => Self::parse_tcp(&url, true),
            "rediss" | "valkeys" => Err("this build has no TLS: enable the feature tls".into()),
            "unix" | "redis+unix" | "valkey+unix" => Self::parse_unix(&url),
            other => Err(match similar_scheme(other) {
                Some(scheme) => format!("unknown scheme; did you mean {scheme}://?"),
                None => format!("unknown scheme; write {EXAMPLE}"),
            }),
        }
    }

    fn parse_tcp(url: &Url, is_tls: bool) -> Result<Self, String> {
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("the host is missing")?;
        let port = url.port().unwrap_or(DEFAULT_PORT);
        if port == 0 {
            return Err("port 0 cannot be connected to".into());
        }
        if url.query().is_some() {
            return Err("no options after '?' are supported (write '%3F' in a password)".into());
        }
        // Host names are case-insensitive, and a node must have one label.
        let host = host.to_ascii_lowercase();
        let database = match url.path().trim_start_matches('/') {
            "" => 0,
            digits => database(digits)?,
        };
        let user = Some(decode(url.username())?).filter(|user| !user.is_empty());
        let password = url.password().map(decode).transpose()?;
        let scheme = if is_tls { "rediss" } else { "redis" };
        let label = match database {
            0 => format!("{scheme}://{host}:{port}"),
            number => format!("{scheme}://{host}:{port}/{number}"),
        };
        let endpoint = Endpoint::Tcp(host.trim_matches(['[', ']']).to_owned(), port);
        let target = Self::new(endpoint, user, password, database, label)?;
        Ok(Self { is_tls, ..target })
    }

    fn parse_unix(url: &Url) -> Result<Self, String> {
        if url.host_str().is_some_and(|host| !host.is_empty()) {
            return Err("a socket's path is absolute: write unix:///path/to/socket".into());
        }
        let path = decode(url.path())?;
        if path.is_empty() || path == "/" {
            return Err("there is no path of a socket".into());
        }
        // Nodes store one address per line.
        if path.chars().any(char::is_control) {
            return Err("the address contains a control character in the path".into());
        }
        let (mut user, mut password, mut number) = (None, None, 0);
        for (key, value) in url.query_pairs() {
            match &*key {
                "db" => number = database(&value)?,
                "user" => user = Some(value.into_owned()),
                "pass" => password = Some(value.into_owned()),
                _ => return Err("unknown option: use db, user or pass".into()),
            }
        }
        let label = match number {
            0 => format!("unix://{path}"),
            number => format!("unix://{path}?db={number}"),
        };
        Self::new(Endpoint::Unix(path.into()), user, password, number, label)
    }

    fn new(
        endpoint: Endpoint,
        user: Option<String>,
        password: Option<String>,
        database: u32,
        label: String,
    ) -> Result<Self, String> {
        if user.is_some() && password.is_none() {
            let text = "there is a user, but no password: write redis://USER:PASSWORD@HOST";
            return Err(format!("{text} ({SPECIAL_CHARACTERS})"));
        }
        Ok(Self { endpoint, user, password: password.map(Secret), database, is_tls: false, label })
    }
}

/// Whether the `:` or the `//` after a scheme is missing. A host may have the name of a scheme:
/// `redis:6379` is one.
fn is_incomplete_scheme(text: &str) -> bool {
    let is_scheme = |scheme: &&str| {
        let Some(rest) = text.strip_prefix(scheme) else { return false };
        let is_port = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
        rest.starts_with("//") || rest.strip_prefix(':').is_some_and(|rest| !is_port(rest))
    };
    SCHEMES.iter().any(is_scheme)
}

/// The first character in the user or password of a TCP address that ends the host elsewhere.
fn special_in_login(text: &str) -> Option<char> {
    let (scheme, rest) = text.split_once("://")?;
    let is_tcp = SCHEMES.contains(&scheme) && !scheme.ends_with("unix");
    let login = &rest[..rest.rfind('@').filter(|_| is_tcp)?];
    login.chars().find(|c| matches!(c, '/' | '?' | '#'))
}

/// What may be wrong with an address that may contain a password, or a part of one.
fn with_special_characters(text: &str) -> String {
    let is_port = |port: &str| port.bytes().all(|c| c.is_ascii_digit());
    let is_cut = text.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
    if text.contains('@') || is_cut { format!(" ({SPECIAL_CHARACTERS})") } else { String::new() }
}

/// The scheme that a misspelled one probably means.
fn similar_scheme(scheme: &str) -> Option<&'static str> {
    let distances = SCHEMES.iter().map(|known| (distance(scheme, known), *known));
    let (distance, known) = distances.min()?;
    (distance <= SCHEME_DISTANCE_MAX).then_some(known)
}

/// How many letters must be inserted, removed or replaced to turn one text into the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, from) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, to) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

fn database(digits: &str) -> Result<u32, String> {
    // Do not quote the text: it may be part of a password that was not percent-encoded.
    digits.parse().map_err(|_| "what follows the host is not a database number".into())
}

fn decode(text: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| {
        "a percent-encoded part is not UTF-8 (a '%' in a password is written '%25')".into()
    })
}

const SCHEMES: [&str; 7] =
    ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "valkey+unix"];
/// Different schemes differ by more.
const SCHEME_DISTANCE_MAX: usize = 2;
const DEFAULT_PORT: u16 = 6379;
const EXAMPLE: &str = "redis://HOST:PORT/DB or unix:///path/to/socket";
const SPECIAL_CHARACTERS: &str =
    "percent-encode special characters of a password: ',' is '%2C', '/' is '%2F', ':' is '%3A'";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Target {
        Target::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn addresses_are_parsed_with_all_their_parts() {
        let plain = parse("redis://Example.COM");
        assert_eq!(plain.endpoint, Endpoint::Tcp("example.com".into(), 6379));
        assert_eq!((plain.user, plain.database), (None, 0));

        let full = parse("valkey://app:p%40ss%2F@10.0.0.1:7000/3");
        assert_eq!(full.endpoint, Endpoint::Tcp("10.0.0.1".into(), 7000));
        assert_eq!(full.user.as_deref(), Some("app"));
        assert_eq!(full.password.unwrap().expose(), "p@ss/");
        assert_eq!((full.database, &*full.label), (3, "redis://10.0.0.1:7000/3"));

        assert_eq!(parse("localhost").label, "redis://localhost:6379");
        assert_eq!(parse("redis:7000").label, "redis://redis:7000");
        assert_eq!(parse("localhost:7000/2").label, "redis://localhost:7000/2");
        assert_eq!(parse("[::1]:7").endpoint, Endpoint::Tcp("::1".into(), 7));

        assert_eq!(parse("redis://:pw@h").user, None);
        assert_eq!(parse("redis://[::1]:7").endpoint, Endpoint::Tcp("::1".into(), 7));

        let socket = parse("unix:///run/my%20redis.sock?db=2&user=u&pass=s");
        assert_eq!(socket.endpoint, Endpoint::Unix("/run/my redis.sock".into()));
        assert_eq!((socket.user.as_deref(), socket.database), (Some("u"), 2));
    }

    #[test]
    fn equivalent_addresses_have_one_label() {
        let label = |text: &str| parse(text).label;
        assert_eq!(label("redis://Example.COM"), "redis://example.com:6379");
        assert_eq!(label("valkey://EXAMPLE.com:6379/0"), "redis://example.com:6379");
        assert_eq!(label("redis://[::AB]:7/2"), "redis://[::ab]:7/2");
        // Labels distinguish databases and contain no secrets.
        assert_eq!(label("unix:///Run/s?db=0"), "unix:///Run/s");
        assert_eq!(label("unix:///Run/s?db=1&user=u&pass=p"), "unix:///Run/s?db=1");
        assert_ne!(label("unix:///Run/s?db=1"), label("unix:///Run/s?db=2"));
    }

    #[test]
    fn invalid_address_is_rejected_with_the_reason() {
        let cases = [
            ("/run/redis.sock", "write unix:///run/redis.sock"),
            ("http://h", "unknown scheme; write redis://"),
            ("redisss://h", "unknown scheme; did you mean rediss://?"),
            ("redis:h", "followed by '://'"),
            ("redis:/h", "followed by '://'"),
            ("redis//h:1", "followed by '://'"),
            ("rediss//h", "followed by '://'"),
            ("redis://h 6379", "separate addresses by commas"),
            ("redis://a redis://b", "separate addresses by commas"),
            ("redis://me:a/b@h", "the user or password contains '/': write '%2F'"),
            ("rediss://me:12?b@h:1/2", "contains '?': write '%3F'"),
            ("me:a#b@h", "contains '#': write '%23'"),
            // The start and the end of a list that was divided at a comma in a password.
            ("redis://me:se", "',' is '%2C'"),
            ("cret@h:1", "',' is '%2C'"),
            ("redis://:%ff@h", "'%25'"),
            ("redi://h", "did you mean redis://?"),
            ("valky://h", "did you mean valkey://?"),
            ("localhost:99999", "port"),
            ("redis://", "host"),
            ("redis://h:99999", "port"),
            ("redis://h:0", "port 0"),
            ("redis://h/x", "database number"),
            ("redis://h/-1", "database number"),
            ("redis://h?timeout=1", "no options"),
            ("redis://user@h", "no password"),
            ("redis://h#x", "'%23'"),
            ("unix://", "no path"),
            ("unix://rel/path", "absolute"),
            ("unix:///s?x=1", "unknown option"),
            ("redis://h\n", "control character"),
            ("redis://h\u{85}", "control character"),
            ("redis://:a\tb@h", "control character"),
            ("unix:///s%0A", "control character in the path"),
            ("unix:///s%1b%5b31m", "control character in the path"),
            ("", "host"),
        ];
        for (text, expected) in cases {
            let error = Target::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let target = parse("redis://app:hunter2@h:1/1");
        assert!(!format!("{target:?}").contains("hunter2"));
        for text in [
            "redis://:hunter2@h@h",
            "redis://a:b@hunter2@h",
            "redis://app:123/hunter2@host:6379",
            "redis://app:123?hunter2@host:6379",
            "redis://app:hunter2",
            "redis://:hunter2",
            "unix://rel?pass=hunter2",
            "unix:///s?pass=pre@hunter2&x",
            "unix:///s?pass=pre&hunter2",
            "app:hunter2@h:x",
            "hunter2://h",
        ] {
            let shown = Target::parse(text).map(|target| target.label);
            assert!(!format!("{shown:?}").contains("hunter2"), "{text}: {shown:?}");
            assert!(!masked_address(text).contains("hunter2"), "{}", masked_address(text));
        }
    }
}
