//! How claims become properties that stateright checks, for any of the models.

use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Model, Path, Property};

/// A claim about the states of a model.
pub(super) struct Claim<M: Checked> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// True for the rows in which it is claimed.
    pub(super) applies: fn(&M::Settings) -> bool,
    pub(super) is_true: fn(&M, &M::State) -> bool,
}

/// Where a claim must be true.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// In every state.
    Always,
    /// In some state. Such an example shows that the search reaches the states that matter.
    Sometimes,
}

/// A model with claims.
pub(super) trait Checked: Model + Sized + 'static {
    type Settings;

    const CLAIMS: &'static [Claim<Self>];

    fn settings(&self) -> &Self::Settings;
    fn found(&self) -> &Found;
    /// One line for the initial state and one for each step.
    fn lines(&self, path: &Path<Self::State, Self::Action>) -> Vec<String>;
}

/// The claims for which a state was reported. Stateright keeps the last state that is reported for
/// a property, but only the first one has the shortest path.
#[derive(Debug, Default)]
pub(super) struct Found([AtomicBool; CLAIMS_MAX]);

/// The claims about a model.
pub(super) fn claims<M: Checked>(
    settings: &M::Settings,
) -> impl Iterator<Item = &'static Claim<M>> {
    M::CLAIMS.iter().filter(|claim| (claim.applies)(settings))
}

pub(super) fn properties<M: Checked>(model: &M) -> Vec<Property<M>> {
    let checks: [fn(&M, &M::State) -> bool; CLAIMS_MAX] = [
        check::<M, 0>,
        check::<M, 1>,
        check::<M, 2>,
        check::<M, 3>,
        check::<M, 4>,
        check::<M, 5>,
        check::<M, 6>,
        check::<M, 7>,
        check::<M, 8>,
        check::<M, 9>,
        check::<M, 10>,
        check::<M, 11>,
        check::<M, 12>,
        check::<M, 13>,
        check::<M, 14>,
        check::<M, 15>,
        check::<M, 16>,
        check::<M, 17>,
        check::<M, 18>,
        check::<M, 19>,
        check::<M, 20>,
        check::<M, 21>,
        check::<M, 22>,
    ];
    let settings = model.settings();
    let pairs = M::CLAIMS.iter().zip(checks).filter(|(claim, _)| (claim.applies)(settings));
    pairs
        .map(|(claim, check)| match claim.kind {
            Kind::Always => Property::always(claim.name, check),
            Kind::Sometimes => Property::sometimes(claim.name, check),
        })
        .collect()
}

/// The value of claim number `CLAIM` for stateright, which gets only the first discovery.
fn check<M: Checked, const CLAIM: usize>(model: &M, state: &M::State) -> bool {
    let Claim { kind, is_true, .. } = &M::CLAIMS[CLAIM];
    let first = || !model.found().0[CLAIM].swap(true, Ordering::Relaxed);
    match kind {
        Kind::Always => is_true(model, state) || !first(),
        Kind::Sometimes => is_true(model, state) && first(),
    }
}

/// The largest number of claims of a model.
const CLAIMS_MAX: usize = 23;
