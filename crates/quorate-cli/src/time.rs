//! Lengths of time as people write them.

use std::time::Duration;

/// Reads `500ms`, `60s`, `2m`, `1h`; a number alone is seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let wrong = || format!("`{text}` is no length of time: write 500ms, 60s, 2m or 1h");
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        for (text, millis) in
            [("500ms", 500), ("60s", 60_000), ("60", 60_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in
            ["", "s", "1.5s", "-1s", "1 s", "1d", "99999999999999999999s", "9999999999999999h"]
        {
            assert!(parse(wrong).is_err_and(|error| error.contains("write 500ms")), "{wrong}");
        }
    }
}
