//! Lines, bars and texts of a timeline, in SVG.

use std::fmt::Write as _;

use crate::{clock::Nanos, trace::millis};

/// An SVG file in the making.
pub(super) struct Canvas {
    from: Nanos,
    to: Nanos,
    lanes: usize,
    body: String,
}

impl Canvas {
    pub(super) const fn new(from: Nanos, to: Nanos, lanes: usize) -> Self {
        Self { from, to, lanes, body: String::new() }
    }

    /// One lane with its name.
    pub(super) fn lane(&mut self, lane: usize, name: &str, is_client: bool) {
        let y = middle(lane);
        let fill = if is_client { "#f4f6fb" } else { "#fbf8f2" };
        let top = y - LANE / 2.0 + 2.0;
        let height = LANE - 4.0;
        self.add(format_args!(
            "<rect x='{LEFT}' y='{top}' width='{WIDTH}' height='{height}' fill='{fill}'/>\
             <text x='{x}' y='{y}' class='name'>{name}</text>",
            x = LEFT - 12.0,
            name = escape(name)
        ));
    }

    /// Times along the bottom.
    pub(super) fn axis(&mut self) {
        let y = self.bottom();
        for step in 0..=TICKS {
            let at = self.from + (self.to - self.from) / TICKS * step;
            let x = self.x(at);
            self.add(format_args!(
                "<line x1='{x}' y1='{TOP}' x2='{x}' y2='{y}' class='tick'/>\
                 <text x='{x}' y='{label}' class='time'>{text} ms</text>",
                label = y + 16.0,
                text = format_args!("{:.1}", at as f64 / 1e6)
            ));
        }
    }

    /// A fault, where and for how long.
    pub(super) fn fault(&mut self, lane: usize, at: Nanos, until: Nanos, text: &str) {
        let (x, end) = (self.x(at), self.x(until));
        let y = middle(lane) - LANE / 2.0 + 2.0;
        let width = (end - x).max(3.0);
        self.add(format_args!(
            "<rect x='{x}' y='{y}' width='{width}' height='{height}' class='fault'/>\
             <text x='{text_x}' y='{text_y}' class='what'>{text}</text>",
            height = LANE - 4.0,
            text_x = x + 4.0,
            text_y = y + 11.0,
            text = escape(text)
        ));
    }

    /// A node has an owner's key.
    pub(super) fn key(&mut self, lane: usize, since: Nanos, until: Nanos, owner: &str) {
        let y = middle(lane) + 6.0;
        self.bar(y, (since, until), owner, &BarStyle { height: 12.0, opacity: 0.55, edge: "" });
    }

    /// A client believes that it holds the lock.
    pub(super) fn claim(
        &mut self,
        (lane, is_second): (usize, bool),
        since: Nanos,
        until: Nanos,
        owner: &str,
        is_guilty: bool,
    ) {
        let y = middle(lane) + if is_second { 20.0 } else { 0.0 };
        let edge = if is_guilty { "stroke='#c1121f' stroke-width='2.5'" } else { "" };
        self.bar(y, (since, until), owner, &BarStyle { height: 18.0, opacity: 1.0, edge });
    }

    /// A request is named where it leaves.
    pub(super) fn request_name(&mut self, lane: usize, sent_at: Nanos, name: &str) {
        let (x, y) = (self.x(sent_at) - 3.0, middle(lane) + LANE / 2.0 - 5.0);
        let name = escape(name);
        self.add(format_args!("<text x='{x}' y='{y}' class='verb'>{name}</text>"));
    }

    /// A node refused.
    pub(super) fn refusal(&mut self, lane: usize, at: Nanos) {
        let (x, y) = (self.x(at), middle(lane) + 10.0);
        self.add(format_args!("<text x='{x}' y='{y}' class='no'>×</text>"));
    }

    fn bar(&mut self, y: f64, (since, until): (Nanos, Nanos), owner: &str, style: &BarStyle<'_>) {
        let (x, end) = (self.x(since), self.x(until));
        let BarStyle { height, opacity, edge } = *style;
        let y = y - height / 2.0;
        let width = (end - x).max(2.0);
        self.add(format_args!(
            "<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='3' fill='{fill}' \
             fill-opacity='{opacity}' {edge}><title>{owner}: {since} to {until} ms</title></rect>\
             <text x='{text_x}' y='{text_y}' class='owner'>{owner}</text>",
            fill = colour(owner),
            owner = escape(owner),
            since = millis(since),
            until = millis(until),
            text_x = x + 5.0,
            text_y = y + height / 2.0,
        ));
    }

    /// A message from a lane at a time to another.
    pub(super) fn message(
        &mut self,
        (from, sent_at): (usize, Nanos),
        (to, at): (usize, Nanos),
        is_reply: bool,
        tip: &str,
    ) {
        let class = if is_reply { "reply" } else { "request" };
        let (x1, x2) = (self.x(sent_at), self.x(at));
        let (y1, y2) = (middle(from) + 6.0, middle(to) + 6.0);
        self.add(format_args!(
            "<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' class='{class}'>\
             <title>{tip}</title></line>",
            tip = escape(tip)
        ));
    }

    /// The moment at which the promise was broken.
    pub(super) fn verdict(&mut self, at: Nanos) {
        let (x, y) = (self.x(at), self.bottom());
        self.add(format_args!("<line x1='{x}' y1='{TOP}' x2='{x}' y2='{y}' class='verdict'/>"));
    }

    pub(super) fn finish(self, title: &str, text: &str, legend: &str) -> String {
        let width = LEFT + WIDTH + 40.0;
        let height = self.bottom() + 52.0;
        let (title, text, legend) = (escape(title), escape(text), escape(legend));
        let legend_y = height - 14.0;
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' \
             width='{width}' height='{height}' font-family='system-ui, sans-serif'>\n{STYLE}\n\
             <rect width='100%' height='100%' fill='white'/>\n\
             <text x='20' y='28' class='title'>{title}</text>\n\
             <text x='20' y='48' class='subtitle'>{text}</text>\n\
             {body}<text x='20' y='{legend_y}' class='legend'>{legend}</text>\n</svg>\n",
            body = self.body
        )
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{shape}");
    }

    fn x(&self, at: Nanos) -> f64 {
        let span = (self.to - self.from).max(1) as f64;
        let passed = at.clamp(self.from, self.to) - self.from;
        round(LEFT + WIDTH * passed as f64 / span)
    }

    fn bottom(&self) -> f64 {
        TOP + LANE * self.lanes as f64
    }
}

/// The style of a bar.
struct BarStyle<'a> {
    height: f64,
    opacity: f64,
    edge: &'a str,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&#39;")
}

fn middle(lane: usize) -> f64 {
    TOP + LANE * (lane as f64 + 0.5)
}

/// The colour of an owner: its client's, in two shades.
fn colour(owner: &str) -> &'static str {
    let client = usize::from(owner.bytes().next().unwrap_or(b'A').wrapping_sub(b'A'));
    let number: usize =
        owner.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    COLOURS[client % COLOURS.len()][number % 2]
}

fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

const COLOURS: [[&str; 2]; 6] = [
    ["#8ecae6", "#5fb0d6"],
    ["#ffb703", "#e9a100"],
    ["#95d5b2", "#6cc096"],
    ["#cdb4db", "#b391c7"],
    ["#f4acb7", "#e8889a"],
    ["#c9ada7", "#b08f88"],
];

const LEFT: f64 = 110.0;
const TOP: f64 = 66.0;
const WIDTH: f64 = 1_160.0;
const LANE: f64 = 64.0;
const TICKS: u64 = 8;

const STYLE: &str = "<defs><pattern id='hatch' width='7' height='7' patternUnits='userSpaceOnUse' \
patternTransform='rotate(45)'><line x1='0' y1='0' x2='0' y2='7' stroke='#9a8c98' stroke-width='2'/>\
</pattern></defs><style>.title{font-size:18px;font-weight:600}\
.subtitle{font-size:13px;fill:#c1121f}\
.legend{font-size:12px;fill:#555}.name{font-size:13px;text-anchor:end;dominant-baseline:middle}\
.time{font-size:11px;fill:#666;text-anchor:middle}.tick{stroke:#e3e3e3}\
.verb{font-size:10px;fill:#444;text-anchor:end}\
.no{font-size:15px;fill:#c1121f;text-anchor:middle}\
.owner{font-size:11px;dominant-baseline:middle}.what{font-size:10px;fill:#4a4e69}\
.fault{fill:url(#hatch);fill-opacity:.45;stroke:#9a8c98}.request{stroke:#444;stroke-width:1}\
.reply{stroke:#888;stroke-width:1;stroke-dasharray:4 3}\
.verdict{stroke:#c1121f;stroke-width:2;stroke-dasharray:6 4}</style>";
