//! Which requests may enter a held lock: those of the same token with the same identity.

use sha2::{Digest as _, Sha256};

use super::{AcquireRequest, Mode};
use crate::problem::{Code, Problem};

/// The identity on the nodes, if the request has one: the name of the token, a slash, and the
/// identity of the request. The escaped name contains no slash, so no two tokens share an identity.
pub(super) fn of(request: &AcquireRequest, token: &str) -> Result<Option<String>, Problem> {
    let Some(identity) = &request.identity else { return Ok(None) };
    let detail = match request.mode {
        Mode::Read | Mode::Permits => "identity requires mode mutex or write",
        Mode::Mutex | Mode::Write if !request.also.is_empty() => {
            "identity cannot be combined with also: several locks are not reentrant"
        }
        Mode::Mutex | Mode::Write => {
            if !(1..=LEN_MAX).contains(&identity.len()) {
                let detail = format!("identity must have 1 to {LEN_MAX} bytes");
                return Err(Problem::new(Code::OutOfBounds, detail));
            }
            return Ok(Some(format!("{}/{identity}", scope(token))));
        }
    };
    Err(Problem::new(Code::InvalidRequest, detail))
}

/// The name of a token with slashes escaped. A long name is replaced by its hash.
fn scope(token: &str) -> String {
    let name = token.replace('%', "%25").replace('/', "%2F");
    if name.len() <= SCOPE_LEN_MAX {
        return name;
    }
    let hash = Sha256::digest(token.as_bytes());
    // No escaped name contains this character after that one.
    hash[..16].iter().fold("%~".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// The maximum length of an identity in bytes. With the scope and the slash it reaches the limit of
/// the library.
const LEN_MAX: usize = 64;

const SCOPE_LEN_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(token: &str, identity: &str) -> Option<String> {
        let request =
            AcquireRequest { identity: Some(identity.to_owned()), ..AcquireRequest::default() };
        of(&request, token).unwrap()
    }

    #[test]
    fn no_two_tokens_have_an_identity_in_common() {
        assert_eq!(identity("ci", "job 7").as_deref(), Some("ci/job 7"));
        let long = ["t".repeat(64), "t".repeat(65), "/".repeat(22)];
        let names = ["a", "a/b", "a%2Fb", "a%2fb", "%~", "%25~", "a/"].map(str::to_owned);
        let names: Vec<String> = names.into_iter().chain(long).collect();
        let mut all = Vec::new();
        for name in &names {
            for given in ["b", "b/c", "c", "/c"] {
                let identity = identity(name, given).unwrap();
                assert!(identity.len() <= 128);
                all.push(identity);
            }
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(of(&AcquireRequest::default(), "ci").unwrap(), None);
    }

    #[test]
    fn longest_identity_of_every_token_fits() {
        for name in ["t".repeat(63), "t".repeat(64), "/".repeat(21), "/".repeat(22)] {
            assert!(identity(&name, &"i".repeat(64)).unwrap().len() <= 128, "{name}");
        }
    }
}
