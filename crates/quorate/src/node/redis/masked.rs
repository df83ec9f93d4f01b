//! Addresses as they were typed, without passwords.

/// The address as it was typed, with every part masked that may be a password. An invalid address
/// may have one in a wrong place.
///
/// # Examples
///
/// ```
/// use quorate::masked_address;
///
/// assert_eq!(masked_address("redis://app:secret@10.0.0.1"), "redis://app:***@10.0.0.1");
/// assert_eq!(masked_address("redisss://10.0.0.1:6380"), "redisss://10.0.0.1:6380");
/// ```
#[must_use]
pub fn masked_address(address: &str) -> String {
    let plain: String = address.chars().filter(|c| !c.is_control()).collect();
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", &plain));
    let is_path = scheme.ends_with("unix") && rest.starts_with('/');
    let rest = if is_path { masked_query(rest) } else { masked_host(rest) };
    match scheme {
        "" => rest,
        // A name of letters is a scheme, perhaps a misspelled one.
        _ if scheme.bytes().all(|c| c.is_ascii_alphabetic() || c == b'+') => {
            format!("{scheme}://{rest}")
        }
        _ => format!("{MASK}://{rest}"),
    }
}

/// `USER:PASSWORD@HOST:PORT/DB`. The password ends at the last `@`.
fn masked_host(rest: &str) -> String {
    match rest.rsplit_once('@') {
        Some((login, host)) => {
            let user = match login.split_once(':') {
                // Without a password, the user may be one.
                Some((_, "")) | None => None,
                Some((user, _)) => Some(user),
            };
            let user = user.map(|user| format!("{user}:")).unwrap_or_default();
            format!("{user}{MASK}@{}", masked_query(host))
        }
        None => masked_query(&masked_port(rest)),
    }
}

/// `HOST:PORT`. What is no port may be a password whose host is missing.
fn masked_port(rest: &str) -> String {
    let (start, end) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // An address of IPv6 has colons of its own.
    match start.rsplit_once(':') {
        Some((host, port)) if !start.ends_with(']') && !is_port(port) => {
            let host = host.split(':').next().unwrap_or_default();
            format!("{host}:{MASK}{}", if end.is_empty() { "" } else { "/" })
        }
        _ => format!("{start}{end}"),
    }
}

fn is_port(text: &str) -> bool {
    text.len() <= PORT_LEN_MAX && text.bytes().all(|c| c.is_ascii_digit())
}

/// Masks the options after `?`, and what follows a `#`.
fn masked_query(text: &str) -> String {
    let (text, fragment) = match text.split_once('#') {
        Some((text, _)) => (text, format!("#{MASK}")),
        None => (text, String::new()),
    };
    let Some((path, query)) = text.split_once('?') else { return format!("{text}{fragment}") };
    // Without a password, the user may be one.
    let has_password = query.split('&').any(|option| option.starts_with("pass="));
    let masked = |option: &str| match option.strip_prefix("user=") {
        Some(user) if has_password && !user.contains('@') => option.to_owned(),
        _ => masked_option(option),
    };
    let options: Vec<String> = query.split('&').map(masked).collect();
    format!("{path}?{}{fragment}", options.join("&"))
}

/// An option of an address. An unknown one may be the rest of a password.
fn masked_option(option: &str) -> String {
    match option.split_once('=') {
        Some(("db", number)) if number.bytes().all(|c| c.is_ascii_digit()) => option.to_owned(),
        Some((key @ ("db" | "user" | "username" | "pass" | "password"), _)) => {
            format!("{key}={MASK}")
        }
        Some(_) => format!("{MASK}={MASK}"),
        None => MASK.to_owned(),
    }
}

const MASK: &str = "***";

/// How many digits a port has.
const PORT_LEN_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_a_password_is_masked() {
        for (typed, shown) in [
            ("redis://10.0.0.1", "redis://10.0.0.1"),
            ("redis://10.0.0.1:99999/x", "redis://10.0.0.1:99999/x"),
            ("REDIS://Example.com", "REDIS://Example.com"),
            ("localhost", "localhost"),
            ("localhost:6379", "localhost:6379"),
            ("redis://[::1]:7", "redis://[::1]:7"),
            ("redis://[::1]", "redis://[::1]"),
            ("redisss://user:secret@h:1/2", "redisss://user:***@h:1/2"),
            ("user:secret@h", "user:***@h"),
            ("unix:///a/b?db=1&pass=secret", "unix:///a/b?db=1&pass=***"),
            ("unix:///a@b", "unix:///a@b"),
            ("unix://app:s3cret@h/s", "unix://app:***@h/s"),
            ("redis:app:s3cret@h", "redis:***@h"),
            ("redis:/app:s3cret@h", "redis:***@h"),
            ("redis//app:s3cret@h", "redis//app:***@h"),
            ("redis://s3cret@h2", "redis://***@h2"),
            ("redis://s3cret:@h2", "redis://***@h2"),
            ("redis://:secret@h2", "redis://:***@h2"),
            ("redis://h3?password=s3cret", "redis://h3?password=***"),
            ("unix:///a/b?user=s3cret&db=secret&s3cret", "unix:///a/b?user=***&db=***&***"),
            ("unix:///a/b?user=u&pass=s3cret", "unix:///a/b?user=u&pass=***"),
            ("redis://h#s3cret", "redis://h#***"),
            ("redis://user:12/s3cret@h", "redis://user:***@h"),
            ("redis://user:12?s3cret@h", "redis://user:***@h"),
            ("redis://user:12#s3cret@h", "redis://user:***@h"),
            ("redis:s3cret@h", "redis:***@h"),
            ("redis://app:s3cret", "redis://app:***"),
            ("redis://app:s3cret/0", "redis://app:***/"),
            ("redis://app:1:s3cret", "redis://app:***"),
            ("redis://app:123456789", "redis://app:***"),
            ("s3cret://h", "***://h"),
            ("redis://h\x1b[31m", "redis://h[31m"),
        ] {
            assert_eq!(masked_address(typed), shown, "{typed}");
        }
    }
}
