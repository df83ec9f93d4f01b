//! A writer that becomes a reader.

use super::*;
use crate::queue::is_shared;

/// A lease that is being downgraded, and the commands that were sent for it.
fn downgrade(client: &mut Client<Numbers>) -> (LeaseId, CallId, Vec<(usize, Transmit)>) {
    let (_, lease) = hold(client, "a");
    let call = client.downgrade(lease, &patience, at(100)).expect("it is held");
    let sent = (0..NODES).flat_map(|node| sent(client, node).into_iter().map(move |it| (node, it)));
    (lease, call, sent.collect())
}

fn answer(client: &mut Client<Numbers>, to: &(usize, Transmit), reply: &Reply, now: Moment) {
    let (node, Transmit { about, command }) = to;
    client.handle_answer(*node, (about, command), Some(reply), now);
}

fn releases(client: &mut Client<Numbers>) -> Vec<(usize, Owner)> {
    let mut found = Vec::new();
    for node in 0..NODES {
        for Transmit { command, .. } in sent(client, node) {
            for command in command.entries() {
                let Command::Release { owner, yields: None, .. } = command else {
                    panic!("{command:?}")
                };
                found.push((node, owner.clone()));
            }
        }
    }
    found
}

#[test]
fn a_downgraded_lease_is_held_by_the_reader_with_the_first_majority() {
    let mut client = client();
    let (lease, call, asked) = downgrade(&mut client);
    let writer = client.lease(lease).expect("it is held").owner().clone();
    for (_, Transmit { command, .. }) in &asked {
        let Command::Adopt { from, owner, sender: Some(_), .. } = command else {
            panic!("{command:?}")
        };
        assert!(*from == writer && is_shared(owner));
    }
    answer(&mut client, &asked[0], &Reply::Stored, at(110));
    assert_eq!(client.take_outcome(call), None, "one node of three");
    client.check(lease, at(110)).expect("it is held all the time");
    answer(&mut client, &asked[1], &Reply::Stored, at(120));
    assert!(client.take_outcome(call).is_some());
    let reader = client.keep_reader(call, lease, &patience, at(120)).expect("it was held");
    let held = client.lease(reader).expect("it is held");
    assert!(is_shared(held.owner()) && held.renewal() == Renewal::On);
    // It ends one ttl after the request.
    assert_eq!(held.lease().valid_until(), at(3_100));
    assert!(client.lease(lease).is_none());
    // The writer is released on all nodes, even where the reply is still in transit.
    let expected: Vec<_> = (0..NODES).map(|node| (node, writer.clone())).collect();
    assert_eq!(releases(&mut client), expected);
    client.close_call(call);
}

#[test]
fn a_downgraded_lease_keeps_its_limit_and_renewal() {
    let mut client = client();
    let call = client.acquire(want("a", WAIT), at(0));
    answer_all(&mut client, &granted(5), at(1));
    assert!(client.take_outcome(call).is_some());
    let hold = Hold { renewal: Renewal::Off, until: at(2_000) };
    let lease = client.keep(call, hold, at(1)).expect("it is held");
    client.close_call(call);
    let call = client.downgrade(lease, &patience, at(100)).expect("it is held");
    answer_all(&mut client, &Reply::Stored, at(110));
    assert!(client.take_outcome(call).is_some());
    let reader = client.keep_reader(call, lease, &patience, at(110)).expect("it was held");
    let held = client.lease(reader).expect("it is held");
    assert_eq!((held.lease().valid_until(), held.renewal()), (at(2_000), Renewal::Off));
}

#[test]
fn a_lease_is_not_renewed_during_a_downgrade() {
    let mut client = client();
    let (lease, _, _) = downgrade(&mut client);
    client.renew(&[lease], &patience, at(101));
    client.handle_recovering(0, &patience, at(102));
    assert!((0..NODES).all(|node| sent(&mut client, node).is_empty()));
}

/// Another owner may have held the lock in between.
#[test]
fn a_downgrade_after_the_end_of_the_lease_releases_the_reader() {
    let mut client = client();
    let (lease, call, asked) = downgrade(&mut client);
    asked.iter().for_each(|one| answer(&mut client, one, &Reply::Stored, at(120)));
    let Command::Adopt { owner: reader, .. } = &asked[0].1.command else { panic!("no adoption") };
    assert!(client.take_outcome(call).is_some());
    let kept = client.keep_reader(call, lease, &patience, at(3_000));
    assert_eq!(kept, Err(LostReason::Expired));
    client.close_call(call);
    let expected: Vec<_> = (0..NODES).map(|node| (node, reader.clone())).collect();
    assert_eq!(releases(&mut client), expected);
    client.release(lease, &patience, at(3_000)).expect("its guard is dropped once");
    assert!(!client.knows_owners());
}

#[test]
fn a_caller_that_leaves_a_downgrade_releases_both_owners() {
    for answered in 0..=NODES {
        let mut client = client();
        let (lease, call, asked) = downgrade(&mut client);
        let writer = client.lease(lease).expect("it is held").owner().clone();
        asked[..answered].iter().for_each(|one| answer(&mut client, one, &Reply::Stored, at(120)));
        client.abandon(call, at(130));
        let release = client.release(lease, &patience, at(130)).expect("its guard is dropped once");
        client.close_call(release);
        let released = releases(&mut client);
        for node in 0..NODES {
            let of_node = released.iter().filter(|(at, _)| *at == node);
            let owners: Vec<_> = of_node.map(|(_, owner)| owner).collect();
            assert!(owners.contains(&&writer), "{answered} answers");
            assert!(owners.iter().any(|owner| is_shared(owner)), "{answered} answers");
        }
        assert!(!client.knows_owners(), "{answered} answers");
    }
}
