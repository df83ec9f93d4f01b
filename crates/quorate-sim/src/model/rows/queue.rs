//! The rows with a queue. Small rows run in every test run, large ones only on demand.

use quorate_core::mutant::Mutant;

use crate::model::{
    claims::{BACKED, KEPT_GRANTS},
    settings::{Beginning, Expected, Settings, Tickets},
};

/// All of them, small ones first.
pub(super) fn rows() -> Vec<Settings> {
    let mut rows = small();
    rows.extend(small_that_share());
    rows.extend(small_with_downgrades());
    rows.extend(small_with_time());
    let large = large().into_iter().chain(large_that_forget()).chain(large_with_time());
    let large = large.chain(large_that_share());
    rows.extend(large.map(|row| Settings { is_full: true, ..row }));
    rows
}

/// Together they take half a minute.
fn small() -> Vec<Settings> {
    let one = |name, what| Settings::queue(name, what, 1);
    let two = |name, what| Settings::queue(name, what, 2);
    let three = |name, what| Settings::queue(name, what, 3);
    vec![
        Settings {
            breaks: 1,
            cancels: 1,
            lapses: 1,
            timeouts: vec![1, 1],
            ..one("queue-n1-lapse", "1 node, a break, a caller cancels, a session expires, timers")
        },
        Settings {
            attempts: vec![1, 1, 1],
            cancels: 1,
            deaths: 1,
            ..one("queue-n1-ends", "1 node, 3 clients, a caller cancels, a crash")
        },
        Settings {
            tickets: Tickets::Any(vec![1, 2]),
            breaks: 1,
            ..two("queue-n2-break", "2 nodes, any tickets, a break")
        },
        Settings {
            attempts: vec![1, 1, 1],
            vanishings: 1,
            ..two("queue-n2-three", "2 nodes, 3 clients, a key vanishes")
        },
        Settings { tickets: Tickets::Any(vec![1, 2]), ..three("queue-n3", "3 nodes, any tickets") },
        Settings {
            is_unordered: true,
            ..three("queue-n3-unordered", "3 nodes, pushes and replies overtake each other")
        },
        Settings {
            fences: vec![0, 1],
            vanishings: 1,
            ..three("queue-n3-vanish", "3 nodes with any fences, a key vanishes")
        },
        Settings {
            vanishings: 1,
            renewals: 1,
            ..three("queue-n3-heal", "3 nodes, a key vanishes, a renewal")
        },
    ]
}

/// Rows in which several clients may hold the lock together.
fn small_that_share() -> Vec<Settings> {
    let one = |name, what| Settings::queue(name, what, 1);
    let two = |name, what| Settings::queue(name, what, 2);
    let three = |name, what| Settings::queue(name, what, 3);
    vec![
        Settings {
            attempts: vec![1, 1, 1],
            sharing: vec![0, 2],
            cancels: 1,
            breaks: 1,
            ..one("queue-n1-shared", "1 node, 2 readers and a writer, a break, a caller cancels")
        },
        Settings {
            attempts: vec![1, 1, 1],
            sharing: vec![0, 2],
            ..two("queue-n2-shared", "2 nodes, 2 readers and a writer")
        },
        Settings {
            sharing: vec![1],
            tickets: Tickets::Any(vec![1, 2]),
            ..three("queue-n3-shared-two", "3 nodes, a reader and a writer, any tickets")
        },
        Settings {
            attempts: vec![1, 1, 1],
            entries: vec![0, 2],
            cancels: 1,
            breaks: 1,
            ..one("queue-n1-entries", "1 node, 2 entries and a stranger, a break, a caller cancels")
        },
        Settings {
            attempts: vec![1, 1, 1],
            entries: vec![0, 2],
            ..two("queue-n2-entries", "2 nodes, 2 entries and a stranger")
        },
        Settings {
            entries: vec![1],
            tickets: Tickets::Any(vec![1, 2]),
            ..three("queue-n3-entry", "3 nodes, an entry and a stranger, any tickets")
        },
        Settings {
            attempts: vec![1, 1, 1],
            entries: vec![0, 2],
            beginning: Beginning::Queued,
            cancels: 1,
            ..three(
                "queue-n3-entries",
                "3 nodes, an entry holds, a stranger waits, an entry comes, a caller cancels",
            )
        },
    ]
}

/// Where an exclusive holder becomes a reader while another client waits for an exclusive lock.
fn small_with_downgrades() -> Vec<Settings> {
    let one = |name, what| Settings::queue(name, what, 1);
    let three = |name, what| Settings::queue(name, what, 3);
    let queued = |row| Settings { downgrades: vec![0], beginning: Beginning::Queued, ..row };
    let bug = |row| Settings {
        mutant: Some(Mutant::DowngradeAdmitsWriter),
        expected: Expected::Broken(BACKED),
        ..queued(row)
    };
    vec![
        Settings {
            attempts: vec![1, 1, 1],
            sharing: vec![2],
            downgrades: vec![0],
            breaks: 1,
            cancels: 1,
            ..one(
                "queue-n1-downgrade",
                "1 node, A becomes a reader, B writes, C reads, a break, a caller cancels",
            )
        },
        Settings {
            downgrades: vec![0],
            ..three("queue-n3-downgrade", "3 nodes, A becomes a reader, B writes")
        },
        Settings {
            attempts: vec![1, 1, 1],
            sharing: vec![2],
            tickets: Tickets::Fixed(vec![vec![1], vec![3], vec![2]]),
            ..queued(three(
                "queue-n3-downgrade-queued",
                "3 nodes, A becomes a reader while B waits to write, C reads",
            ))
        },
        Settings {
            breaks: 1,
            ..queued(three(
                "queue-n3-downgrade-lost",
                "3 nodes, A becomes a reader while B waits to write, a break",
            ))
        },
        bug(one("queue-n1-bug-downgrade", "a bug: a downgrade admits the next writer, 1 node")),
        bug(three("queue-n3-bug-downgrade", "a bug: a downgrade admits the next writer, 3 nodes")),
    ]
}

fn small_with_time() -> Vec<Settings> {
    vec![
        Settings {
            timeouts: vec![1, 1],
            renewals: 1,
            ..Settings::timed("queue-t1", "1 node, clocks, timers, a renewal", 1)
        },
        Settings::timed("queue-t2", "2 nodes, clocks", 2),
    ]
}

/// Minutes each; with several gigabytes of memory.
fn large() -> Vec<Settings> {
    let one = |name, what| Settings::queue(name, what, 1);
    let three = |name, what| Settings::queue(name, what, 3);
    let any = |tickets: &[u8]| Tickets::Any(tickets.to_vec());
    vec![
        Settings {
            attempts: vec![1, 1, 1],
            breaks: 1,
            cancels: 1,
            deaths: 1,
            ..one("queue-n1-three", "1 node, 3 clients, a break, a caller cancels, a crash")
        },
        Settings {
            attempts: vec![2, 1],
            tickets: any(&[1, 2, 3]),
            breaks: 1,
            cancels: 1,
            lapses: 1,
            timeouts: vec![1, 1],
            ..one(
                "queue-n1-twice",
                "1 node, A twice, any tickets, a break, a cancel, an expired session, timers",
            )
        },
        Settings {
            tickets: any(&[1, 2]),
            breaks: 1,
            ..three("queue-n3-break", "3 nodes, any tickets, a break")
        },
        Settings {
            tickets: any(&[1, 2]),
            breaks: 1,
            is_unordered: true,
            ..three("queue-n3-break-unordered", "the same, pushes and replies overtake each other")
        },
        Settings {
            breaks: 1,
            timeouts: vec![1, 0],
            ..three("queue-n3-break-timer", "3 nodes, a break, a timer")
        },
        Settings {
            cancels: 1,
            deaths: 1,
            ..three("queue-n3-ends", "3 nodes, a caller cancels, a crash")
        },
        Settings::queue("queue-n5", "5 nodes", 5),
        Settings {
            breaks: 1,
            timeouts: vec![0, 1],
            has_progress: false,
            mutant: Some(Mutant::YieldAnyGrant),
            expected: Expected::Broken(KEPT_GRANTS),
            ..three("queue-bug-yield", "a bug: a late yield gives back a newer grant")
        },
    ]
}

/// Where nodes forget, only fences and progress are promised, not exclusion.
fn large_that_forget() -> Vec<Settings> {
    let three = |name, what| Settings::queue(name, what, 3);
    vec![
        Settings {
            vanishings: 1,
            breaks: 1,
            ..three("queue-n3-break-vanish", "3 nodes, a break, a key vanishes")
        },
        Settings {
            tickets: Tickets::Any(vec![1, 2]),
            fences: vec![0, 1, 2],
            vanishings: 1,
            ..three("queue-n3-vanish-any", "3 nodes with any fences, any tickets, a key vanishes")
        },
        Settings {
            fences: vec![0, 1],
            vanishings: 2,
            ..three("queue-n3-vanish-twice", "3 nodes with any fences, 2 keys vanish")
        },
        Settings {
            vanishings: 2,
            renewals: 1,
            ..three("queue-n3-heal-twice", "3 nodes, 2 keys vanish, a renewal")
        },
        Settings {
            attempts: vec![2, 1],
            tickets: Tickets::Fixed(vec![vec![1, 3], vec![2]]),
            vanishings: 1,
            ..three("queue-n3-twice", "3 nodes, A twice, a key vanishes")
        },
    ]
}

/// Rows in which several clients may hold the lock together.
fn large_that_share() -> Vec<Settings> {
    let three = |name, what| Settings::queue(name, what, 3);
    vec![
        Settings {
            sharing: vec![1],
            vanishings: 1,
            renewals: 1,
            ..three(
                "queue-n3-shared-heal",
                "3 nodes, A writes before B reads, a key vanishes, a renewal",
            )
        },
        Settings {
            attempts: vec![1, 1, 1],
            entries: vec![0, 2],
            beginning: Beginning::Queued,
            breaks: 1,
            ..three(
                "queue-n3-entries-break",
                "3 nodes, an entry holds, a stranger waits, an entry comes, a break",
            )
        },
        Settings {
            downgrades: vec![0],
            breaks: 1,
            ..three("queue-n3-downgrade-break", "3 nodes, A becomes a reader, B writes, a break")
        },
        Settings {
            attempts: vec![1, 1, 1],
            sharing: vec![2],
            tickets: Tickets::Fixed(vec![vec![1], vec![3], vec![2]]),
            downgrades: vec![0],
            beginning: Beginning::Queued,
            breaks: 1,
            ..three(
                "queue-n3-downgrade-three",
                "3 nodes, A becomes a reader while B waits to write, C reads, a break",
            )
        },
    ]
}

fn large_with_time() -> Vec<Settings> {
    let timed = |name, what, nodes| Settings::timed(name, what, nodes);
    vec![
        Settings {
            attempts: vec![1, 2],
            tickets: Tickets::Any(vec![1, 2, 3]),
            timeouts: vec![1, 1],
            ..timed("queue-t1-twice", "1 node, clocks, B twice, any tickets, timers", 1)
        },
        Settings {
            timeouts: vec![1, 0],
            renewals: 1,
            ..timed("queue-t2-renew", "2 nodes, clocks, a timer, a renewal", 2)
        },
        Settings { breaks: 1, ..timed("queue-t2-break", "2 nodes, clocks, a break", 2) },
        timed("queue-t3", "3 nodes, clocks", 3),
    ]
}
