//! `quorate token`: a new bearer token for `quorate serve`.

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use sha2::{Digest as _, Sha256};

use crate::{cli::print, exit::Failure, reporter::Reporter};

/// Create a token
#[derive(Args, Debug)]
pub(crate) struct Token {
    /// Name of the token, for logs and limits
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// What the token allows
    #[arg(long = "scope", value_enum, value_name = "SCOPE", default_value = "lock")]
    scopes: Vec<Scope>,
    /// Restrict the token to locks whose names begin with this
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// When the token expires, such as 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// Inspect and watch locks
    Read,
    /// Acquire, renew and release locks, and inspect them
    Lock,
    /// Everything
    Admin,
}

impl Token {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let expires = self.expires.as_deref().map(parse_time).transpose()?;
        let mut random = [0; 32];
        getrandom::fill(&mut random)
            .map_err(|error| Failure::system("cannot draw random bytes", error))?;
        let token = format!("qt_{}", hex(&random));
        let names = self.scopes.iter().map(|scope| match scope {
            Scope::Read => "read",
            Scope::Lock => "lock",
            Scope::Admin => "admin",
        });
        let mut entry = toml::Table::new();
        entry.insert("name".into(), self.name.clone().into());
        entry.insert("sha256".into(), hex(&Sha256::digest(token.as_bytes())).into());
        entry.insert("scopes".into(), names.collect::<Vec<_>>().into());
        if !self.prefix.is_empty() {
            entry.insert("prefix".into(), self.prefix.clone().into());
        }
        if let Some(expires) = expires {
            entry.insert("expires".into(), expires.into());
        }
        // The file contains only the hash. The token itself is stored nowhere.
        let code = print(&format!("[[token]]\n{entry}"))?;
        Reporter::default().error(&format!("the token, shown only once: {token}"));
        Ok(code)
    }
}

fn parse_time(text: &str) -> Result<toml::value::Datetime, Failure> {
    let parsed = text.parse::<toml::value::Datetime>().ok();
    let is_absolute = |time: &toml::value::Datetime| time.date.is_some() && time.offset.is_some();
    parsed.filter(is_absolute).ok_or_else(|| {
        let text = format!("invalid time {text:?}: use a form such as 2027-01-31T00:00:00Z");
        Failure::usage(text)
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
