//! Durations as people write them.

use std::time::Duration;

use quorate::inspect::TimeText;

/// Parses `500ms`, `1.5s`, `2m` or `1h`. A number without a unit means seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let millis = unit_ms.and_then(|unit_ms| millis(number, unit_ms));
    let wrong = || format!("invalid duration {text:?}: use a number followed by ms, s, m or h");
    millis.map(Duration::from_millis).ok_or_else(wrong)
}

/// A decimal number of units, in whole milliseconds.
fn millis(number: &str, unit_ms: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, digits) = (whole.parse::<u64>().ok()?, u32::try_from(part.len()).ok()?);
    let scale = 10_u64.checked_pow(digits)?;
    let part = part.parse::<u64>().ok()?.checked_mul(unit_ms)?.checked_div(scale)?;
    whole.checked_mul(unit_ms)?.checked_add(part)
}

/// The duration in the units of all messages.
pub(crate) fn shown(time: Duration) -> String {
    TimeText(time).to_string()
}

/// Formats a short duration, such as a round trip.
pub(crate) fn micros(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..10_000 => format!("{}.{:02} ms", micros / 1_000, micros / 10 % 100),
        _ => shown(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_and_without_units() {
        for (text, millis) in [
            ("0", 0),
            ("500ms", 500),
            ("60s", 60_000),
            ("60", 60_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0.25", 250),
            ("1.5s", 1_500),
            ("0.0015", 1),
            ("1.5h", 5_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in [
            "",
            "s",
            ".5",
            "1.",
            "1.2.3",
            "-1s",
            "1 s",
            "1d",
            "99999999999999999999s",
            "9999999999999999h",
            "0.99999999999999999999",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.starts_with(&format!("invalid duration {wrong:?}: ")), "{error}");
        }
    }

    #[test]
    fn short_durations_have_two_decimals() {
        for (us, text) in [(48, "0.04 ms"), (1_250, "1.25 ms"), (25_000, "25 ms")] {
            assert_eq!(micros(Duration::from_micros(us)), text);
        }
    }
}
