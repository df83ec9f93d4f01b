//! How the checker is told about claims, whatever the world is that they are about.

use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Model, Path, Property};

/// A sentence about the states of a world.
pub(super) struct Claim<W: Judged> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The worlds in which it is claimed.
    pub(super) applies: fn(&W::Settings) -> bool,
    pub(super) is_true: fn(&W, &W::State) -> bool,
}

/// Where a claim must be true.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// In every state.
    Always,
    /// In some state. The examples show that the search gets to where it matters.
    Sometimes,
}

/// A world about which something is claimed.
pub(super) trait Judged: Model + Sized + 'static {
    type Settings;

    const CLAIMS: &'static [Claim<Self>];

    fn settings(&self) -> &Self::Settings;
    fn found(&self) -> &Found;
    /// One line for the beginning and one for each step.
    fn told(&self, path: &Path<Self::State, Self::Action>) -> Vec<String>;
}

/// Which claims have been settled by a state: the checker keeps the last state that it is shown,
/// and only the first one has the shortest path.
#[derive(Debug, Default)]
pub(super) struct Found([AtomicBool; CLAIMS_MAX]);

/// The claims about a world.
pub(super) fn claims<W: Judged>(settings: &W::Settings) -> impl Iterator<Item = &'static Claim<W>> {
    W::CLAIMS.iter().filter(|claim| (claim.applies)(settings))
}

pub(super) fn properties<W: Judged>(world: &W) -> Vec<Property<W>> {
    let judges: [fn(&W, &W::State) -> bool; CLAIMS_MAX] = [
        judge::<W, 0>,
        judge::<W, 1>,
        judge::<W, 2>,
        judge::<W, 3>,
        judge::<W, 4>,
        judge::<W, 5>,
        judge::<W, 6>,
        judge::<W, 7>,
        judge::<W, 8>,
        judge::<W, 9>,
        judge::<W, 10>,
        judge::<W, 11>,
        judge::<W, 12>,
        judge::<W, 13>,
        judge::<W, 14>,
        judge::<W, 15>,
        judge::<W, 16>,
        judge::<W, 17>,
        judge::<W, 18>,
        judge::<W, 19>,
        judge::<W, 20>,
    ];
    let settings = world.settings();
    let pairs = W::CLAIMS.iter().zip(judges).filter(|(claim, _)| (claim.applies)(settings));
    pairs
        .map(|(claim, judge)| match claim.kind {
            Kind::Always => Property::always(claim.name, judge),
            Kind::Sometimes => Property::sometimes(claim.name, judge),
        })
        .collect()
}

/// Says what the checker wants to hear about claim number `CLAIM`, once.
fn judge<W: Judged, const CLAIM: usize>(world: &W, state: &W::State) -> bool {
    let Claim { kind, is_true, .. } = &W::CLAIMS[CLAIM];
    let first = || !world.found().0[CLAIM].swap(true, Ordering::Relaxed);
    match kind {
        Kind::Always => is_true(world, state) || !first(),
        Kind::Sometimes => is_true(world, state) && first(),
    }
}

/// The most claims about one kind of world.
const CLAIMS_MAX: usize = 21;
