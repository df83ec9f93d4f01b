//! The text that identifies a holder to people: program, host and process.

use std::path::Path;

/// Program, host and process id of this process.
pub(crate) fn this_process() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy());
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let pid = std::process::id();
    printable(&format!("{}/{host}/{pid}", program.as_deref().unwrap_or("unknown")))
}

/// A short text without characters that a log or a key cannot show.
pub(crate) fn printable(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_graphic() || c == ' ' { c } else { '?' }
    };
    text.chars().take(WHO_LEN_MAX).map(plain).collect()
}

const WHO_LEN_MAX: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_named_by_program_host_and_pid() {
        let who = this_process();
        assert!(who.ends_with(&format!("/{}", std::process::id())), "{who}");
        assert_eq!(who.split('/').count(), 3, "{who}");
    }

    #[test]
    fn unprintable_characters_are_replaced() {
        assert_eq!(printable("a\nb\x1b[1mü"), "a?b?[1m?");
        assert_eq!(printable(&"x".repeat(1_000)).len(), WHO_LEN_MAX);
    }
}
