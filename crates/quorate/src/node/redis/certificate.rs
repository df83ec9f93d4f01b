//! Reads when a certificate expires. The TLS library checks this, but does not report it.

use std::time::{Duration, SystemTime};

/// The end of a certificate's validity, from its DER form (RFC 5280). `None` if it cannot be read.
pub(super) fn expiry(der: &[u8]) -> Option<SystemTime> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut body, _) = element(certificate, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        (_, body) = element(body, VERSION)?;
    }
    for kind in [INTEGER, SEQUENCE, SEQUENCE] {
        // The serial number, the algorithm, the issuer.
        (_, body) = element(body, kind)?;
    }
    let (validity, _) = element(body, SEQUENCE)?;
    let kind = *validity.first()?;
    let (_, end) = element(validity, kind)?;
    let kind = *end.first()?;
    let (text, _) = element(end, kind)?;
    time(kind, str::from_utf8(text).ok()?)
}

/// The content of the first element, which must be of this kind, and the bytes after it.
fn element(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let [first, short, rest @ ..] = bytes else { return None };
    if *first != kind {
        return None;
    }
    let (len, rest) = match short {
        0..=0x7f => (usize::from(*short), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(kind: u8, text: &str) -> Option<SystemTime> {
    let (year, rest) = match kind {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: u64 = year.parse().ok()?;
            (if year < 50 { 2_000 + year } else { 1_900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let digits = rest.strip_suffix('Z').filter(|digits| digits.len() == 10)?;
    let two = |at: usize| digits.get(at..at + 2)?.parse::<u64>().ok();
    let days = days_since_1970(year, two(0)?, two(2)?)?;
    let seconds = days * 86_400 + two(4)? * 3_600 + two(6)? * 60 + two(8)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March end with the leap day.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    days.checked_sub(DAYS_BEFORE_1970)
}

/// From 1 March of the year 0.
const DAYS_BEFORE_1970: u64 = 719_468;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, month, day);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn expiry_of_a_certificate_is_read() {
        for (year, month, day) in [(2031, 2, 28), (2032, 2, 29), (2049, 12, 31), (2050, 1, 1)] {
            let expected: SystemTime = rcgen::date_time_ymd(year, month, day).into();
            let found = expiry(&certificate(year, month, day));
            assert_eq!(found, Some(expected), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn damaged_certificate_has_no_expiry() {
        let whole = certificate(2031, 1, 1);
        for len in 0..whole.len() {
            assert_eq!(expiry(&whole[..len]), None, "{len} bytes");
        }
        for at in 0..60 {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            let _ = expiry(&damaged); // It does not panic.
        }
    }
}
