//! One event as one line of text.
//!
//! Responsible for both directions. Fields are separated by tabs: the request, the time, the event
//! and its values.

use super::{How, Moment};

/// Something that happened to one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    /// The request, which is unique among all processes.
    pub(super) id: String,
    pub(super) at: Moment,
    pub(super) event: Event,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// The number of locks, if it asks for a set.
    Asked {
        client: String,
        lock: String,
        how: How,
        size: Option<usize>,
    },
    GaveUp,
    Acquired {
        fence: Option<u64>,
        valid_until: Option<Moment>,
    },
    /// Each lock of a set with its fence.
    AcquiredAll {
        members: Vec<(String, Option<u64>)>,
        valid_until: Option<Moment>,
    },
    Extended {
        valid_until: Moment,
    },
    Released,
    Lost,
}

impl Line {
    /// With a line break.
    pub(super) fn text(&self) -> String {
        let Self { id, at, event } = self;
        let event = match event {
            Event::Asked { client, lock, how: How::Alone, size: None } => {
                format!("asked\t{client}\t{lock}")
            }
            Event::Asked { client, lock, how, size } => {
                let size = number_or_dash(size.map(|size| size as u64));
                format!("asked\t{client}\t{lock}\t{}\t{size}", how.text())
            }
            Event::GaveUp => "gave up".to_owned(),
            Event::Acquired { fence, valid_until } => {
                let valid_until = valid_until.map(Moment::as_nanos);
                format!("acquired\t{}\t{}", number_or_dash(*fence), number_or_dash(valid_until))
            }
            Event::AcquiredAll { members, valid_until } => {
                let valid_until = number_or_dash(valid_until.map(Moment::as_nanos));
                let member = |(lock, fence): &(String, Option<u64>)| {
                    format!("\t{lock}\t{}", number_or_dash(*fence))
                };
                let members: String = members.iter().map(member).collect();
                format!("acquired all\t{valid_until}{members}")
            }
            Event::Extended { valid_until } => format!("extended\t{}", valid_until.as_nanos()),
            Event::Released => "released".to_owned(),
            Event::Lost => "lost".to_owned(),
        };
        format!("{id}\t{}\t{event}\n", at.as_nanos())
    }

    /// `None` for any other line.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('\t').collect();
        let [id, at, event @ ..] = &fields[..] else { return None };
        let event = match event {
            ["asked", client, lock, more @ ..] => {
                let (how, size) = match more {
                    [] => (How::Alone, None),
                    [how, size] => (How::parse(how)?, parsed_or_dash(size)?),
                    _ => return None,
                };
                let (client, lock) = ((*client).to_owned(), (*lock).to_owned());
                let size = size.map(usize::try_from).transpose().ok()?;
                Event::Asked { client, lock, how, size }
            }
            ["gave up"] => Event::GaveUp,
            ["acquired", fence, valid_until] => Event::Acquired {
                fence: parsed_or_dash(fence)?,
                valid_until: parsed_or_dash(valid_until)?.map(Moment::from_nanos),
            },
            ["acquired all", valid_until, members @ ..] => {
                let (pairs, []) = members.as_chunks::<2>() else { return None };
                let member = |[lock, fence]: &[&str; 2]| {
                    parsed_or_dash(fence).map(|fence| ((*lock).to_owned(), fence))
                };
                let members = pairs.iter().map(member).collect::<Option<Vec<_>>>()?;
                let valid_until = parsed_or_dash(valid_until)?.map(Moment::from_nanos);
                Event::AcquiredAll { members, valid_until }
            }
            ["extended", valid_until] => {
                Event::Extended { valid_until: Moment::from_nanos(valid_until.parse().ok()?) }
            }
            ["released"] => Event::Released,
            ["lost"] => Event::Lost,
            _ => return None,
        };
        Some(Self { id: (*id).to_owned(), at: Moment::from_nanos(at.parse().ok()?), event })
    }
}

fn number_or_dash(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn parsed_or_dash(text: &str) -> Option<Option<u64>> {
    match text {
        "-" => Some(None),
        number => number.parse().ok().map(Some),
    }
}
