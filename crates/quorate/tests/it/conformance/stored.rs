//! What is stored on a real server, and servers that have forgotten our scripts.

use std::{collections::BTreeSet, time::Duration};

use quorate_testkit::{Server, redis::cmd};

use super::fixture::{ALL, Fixture, LONG, on_servers_in_both_modes, take};
use crate::mode::Mode;

#[test]
fn stored_value_leads_to_the_name_of_the_client() {
    on_servers_in_both_modes(&ALL, async |fixture| {
        let client = fixture.client("cron/db1/4711").await;
        let guard = take(client.mutex("a")).await;
        fixture.wait_until_only("a", fixture.all());
        let values: BTreeSet<_> = fixture.servers().iter().filter_map(|it| it.get("a")).collect();
        assert_eq!(values.len(), 1, "one owner on all nodes: {values:?}");
        for server in fixture.servers() {
            let left = server.pttl("a");
            assert!(left > 0 && left <= i64::try_from(LONG.as_millis()).unwrap(), "{left}");
            let owner = Owner::of(fixture, server, "a");
            assert_eq!(owner.client.len(), 40);
            assert!(owner.client.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
            assert_eq!(owner.who, "cron/db1/4711");
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn no_owner_is_used_twice() {
    on_servers_in_both_modes(&[1], async |fixture| {
        let server = &fixture.servers()[0];
        let mut owners = BTreeSet::new();
        let mut clients = BTreeSet::new();
        for _ in 0..10 {
            // Their readable parts are the same.
            let client = fixture.client("twin").await;
            for _ in 0..10 {
                let guard = take(client.mutex("a")).await;
                let owner = Owner::of(fixture, server, "a");
                assert!(owners.insert((owner.client.clone(), owner.number)), "used twice");
                clients.insert(owner.client);
                guard.release().await.unwrap();
            }
        }
        assert_eq!((owners.len(), clients.len()), (100, 10));
    });
}

#[test]
fn lost_scripts_are_sent_again_after_a_connect() {
    on_servers_in_both_modes(&ALL, async |fixture| {
        let client = fixture.client("alice").await;
        let guard = take(client.mutex("a")).await;
        fixture.wait_until_only("a", fixture.all());
        fixture.servers().iter().for_each(flush_scripts);
        guard.extend(LONG).await.unwrap();
        fixture.servers().iter().for_each(flush_scripts);
        guard.verify().await.unwrap();
        fixture.servers().iter().for_each(flush_scripts);
        assert!(client.mutex("a").lock_timeout(Duration::ZERO).await.is_err());
        fixture.servers().iter().for_each(flush_scripts);
        guard.release().await.unwrap();
        fixture.wait_until_empty(fixture.all());
    });
}

/// The undo reaches a server without scripts: a tie leaves nothing even then.
#[test]
fn undo_works_on_a_server_without_scripts() {
    on_servers_in_both_modes(&[2, 4], async |fixture| {
        let client = fixture.client("alice").await;
        let half = fixture.len() / 2;
        (0..half).for_each(|node| fixture.plant(node, "a", b"another's"));
        fixture.servers().iter().for_each(flush_scripts);
        assert!(client.mutex("a").try_lock().await.unwrap().is_none());
        fixture.wait_until_empty(half..fixture.len());
    });
}

fn flush_scripts(server: &Server) {
    let mut connection = server.connection();
    cmd("SCRIPT").arg("FLUSH").exec(&mut connection).expect("the scripts are gone");
}

/// The parts of a stored value.
struct Owner {
    client: String,
    number: u64,
    who: String,
}

impl Owner {
    fn of(fixture: &Fixture, server: &Server, name: &str) -> Self {
        let text = |value: Option<Vec<u8>>| {
            String::from_utf8(value.expect("the key is there")).expect("it is text")
        };
        let value = text(server.get(name));
        match fixture.mode() {
            Mode::Queue => {
                let mut owner = Self::queued(&value);
                owner.who = text(server.get(format!("quorate:w:{}", owner.client)));
                owner
            }
            Mode::Classic => Self::classic(&value),
        }
    }

    /// What a node has to know about an owner that may wait.
    fn queued(text: &str) -> Self {
        let parts: Vec<&str> = text.split(':').collect();
        let ["q1", ticket, ttl_ms, client, number] = parts[..] else {
            panic!("an owner in the queue has five parts: {text}");
        };
        assert_eq!(ticket.len(), 16, "tickets are compared as text: {text}");
        assert!(ticket.bytes().all(|byte| byte.is_ascii_digit()), "{text}");
        assert_eq!(ttl_ms.parse().map(Duration::from_millis), Ok(LONG));
        let (number, secret) = number.split_once('.').expect("it cannot be guessed");
        assert_eq!(secret.len(), 16, "{text}");
        assert!(u64::from_str_radix(secret, 16).is_ok(), "{text}");
        let number = number.parse().expect("a number");
        Self { client: client.into(), number, who: String::new() }
    }

    /// The value itself names the owner: others read it, too.
    fn classic(text: &str) -> Self {
        let (id, who) = text.split_once('@').expect("there is a readable part");
        let (client, number) = id.split_once(':').expect("there is a number");
        let number = number.parse().expect("a number");
        Self { client: client.into(), number, who: who.into() }
    }
}
