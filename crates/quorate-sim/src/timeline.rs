//! A violation as a picture: one lane for each client and node, and time from left to right.

mod draw;

use self::draw::Canvas;
use crate::{
    check::Promise,
    clock::{MS, Nanos},
    story::Story,
    trace::{Key, LeaseChange, Position, Scene, client_name, millis},
};

/// Draws a story as an SVG file.
#[must_use]
pub fn svg(story: &Story) -> String {
    let picture = Picture::of(story);
    let mut canvas = Canvas::new(picture.from, picture.to, picture.lanes.len());
    picture.draw_lanes(&mut canvas);
    picture.draw_faults(&mut canvas);
    picture.draw_keys(&mut canvas);
    picture.draw_messages(&mut canvas);
    picture.draw_claims(&mut canvas);
    picture.draw_verdict(&mut canvas);
    canvas.finish(&title(story), &story.violation.text, LEGEND)
}

struct Picture<'a> {
    story: &'a Story,
    lanes: Vec<Lane>,
    from: Nanos,
    to: Nanos,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Lane {
    Client(usize),
    Node(usize),
}

impl<'a> Picture<'a> {
    fn of(story: &'a Story) -> Self {
        let mut clients: Vec<usize> =
            story.lines.iter().filter_map(|line| line.what.client()).collect();
        clients.sort_unstable();
        clients.dedup();
        let nodes = (0..story.settings.nodes).map(Lane::Node);
        let lanes = clients.into_iter().map(Lane::Client).chain(nodes).collect();
        let (from, at) = story.span();
        let margin = ((at - from) / 12).max(MS);
        Self { story, lanes, from: from.saturating_sub(margin / 2), to: at + margin }
    }

    fn lane(&self, lane: Lane) -> Option<usize> {
        self.lanes.iter().position(|known| *known == lane)
    }

    fn draw_lanes(&self, canvas: &mut Canvas) {
        for (index, lane) in self.lanes.iter().enumerate() {
            let name = match lane {
                Lane::Client(client) => format!("client {}", client_name(*client)),
                Lane::Node(node) => format!("node n{node}"),
            };
            canvas.lane(index, &name, matches!(lane, Lane::Client(_)));
        }
        canvas.axis();
    }

    /// A fault that lasts is a hatched field; a fault without a duration is a mark.
    fn draw_faults(&self, canvas: &mut Canvas) {
        for line in &self.story.lines {
            let Scene::Fault { place, until, text, .. } = &line.what else { continue };
            let (lane, text) = match place {
                Position::Client(client) => (Lane::Client(*client), text.clone()),
                Position::Node(node) => (Lane::Node(*node), text.clone()),
                Position::Link(client, node) => {
                    (Lane::Node(*node), format!("{text} with {}", client_name(*client)))
                }
                Position::Everywhere => (Lane::Node(0), text.clone()),
            };
            if let Some(lane) = self.lane(lane) {
                canvas.fault(lane, line.at, *until, &text);
            }
        }
    }

    /// Which owner's key each node has, and for how long.
    fn draw_keys(&self, canvas: &mut Canvas) {
        for node in 0..self.story.settings.nodes {
            let Some(lane) = self.lane(Lane::Node(node)) else { continue };
            let mut open: Option<(String, Nanos, Nanos)> = None;
            for line in &self.story.lines {
                let Scene::Ran { node: at, key, .. } = &line.what else { continue };
                if *at != node || *key == Key::Same {
                    continue;
                }
                let is_same = matches!((&open, key), (Some((known, ..)), Key::Is(owner, _))
                    if known == owner);
                match (&mut open, key) {
                    (Some((_, _, until)), Key::Is(_, later)) if is_same => *until = *later,
                    _ => {
                        if let Some((owner, since, until)) = open.take() {
                            canvas.key(lane, since, until.min(line.at), &owner);
                        }
                        if let Key::Is(owner, until) = key {
                            open = Some((owner.clone(), line.at, *until));
                        }
                    }
                }
            }
            if let Some((owner, since, until)) = open {
                canvas.key(lane, since, until.min(self.to), &owner);
            }
        }
    }

    fn draw_messages(&self, canvas: &mut Canvas) {
        let mut named: Vec<(usize, &str)> = Vec::new();
        for line in &self.story.lines {
            match &line.what {
                Scene::Ran { client, node, sent_at, ask, answer, .. } => {
                    if let (Some(client), Some(node)) =
                        (self.lane(Lane::Client(*client)), self.lane(Lane::Node(*node)))
                    {
                        let tip = format!("{ask}: {answer}");
                        canvas.message((client, *sent_at), (node, line.at), false, &tip);
                        if answer.contains("another's") || answer.contains("absent") {
                            canvas.refusal(node, line.at);
                        }
                        // The same request goes to all nodes; one name is enough.
                        if !named.contains(&(client, ask)) {
                            named.push((client, ask));
                            canvas.request_name(client, *sent_at, short(ask));
                        }
                    }
                }
                Scene::Received { client, node, sent_at, ask, answer } => {
                    if let (Some(client), Some(node)) =
                        (self.lane(Lane::Client(*client)), self.lane(Lane::Node(*node)))
                    {
                        let tip = format!("reply to {ask}: {answer}");
                        canvas.message((node, *sent_at), (client, line.at), true, &tip);
                    }
                }
                _ => {}
            }
        }
    }

    /// The period in which each holder believes that it holds the lock.
    fn draw_claims(&self, canvas: &mut Canvas) {
        let mut drawn: Vec<(usize, Nanos)> = Vec::new();
        for line in &self.story.lines {
            let Scene::Lease { client, claim, owner, change: LeaseChange::Held(until) } =
                &line.what
            else {
                continue;
            };
            let Some(lane) = self.lane(Lane::Client(*client)) else { continue };
            let mut end = *until;
            for later in &self.story.lines {
                match &later.what {
                    Scene::Lease { claim: of, .. } if of != claim => {}
                    Scene::Lease { change: LeaseChange::Renewed(until), .. } => end = *until,
                    Scene::Lease {
                        change: LeaseChange::GaveUp(_) | LeaseChange::Lost(_), ..
                    } => {
                        end = end.min(later.at);
                    }
                    _ => {}
                }
            }
            let is_guilty = self.story.violation.claims.contains(claim);
            // Two claims of one client would hide each other.
            let is_second = drawn.iter().any(|(of, until)| *of == lane && line.at < *until);
            drawn.push((lane, end));
            canvas.claim((lane, is_second), line.at, end.min(self.to), owner, is_guilty);
        }
    }

    fn draw_verdict(&self, canvas: &mut Canvas) {
        canvas.verdict(self.story.violation.at);
    }
}

/// The verb and the owner of a request.
fn short(ask: &str) -> &str {
    let end = ask.match_indices(' ').nth(1).map_or(ask.len(), |(index, _)| index);
    &ask[..end]
}

fn title(story: &Story) -> String {
    let what = match story.violation.promise {
        Promise::Exclusion => "Two holders at once",
        Promise::Backing => "A holder without a majority",
        Promise::Fence => "A fence that does not grow",
        Promise::Loss => "A loss that was not reported",
        Promise::Limit => "A limit that was not kept",
        Promise::Leak => "A key that is never released",
        Promise::Progress => "A lock that no waiter gets",
        Promise::Order => "A waiter that others overtake",
        Promise::Memory => "A full node lost data or stored something new",
        Promise::Reads => "A read-only command that changed a node",
        Promise::Together => "A lock of a set that is held alone",
        Promise::Reason => "An outcome that does not match the answers",
    };
    let (at, seed) = (millis(story.violation.at), story.settings.seed);
    format!("{what}, after {at} ms of seed {seed}")
}

const LEGEND: &str = "Thick bars: a client believes that it holds the lock. Thin bars: a node has \
                      its key. Lines: requests (solid), replies (dashed); ×: refused. Hatched: \
                      fault.";
