//! The deliberate bugs that this world must notice.

use quorate_core::mutant::Mutant;

/// Their names on the command line.
pub const MUTANTS: &[(&str, Mutant)] = &[
    ("no-guard", Mutant::NoGuard),
    ("any-mark", Mutant::AnyMark),
    ("admit-anything", Mutant::AdmitAnything),
    ("hasty-change", Mutant::HastyChange),
    ("hasty-newcomer", Mutant::HastyNewcomer),
    ("writing-look", Mutant::WritingLook),
    ("any-pact", Mutant::AnyPact),
    ("any-label", Mutant::AnyLabel),
    ("guard-from-doubt", Mutant::GuardFromDoubt),
    ("durable-any-place", Mutant::DurableAnyPlace),
];
