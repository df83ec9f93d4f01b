//! The rows in classic mode. Small rows run in every test run, large ones only on demand.

use crate::model::{
    claims::ONE_HOLDER,
    settings::{Beginning, Clocks, Expected, Settings},
};

/// All rows in classic mode, small ones first.
pub(super) fn rows() -> Vec<Settings> {
    let mut rows = small();
    rows.extend(hostile());
    rows.extend(full().into_iter().map(|row| Settings { is_full: true, ..row }));
    rows
}

/// Together they take well below a minute, even without optimisation.
fn small() -> Vec<Settings> {
    let one = |name, what| Settings { attempts: vec![2, 2], ..Settings::classic(name, what, 1) };
    let two = |name, what| Settings::classic(name, what, 2);
    let three = |name, what| Settings::classic(name, what, 3);
    vec![
        Settings {
            attempts: vec![1, 1],
            renewals: 2,
            renewals_in_all: 2,
            ..one("n1-renew", "1 node, 2 renewals, which may overlap")
        },
        Settings { deaths: 1, ..one("n1-crash", "1 node, 2 attempts each, a crash") },
        Settings { breaks: 1, ..one("n1-break", "1 node, 2 attempts each, a break") },
        Settings { cancels: 1, ..one("n1-abandon", "1 node, 2 attempts each, a caller cancels") },
        Settings {
            attempts: vec![1, 1, 1],
            deaths: 1,
            ..one("n1-three", "1 node, 3 clients, a crash")
        },
        Settings { deaths: 1, cancels: 1, ..two("n2-ends", "2 nodes, a crash, a caller cancels") },
        Settings { breaks: 1, ..two("n2-break", "2 nodes, a break") },
        Settings {
            clocks: Some(Clocks::fast_nodes()),
            renewals: 1,
            renewals_in_all: 1,
            ..two("n2-drift", "2 nodes with fast clocks, a renewal")
        },
        three("n3", "3 nodes"),
        Settings {
            beginning: Beginning::Renewing,
            renewals: 1,
            renewals_in_all: 1,
            releases: false,
            timeouts: vec![0, 0],
            ..three("n3-renewing", "3 nodes, a renewal on its way, no timeouts or releases")
        },
    ]
}

/// Rows beyond the bounds of the promises: there the search must find two holders.
fn hostile() -> Vec<Settings> {
    let hostile = |row| Settings { expected: Expected::Broken(ONE_HOLDER), ..row };
    let held =
        |name, what| Settings { beginning: Beginning::Held, ..Settings::classic(name, what, 3) };
    let vanish = Settings { vanishings: 1, ..held("n3-vanish", "3 nodes, held, a key vanishes") };
    let restart = Settings { restarts: 1, ..held("n3-forget", "3 nodes, held, a node forgets") };
    let clocks = Clocks { drift_ppm: 200_000, ..Clocks::fast_nodes() };
    let drift = Settings::classic("n1-drift", "1 node, clocks differ by more than allowed", 1);
    vec![hostile(vanish), hostile(restart), hostile(Settings { clocks: Some(clocks), ..drift })]
}

/// Minutes each; with several gigabytes of memory.
fn full() -> Vec<Settings> {
    let two = |name, what| Settings::classic(name, what, 2);
    let three = |name, what| Settings::classic(name, what, 3);
    vec![
        Settings {
            renewals: 2,
            renewals_in_all: 2,
            ..Settings {
                attempts: vec![2, 2],
                ..Settings::classic("n1-renew-twice", "1 node, 2 attempts each, 2 renewals", 1)
            }
        },
        Settings {
            clocks: Some(Clocks::exact(3)),
            renewals: 1,
            renewals_in_all: 1,
            ..two("n2-ttl3", "2 nodes, a ttl of 3 ticks, a renewal")
        },
        Settings {
            breaks: 1,
            renewals: 1,
            renewals_in_all: 1,
            ..two("n2-break-renew", "2 nodes, a break, a renewal")
        },
        Settings { attempts: vec![1, 1, 1], ..two("n2-three", "2 nodes, 3 clients") },
        Settings { attempts: vec![2, 2], ..two("n2-twice", "2 nodes, 2 attempts each") },
        Settings { deaths: 1, ..three("n3-crash", "3 nodes, a crash") },
        Settings {
            clocks: Some(Clocks::fast_nodes()),
            ..three("n3-drift", "3 nodes with fast clocks")
        },
        Settings { cancels: 1, ..three("n3-abandon", "3 nodes, a caller cancels") },
        Settings { breaks: 1, ..three("n3-break", "3 nodes, a break") },
        Settings { renewals: 1, renewals_in_all: 1, ..three("n3-renew", "3 nodes, a renewal") },
        Settings {
            beginning: Beginning::Held,
            ..Settings::classic("n5", "5 nodes, held at first", 5)
        },
    ]
}
