//! Authorization: bearer tokens with scopes and a name prefix.

mod file;

use std::{
    net::IpAddr,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

pub use self::file::TokenFileError;
use crate::{
    Service,
    problem::{Code, Problem},
};

/// Which clients may use the service.
#[derive(Clone, Debug)]
pub struct Access(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Open,
    Local,
    Tokens(Arc<RwLock<Arc<[Token]>>>),
}

/// One token. Only its hash is stored.
#[derive(Clone, Debug)]
struct Token {
    name: Arc<str>,
    hash: [u8; 32],
    scopes: Vec<Scope>,
    prefix: Arc<str>,
    expires: Option<SystemTime>,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Inspect and watch locks.
    Read,
    /// Acquire, renew and release locks.
    Lock,
    /// Everything.
    Admin,
}

impl Access {
    /// Every client that can connect may do everything.
    #[must_use]
    pub const fn open() -> Self {
        Self(Kind::Open)
    }

    /// The same for programs on this machine. A web page can point its own domain name at this
    /// machine, so requests must have an IP address or `localhost` as their host.
    #[must_use]
    pub const fn local() -> Self {
        Self(Kind::Local)
    }

    /// Only clients with a token of this file.
    ///
    /// # Errors
    ///
    /// [`TokenFileError`] describes what is wrong with the file, and where.
    pub fn tokens(path: &Path) -> Result<Self, TokenFileError> {
        let tokens = file::read(path)?;
        Ok(Self(Kind::Tokens(Arc::new(RwLock::new(tokens.into())))))
    }

    /// Reads the file again. Removed tokens are no longer accepted. If the file is invalid, the
    /// previous tokens stay in force.
    ///
    /// # Errors
    ///
    /// [`TokenFileError`] describes what is wrong with the file, and where.
    pub fn reload(&self, path: &Path) -> Result<(), TokenFileError> {
        if let Kind::Tokens(known) = &self.0 {
            let tokens = file::read(path)?;
            *known.write().unwrap_or_else(PoisonError::into_inner) = tokens.into();
        }
        Ok(())
    }

    /// True if requests need no token.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.0, Kind::Open | Kind::Local)
    }

    fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let known = match &self.0 {
            Kind::Open => return check_origin(headers).map(|()| Caller::anyone()),
            Kind::Local => {
                check_host(headers)?;
                return check_origin(headers).map(|()| Caller::anyone());
            }
            Kind::Tokens(known) => known.read().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        let missing = || Problem::new(Code::Unauthorized, "send a header Authorization: Bearer …");
        let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?;
        let token = value.to_str().ok().and_then(bearer).ok_or_else(missing)?;
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // All tokens are compared, each in constant time, so that the duration reveals nothing.
        let mut found = None;
        for token in known.iter() {
            if bool::from(token.hash.ct_eq(&hash)) {
                found = Some(token);
            }
        }
        let found = found.ok_or_else(|| Problem::new(Code::Unauthorized, "unknown token"))?;
        if found.expires.is_some_and(|expires| expires <= SystemTime::now()) {
            return Err(Problem::new(Code::Unauthorized, "the token has expired"));
        }
        let (name, prefix) = (found.name.clone(), found.prefix.clone());
        Ok(Caller { name, prefix, scopes: found.scopes.clone(), hash: Some(hash) })
    }

    /// False if the caller's token was removed or changed, or has expired.
    pub(crate) fn still_allows(&self, caller: &Caller) -> bool {
        let Kind::Tokens(known) = &self.0 else { return true };
        let is_same = |token: &Token| {
            let is_alive = token.expires.is_none_or(|expires| expires > SystemTime::now());
            let is_equal = token.prefix == caller.prefix && token.scopes == caller.scopes;
            is_alive && is_equal && Some(token.hash) == caller.hash
        };
        known.read().unwrap_or_else(PoisonError::into_inner).iter().any(is_same)
    }
}

/// The host of the request must be an IP address or `localhost`.
fn check_host(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_none_or(is_local) {
        return Ok(());
    }
    let detail = "without tokens the host must be an IP address or localhost; use --tokens";
    Err(Problem::new(Code::Forbidden, detail))
}

/// Any web page can make a browser send requests to this machine. If no token is needed, only pages
/// of the service itself may.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let page = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
    if page.is_some() && page == host {
        return Ok(());
    }
    let detail = "web pages of other origins may use the service only with a token";
    Err(Problem::new(Code::Forbidden, detail))
}

/// True for an IP address or `localhost`, with or without a port.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) name: Arc<str>,
    prefix: Arc<str>,
    scopes: Vec<Scope>,
    /// The hash of its token, if a token is needed.
    hash: Option<[u8; 32]>,
}

impl Caller {
    pub(crate) fn anyone() -> Self {
        let (name, prefix) = ("anyone".into(), "".into());
        Self { name, prefix, scopes: vec![Scope::Admin], hash: None }
    }

    /// The names that the caller may see begin with this.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Checks that the caller may do this to the lock.
    pub(crate) fn require(&self, scope: Scope, name: &str) -> Result<(), Problem> {
        self.require_scope(scope)?;
        if name.starts_with(&*self.prefix) {
            return Ok(());
        }
        let prefix = &self.prefix;
        let detail = format!("the token allows only names that begin with {prefix:?}");
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// Checks that the caller may do this at all.
    pub(crate) fn require_scope(&self, scope: Scope) -> Result<(), Problem> {
        // The scope `lock` includes `read`.
        let allows = |had: &Scope| match had {
            Scope::Admin => true,
            Scope::Lock => scope != Scope::Admin,
            Scope::Read => scope == Scope::Read,
        };
        if self.scopes.iter().any(allows) {
            return Ok(());
        }
        let detail = format!("the token lacks the scope {:?}", scope.as_str());
        Err(Problem::new(Code::Forbidden, detail))
    }
}

impl Scope {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Lock => "lock",
            Self::Admin => "admin",
        }
    }
}

impl FromRequestParts<Service> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        let caller = service.access().caller(&parts.headers)?;
        service.rates().take(&caller.name)?;
        Ok(caller)
    }
}
