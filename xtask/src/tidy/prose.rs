//! Rules for Markdown files and for the headers of scripts.

use crate::tidy::Findings;
use crate::tidy::tree::{Source, Tree};

/// A script is called by position, so its header must say what each position means.
pub(super) fn script_header(source: &Source, _: &Tree) -> Findings {
    // A script may begin with `#!lua …` for the server; then the header is below.
    let lines = source.text().lines().skip_while(|line| line.starts_with("#!"));
    let header: Vec<&str> = lines.take_while(|line| line.starts_with("--")).collect();
    let header = header.join("\n");
    let says = |names: &[&str]| names.iter().any(|name| header.contains(name));
    let missing = HEADER_PARTS.iter().filter(|names| !says(names));
    missing.map(|names| (1, format!("the `--` header says nothing about {}", names[0]))).collect()
}

pub(super) fn one_title(source: &Source, _: &Tree) -> Findings {
    let titles: Vec<usize> = prose_lines(source.text())
        .filter(|(_, line)| line.starts_with("# "))
        .map(|(at, _)| at)
        .collect();
    match titles.split_first() {
        None => vec![(1, "no `# Title`".to_owned())],
        Some((_, more)) => more.iter().map(|&at| (at, "a second `# Title`".to_owned())).collect(),
    }
}

/// The lines outside of code fences. A fence ends with one of its own kind that is as long or
/// longer, so that a fence can show a fence.
pub(crate) fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut open: Option<&str> = None;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = fence_of(line);
        match (open, fence) {
            (None, None) => true,
            (None, Some(start)) => {
                open = Some(start);
                false
            }
            (Some(start), Some(end)) if end.starts_with(start) && line.trim() == end => {
                open = None;
                false
            }
            (Some(_), _) => false,
        }
    })
}

/// The run of backticks or tildes that begins the line, if it is long enough for a fence.
pub(super) fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim();
    let mark = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| &line[..length])
}

const HEADER_PARTS: &[&[&str]] = &[&["KEYS"], &["ARGV"], &["replies", "Replies", "reply", "Reply"]];

#[cfg(test)]
mod tests {
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn headers_of_scripts() {
        let good = "-- Does it.\n-- KEYS: the lock. ARGV: the holder.\n-- Replies: 1.\nreturn 1\n";
        is_quiet(&[("a.lua", good), ("b.lua", &format!("#!lua flags=no-writes\n{good}"))]);
        for (part, changed) in [("KEYS", "keys"), ("ARGV", "args"), ("Replies", "Says")] {
            let bad = good.replace(part, changed);
            let part = part.replace('R', "r").replace("ArGV", "ARGV");
            let message = format!("a.lua:1: the `--` header says nothing about {part}");
            fires(&[("a.lua", &bad)], &message);
        }
    }

    #[test]
    fn titles() {
        fires(&[("a.md", "Text.\n\n## Not it\n")], "a.md:1: no `# Title`");
        fires(&[("a.md", "# One\n\n# Two\n")], "a.md:3: a second `# Title`");
        is_quiet(&[("a.md", "# One\n\n````sh\n```\n# no title\n````\n\n## Two\n")]);
    }
}
