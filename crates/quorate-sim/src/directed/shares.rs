//! Schedules for those who hold a lock together, on one node.

use quorate_core::{
    command::{ClientId, Command, Owner, Stay},
    line::{Ask, Place, Session, Speaker},
    quorum::Vote,
    store::Store,
};

use super::{name, node_time};

/// One who shares the lock for 100 ms dies, another shares it for a second, and somebody waits who
/// wants it alone. After 150 ms the second one goes.
///
/// # Errors
///
/// If the one who waits does not have the lock then: nobody holds it any more.
pub fn those_whose_time_is_over_keep_nobody_out() -> Result<(), String> {
    let mut node = Store::new();
    let ask = |node: &mut Store, number: u8, ttl_ms: u64, owner: fn(&Place, u64) -> Owner| {
        let client = ClientId::from_random([number; 20]);
        let speaker = Speaker { client, session: Session::from_random(1) };
        node.listen(client);
        node.apply(node_time(0), &Command::Attach { speaker, stay: Stay::unguarded(5_000) });
        let owner = owner(&Place { ticket: number.into(), ttl_ms, client }, 1);
        let ask = Ask { name: name(), owner: owner.clone(), is_waiting: true, is_known: false };
        node.apply(node_time(1), &Command::Acquire { speaker, ask });
        owner
    };
    ask(&mut node, 1, 100, Place::shared_owner);
    let second = ask(&mut node, 2, 1_000, Place::shared_owner);
    let alone = ask(&mut node, 3, 1_000, Place::owner);
    let release = Command::Release { name: name(), owner: second, yields: None };
    node.apply(node_time(150), &release);
    let check = Command::Check { name: name(), owner: alone };
    let reply = node.apply(node_time(151), &check);
    match check.vote(&reply) {
        Vote::Grant => Ok(()),
        Vote::Refuse | Vote::Unknown => {
            Err("a part that is over keeps the lock from one who waits".to_owned())
        }
    }
}
