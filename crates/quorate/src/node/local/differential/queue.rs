//! The same comparison for commands of the queue.

#[expect(dead_code, reason = "tests of servers use the rest")]
#[path = "../../../../tests/it/differential/queue/draw.rs"]
mod draw;

use std::collections::BTreeMap;

use quorate_core::{
    backoff::Jitter,
    command::{ClientId, Command, Reply},
    queue::{PushKind, is_shared},
    store::Store,
};

use self::draw::Draw;
use super::{Local, Memory, SEED, START, Step, ends_in_ms, later, storable};

#[test]
fn twenty_thousand_random_commands_of_the_queue_do_what_the_store_does() {
    let mut draw = Draw::new(Jitter::new(SEED), Memory::Enough);
    let clients: Vec<ClientId> = draw.callers.iter().map(|caller| caller.client).collect();
    let mut node = Local::new(draw.all_names(), clients);
    let mut store = Store::new();
    let mut now = START;
    let mut counts = BTreeMap::new();
    for _ in 0..1_400 {
        let mut ends = ends_in_ms(&store, now, &draw.names);
        let sessions = draw.callers.iter().map(|it| it.session_ends_at_ms);
        ends.extend(sessions.filter_map(|end| end.checked_sub(now.as_millis())));
        now = later(now, draw.pause_ms(&ends));
        for at in 0..draw.callers.len() {
            let client = draw.callers[at].client;
            if draw.callers[at].connection.is_none() && draw.is_heads() {
                node.listen(client);
                store.subscribe(client);
                draw.callers[at].connection = Some(0);
            }
        }
        let steps = draw.batch(store.clone(), now);
        let steps: Vec<Step> = steps.into_iter().map(storable).collect();
        let replies = node.run(now, &steps);
        let mut expected = Vec::new();
        for (step, reply) in steps.iter().zip(replies) {
            assert_eq!(reply, step.apply(&mut store, now), "{step:?}, seed {SEED}");
            *counts.entry(kind(step, reply.as_ref())).or_insert(0) += 1;
            expected.extend(store.take_pushes());
            if let Step::Ask(command) = step
                && let Command::Attach { sender, terms } | Command::Ping { sender, terms } = command
                && let Some(Reply::Attached { time_us }) = reply
            {
                let its = draw.callers.iter_mut().filter(|it| it.client == sender.client);
                its.for_each(|it| {
                    it.answered_us = time_us;
                    it.session_ends_at_ms = time_us / 1_000 + terms.lifetime_ms;
                });
            }
        }
        // A client that leaves during a batch does not receive all pushes.
        let has_left = steps.iter().any(|step| matches!(step, Step::HangUp { .. }));
        let received = std::mem::take(&mut node.received);
        assert!(received == expected || has_left, "{received:?} {expected:?}, seed {SEED}");
        received.iter().for_each(|push| *counts.entry(push_kind(push.kind)).or_insert(0) += 1);
        node.compare(now, &store);
    }
    for kind in ["granted", "queued", "stale", "released", "refused", "pushed a grant", "inquired"]
    {
        let count = counts.get(kind).copied().unwrap_or(0);
        assert!(count > 100, "{kind} came {count} times only: {counts:?}");
    }
    let downgraded = counts.get("downgraded").copied().unwrap_or(0);
    assert!(downgraded > 20, "{downgraded} became readers only: {counts:?}");
}

fn kind(step: &Step, reply: Option<&Reply>) -> &'static str {
    match (step, reply) {
        (_, Some(Reply::Granted { .. })) => "granted",
        (_, Some(Reply::Queued { .. })) => "queued",
        (_, Some(Reply::Stale)) => "stale",
        (Step::Ask(Command::Adopt { from, owner, .. }), Some(Reply::Stored))
            if is_shared(owner) && !is_shared(from) =>
        {
            "downgraded"
        }
        (_, Some(Reply::Released { is_ours: true })) => "released",
        (_, Some(Reply::Released { is_ours: false })) => "refused",
        _ => "another",
    }
}

const fn push_kind(kind: PushKind) -> &'static str {
    match kind {
        PushKind::Granted => "pushed a grant",
        PushKind::Inquired => "inquired",
    }
}
