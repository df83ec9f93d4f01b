//! Links that lose replies, break in the middle of one, or are reset.

use quorate::error::LockError;
use quorate_testkit::{Fault, eventually};

use super::fixture::{PATIENCE, ProxyFixture, wait_until_attached};
use crate::{links::executor::block_on, mode::Mode};

in_both_modes! {
    replies_lost_by_a_minority_leave_no_key,
    replies_lost_by_a_majority_leave_no_key,
    link_cut_at_any_byte_of_a_reply_reconnects,
    minority_cut_in_mid_reply_fails_no_call,
    locks_work_on_after_all_links_were_reset,
    orderly_close_by_every_server_only_causes_reconnects,
}

fn replies_lost_by_a_minority_leave_no_key(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 5);
    let client = fixture.connect();
    fixture.set(&[0, 4], Fault::DropReplies);
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    // Still without replies: the release went out on the same connection, behind the attempt.
    fixture.wait_until_undone(1);

    fixture.repair(&[0, 4]);
    wait_until_attached(&client);
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
    assert!(fixture.is_empty());
}

fn replies_lost_by_a_majority_leave_no_key(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 5);
    let client = fixture.connect();
    fixture.set(&[0, 2, 4], Fault::DropReplies);
    let called = block_on(client.mutex(NAME).try_lock());
    let Err(LockError::NoQuorum { nodes, .. }) = called else {
        panic!("expected no majority, got {called:?}");
    };
    let texts: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    for (node, text) in texts.iter().enumerate() {
        let expected = if node % 2 == 0 { ": timed out" } else { ": granted" };
        assert!(text.ends_with(expected), "{text}");
    }
    fixture.wait_until_undone(1);

    fixture.repair(&[0, 2, 4]);
    wait_until_attached(&client);
    drop(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap());
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
    assert!(fixture.is_empty());
}

fn link_cut_at_any_byte_of_a_reply_reconnects(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 1);
    // Up to the end of the reply to the release, with some of it behind.
    for bytes in 0..=(grant_len(mode) + NUMBER_LEN + 1) {
        // A client of its own for each, since one whose links break again and again waits longer.
        let client = fixture.connect();
        let mutex = client.mutex(NAME);
        fixture.set(&[0], Fault::CutAfter { bytes });
        let called = block_on(mutex.try_lock());
        // Only a complete reply is a grant.
        assert!(called.is_err() || bytes >= grant_len(mode), "{bytes} bytes: {called:?}");
        // On a slow machine the answer to a ping may come first.
        let is_sure = mode == Mode::Classic && bytes >= grant_len(mode);
        assert!(called.is_ok() || !is_sure, "{bytes} bytes: {called:?}");
        drop(called);
        fixture.wait_until_empty("the undo is sent again on the next connection");

        fixture.set(&[0], Fault::Pass);
        wait_until_attached(&client);
        block_on(block_on(mutex.lock_timeout(PATIENCE)).unwrap().release()).unwrap();
    }
}

fn minority_cut_in_mid_reply_fails_no_call(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    for bytes in 0..=(grant_len(mode) + NUMBER_LEN) {
        let client = fixture.connect();
        let mutex = client.mutex(NAME);
        let node = usize::try_from(bytes % 3).expect("a small number");
        fixture.set(&[node], Fault::CutAfter { bytes });
        let guard = block_on(mutex.lock_timeout(PATIENCE)).unwrap();
        guard.check().unwrap();
        block_on(guard.release()).unwrap();
        fixture.wait_until_empty("the release is sent again on the next connection");
        fixture.set(&[node], Fault::Pass);
    }
}

fn locks_work_on_after_all_links_were_reset(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 5);
    let client = fixture.connect();
    let guard = block_on(client.mutex("held").lock()).unwrap();
    for _ in 0..3 {
        fixture.set(&ALL, Fault::Reset);
        eventually("the client has noticed", PATIENCE, || {
            matches!(block_on(client.mutex(NAME).try_lock()), Err(LockError::NoQuorum { .. }))
        });
        fixture.set(&ALL, Fault::Pass);
        wait_until_attached(&client);
        block_on(guard.verify()).unwrap();
        block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    }
    block_on(guard.release()).unwrap();
    fixture.wait_until_empty("after the last release");
}

fn orderly_close_by_every_server_only_causes_reconnects(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 5);
    let client = fixture.connect();
    for _ in 0..5 {
        let guard = block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap();
        fixture.proxies.iter().for_each(quorate_testkit::Proxy::close_all);
        drop(guard);
        fixture.wait_until_empty("a release that met no connection is sent on the next one");
    }
}

const ALL: [usize; 5] = [0, 1, 2, 3, 4];
const NAME: &str = "orders:42";

/// The length of a grant: a fence of 16 digits behind its length, or `+OK`; with ends of lines.
const fn grant_len(mode: Mode) -> u64 {
    match mode {
        Mode::Queue => 5 + 18,
        Mode::Classic => 5,
    }
}

/// The length of `:1` with its line break.
const NUMBER_LEN: u64 = 4;
