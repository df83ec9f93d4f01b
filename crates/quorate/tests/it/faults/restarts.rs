//! Servers that restart empty.

use quorate::error::{LostReason, VerifyError};
use quorate_testkit::Server;

use super::fixture::{PATIENCE, ProxyFixture, connect_to_all, wait_until_attached};
use crate::links::executor::block_on;

#[test]
fn minority_that_restarts_empty_does_not_end_a_lease() {
    let fixture = ProxyFixture::start(5);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    for server in &fixture.servers[..2] {
        server.restart_empty();
        block_on(guard.verify()).unwrap();
        wait_until_attached(&client);
        block_on(guard.verify()).unwrap();
    }
    let rival = connect_to_all(fixture.direct());
    assert!(block_on(rival.mutex(NAME).try_lock()).unwrap().is_none());
    block_on(guard.release()).unwrap();
    fixture.wait_until_empty("of the rival's undone attempt and of the released lock");
}

#[test]
fn majority_that_restarts_empty_ends_a_lease() {
    let fixture = ProxyFixture::start(5);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    fixture.servers[..3].iter().for_each(Server::restart_empty);
    wait_until_attached(&client);
    let verified = block_on(guard.verify());
    let Err(VerifyError::Lost(lost)) = verified else {
        panic!("expected a lost lock, got {verified:?}");
    };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(guard.check().unwrap_err().reason, LostReason::Gone);
    drop(guard);
    fixture.wait_until_empty("a lost guard still deletes its keys");
}

#[test]
fn client_recovers_by_itself_after_all_servers_were_restarted() {
    let fixture = ProxyFixture::start(5);
    let client = connect_to_all(fixture.direct());
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    fixture.servers.iter().for_each(Server::kill);
    assert!(block_on(client.mutex(NAME).try_lock()).is_err());
    fixture.servers.iter().for_each(Server::restart);
    let guard = block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap();
    block_on(guard.verify()).unwrap();
    wait_until_attached(&client);
    block_on(guard.release()).unwrap();
    fixture.wait_until_empty("after the release");
}

#[test]
fn servers_that_keep_their_data_keep_the_lock_over_a_restart() {
    let servers = Server::builder().append_only().start_many(3);
    let client = connect_to_all(
        quorate::Client::builder().quarantine(false).nodes(servers.iter().map(Server::url)),
    );
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    servers.iter().for_each(Server::restart);
    wait_until_attached(&client);
    block_on(guard.verify()).unwrap();
    block_on(guard.release()).unwrap();
    assert!(servers.iter().all(|server| server.lock_keys().is_empty()));
}

const NAME: &str = "orders:42";
