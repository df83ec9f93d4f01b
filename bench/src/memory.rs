//! What this process has in memory.

/// Bytes that are resident and belong to no file.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says so");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

/// Bytes for each of a number of equal things, if there were `since` bytes without them.
pub(crate) fn each(since: u64, things: usize) -> f64 {
    resident().saturating_sub(since) as f64 / things as f64
}
