//! Durations as text, in the same units everywhere.

use std::{fmt, time::Duration};

/// A duration for people, in the unit that they would choose, rounded down.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorate_core::time_text::TimeText;
///
/// assert_eq!(TimeText(Duration::from_millis(9_340)).to_string(), "9.3 s");
/// assert_eq!(TimeText(Duration::from_secs(73)).to_string(), "1 min 13 s");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeText(pub Duration);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
        // A second part of zero is left out.
        let (whole, unit, part, part_unit) = match seconds {
            0 => return write!(f, "{millis} ms"),
            1..60 if millis == 0 => return write!(f, "{seconds} s"),
            1..60 => return write!(f, "{seconds}.{} s", millis / 100),
            60..3_600 => (minutes, "min", seconds % 60, "s"),
            3_600..86_400 => (hours, "h", minutes % 60, "min"),
            _ => (days, "d", hours % 24, "h"),
        };
        match part {
            0 => write!(f, "{whole} {unit}"),
            part => write!(f, "{whole} {unit} {part} {part_unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_the_fitting_unit() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_249, "1.2 s"),
            (9_999, "9.9 s"),
            (43_210, "43.2 s"),
            (60_000, "1 min"),
            (62_500, "1 min 2 s"),
            (3 * 3_600_000 + 62_000, "3 h 1 min"),
            (9 * 86_400_000 + 4 * 3_600_000, "9 d 4 h"),
        ] {
            assert_eq!(TimeText(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
