//! Makes a violation small: fewer faults, fewer clients, a shorter trace.

use crate::{
    campaign::Campaign,
    check::Promise,
    run::Without,
    settings::{Fixed, Settings},
    story::Story,
};

/// A violation from which nothing more can be left out.
#[derive(Clone, Debug)]
pub struct Small {
    /// The seed; not always the one that was found first.
    pub seed: u64,
    /// Settings that override what the seed draws.
    pub fixed: Fixed,
    /// The faults and clients that are left out.
    pub without: Without,
    /// The remaining events.
    pub story: Story,
}

impl Small {
    /// The command that shows it again.
    #[must_use]
    pub fn replay(&self, campaign: &Campaign) -> String {
        let mut command = format!("cargo run --release -p quorate-sim -- --seed {}", self.seed);
        let mut add = |text: String| command.push_str(&text);
        let Fixed { nodes, clients, has_queue, has_quarantine, is_shared } = self.fixed;
        let word = |it: bool, words: [&str; 2]| words[usize::from(it)].to_owned();
        let options = [
            ("nodes", nodes.map(|it| it.to_string())),
            ("clients", clients.map(|it| it.to_string())),
            ("mode", has_queue.map(|it| word(it, ["classic", "queue"]))),
            ("quarantine", has_quarantine.map(|it| word(it, ["off", "on"]))),
            ("share", is_shared.map(|it| word(it, ["off", "on"]))),
        ];
        for (option, value) in options {
            value.into_iter().for_each(|value| add(format!(" --{option} {value}")));
        }
        if let Some(mutant) = campaign.mutant {
            add(format!(" --mutant {mutant}"));
        }
        if !self.without.is_empty() {
            add(format!(" --without {}", self.without));
        }
        command
    }
}

/// Finds the shortest trace that breaks the same promise: of this seed, and of the next seeds with
/// fewer nodes and clients. The mutant must already be switched on.
#[must_use]
pub fn shrink(campaign: &Campaign, seed: u64, promise: Promise) -> Option<Small> {
    let first = shrink_one(campaign, seed, campaign.fixed, promise)?;
    let nodes = first.story.settings.nodes;
    let mut best = first;
    let mut left = CANDIDATES;
    for clients in [2, 3] {
        for nodes in [3, nodes] {
            let nodes = campaign.fixed.nodes.unwrap_or(nodes);
            let clients = campaign.fixed.clients.unwrap_or(clients);
            let (nodes, clients) = (Some(nodes), Some(clients));
            let fixed = Fixed { nodes, clients, ..campaign.fixed };
            for seed in seed..seed + NEIGHBOURS {
                let report = campaign.run_one(seed, fixed, &Without::default(), false);
                if left == 0 || report.violation.is_none_or(|found| found.promise != promise) {
                    continue;
                }
                left -= 1;
                if let Some(small) = shrink_one(campaign, seed, fixed, promise)
                    && small.story.lines.len() < best.story.lines.len()
                {
                    best = small;
                }
            }
        }
    }
    Some(best)
}

/// Leaves clients and faults out of one run while the promise stays broken.
fn shrink_one(campaign: &Campaign, seed: u64, fixed: Fixed, promise: Promise) -> Option<Small> {
    let settings = Settings::draw(seed, &fixed);
    let is_broken = |without: &Without| {
        let report = campaign.run_one(seed, fixed, without, false);
        report.violation.is_some_and(|found| found.promise == promise)
    };
    let mut without = Without::default();
    if !is_broken(&without) {
        return None;
    }
    for client in 0..settings.clients {
        try_out(&mut without, &is_broken, |without| without.clients.push(client));
    }
    for fault in 0..settings.faults + settings.fulls.len() {
        try_out(&mut without, &is_broken, |without| without.faults.push(fault));
    }
    let report = campaign.run_one(seed, fixed, &without, true);
    let story = Story::of(settings, report.violation?, &report.trace);
    Some(Small { seed, fixed, without, story })
}

fn try_out(
    without: &mut Without,
    is_broken: &impl Fn(&Without) -> bool,
    change: impl FnOnce(&mut Without),
) {
    let mut less = without.clone();
    change(&mut less);
    if is_broken(&less) {
        *without = less;
    }
}

/// How many seeds after the first are tried, for each number of nodes and clients.
const NEIGHBOURS: u64 = 200;

/// The largest number of violations that are made small.
const CANDIDATES: u32 = 20;
