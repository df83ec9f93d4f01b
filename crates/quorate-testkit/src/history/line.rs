//! One event as one line of text.
//!
//! Responsible for both directions. Fields are parted by tabs: the request, the time, what happened
//! and what belongs to it.

use super::Moment;

/// Something that happened to one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    /// The request: no two of all processes have the same.
    pub(super) id: String,
    pub(super) at: Moment,
    pub(super) event: Event,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Event {
    Asked { client: String, lock: String },
    GaveUp,
    Acquired { fence: Option<u64>, valid_until: Option<Moment> },
    Extended { valid_until: Moment },
    Released,
    Lost,
}

impl Line {
    /// With the line break.
    pub(super) fn text(&self) -> String {
        let Self { id, at, event } = self;
        let event = match event {
            Event::Asked { client, lock } => format!("asked\t{client}\t{lock}"),
            Event::GaveUp => "gave up".to_owned(),
            Event::Acquired { fence, valid_until } => {
                let valid_until = valid_until.map(Moment::as_nanos);
                format!("acquired\t{}\t{}", number_or_dash(*fence), number_or_dash(valid_until))
            }
            Event::Extended { valid_until } => format!("extended\t{}", valid_until.as_nanos()),
            Event::Released => "released".to_owned(),
            Event::Lost => "lost".to_owned(),
        };
        format!("{id}\t{}\t{event}\n", at.as_nanos())
    }

    /// `None` for a line that is not one of these.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('\t').collect();
        let [id, at, event @ ..] = &fields[..] else { return None };
        let event = match event {
            ["asked", client, lock] => {
                Event::Asked { client: (*client).to_owned(), lock: (*lock).to_owned() }
            }
            ["gave up"] => Event::GaveUp,
            ["acquired", fence, valid_until] => Event::Acquired {
                fence: parsed_or_dash(fence)?,
                valid_until: parsed_or_dash(valid_until)?.map(Moment::from_nanos),
            },
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
