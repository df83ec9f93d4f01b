//! Reports about locks: their holders, since when they hold, and who waits.

use std::time::{Duration, Instant};

use quorate::{
    Client, Guard,
    inspect::{LockReport, Observation},
};
use quorate_testkit::redis::pipe;
use tokio::{task::JoinSet, time::timeout};

use super::fixture::{Fixture, LONG, PATIENCE, SHORT, on_memory, on_servers, take};
use crate::mode::Mode;

on_every_engine! {
    [1, 3, 5] => lock_without_a_holder_is_free,
        report_names_the_holder,
        foreign_holder_is_distinguished_from_ours,
        expired_lock_is_reported_as_free;
}

async fn lock_without_a_holder_is_free(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let report = client.inspect("a").await.expect("every node answers");
    assert_eq!((&*report.name, report.holder.as_ref(), report.votes), ("a", None, 0));
    assert_eq!((report.waiting.len(), report.waiting_total), (0, 0));
    assert!(!report.is_held());
    assert_eq!(report.nodes.len(), fixture.len());
    assert!(report.nodes.iter().all(|view| view.observation == Observation::Free));
    assert_eq!(report.to_string(), "a: free");
    let list = client.locks("").all().await.expect("every node answers");
    assert!(list.is_complete && list.locks.is_empty(), "{list:?}");
    for bad in ["", "quorate:x", "a\nb"] {
        assert!(client.inspect(bad).await.is_err(), "{bad:?}");
    }
}

async fn report_names_the_holder(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice/1").await, fixture.client("bob/2").await);
    let before = Instant::now();
    let guard = take(alice.mutex("a")).await;
    // A lock is held before the last node has answered.
    let report = inspect_until(&bob, "a", |report| report.votes == fixture.len()).await;
    let holder = report.holder.clone().expect("alice");
    assert!(report.is_held());
    assert_eq!((&*holder.who, holder.is_foreign, holder.is_this_client), ("alice/1", false, false));
    let digits = holder.owner_prefix.as_deref().expect("it is one of ours");
    assert!(digits.len() == 8 && digits.bytes().all(|it| it.is_ascii_hexdigit()), "{digits}");
    assert!(holder.expires_in.is_some_and(|left| left <= LONG), "{holder:?}");
    assert_eq!(holder.fence, guard.fence());
    let is_line = fixture.mode() == Mode::Queue;
    assert_eq!(holder.held_for.is_some(), is_line, "{holder:?}");
    // Servers count in whole milliseconds.
    let elapsed = before.elapsed() + Duration::from_millis(2);
    assert!(holder.held_for.unwrap_or_default() <= elapsed, "{holder:?}");
    for view in &report.nodes {
        assert!(
            matches!(&view.observation, Observation::Held(it) if it.who == "alice/1"),
            "{view}"
        );
    }
    for server in fixture.servers() {
        let owner = String::from_utf8(server.get("a").expect("alice's")).expect("it is text");
        assert!(!format!("{report:?}{report}").contains(&owner), "it would allow a release");
    }
    let own = alice.inspect("a").await.expect("every node answers");
    assert!(own.holder.expect("alice").is_this_client);

    // In classic mode nodes store nothing by which a lock could be found.
    let list = bob.locks("").all().await.expect("every node answers");
    assert_eq!(names(&list.locks), if is_line { vec!["a"] } else { vec![] });
    guard.release().await.expect("it is held");
    fixture.wait_until_empty(fixture.all());
    assert_eq!(bob.inspect("a").await.expect("every node answers").to_string(), "a: free");
    assert_eq!(bob.locks("").all().await.expect("every node answers").locks, []);
}

/// This holds even while the record of an earlier Quorate holder exists.
async fn foreign_holder_is_distinguished_from_ours(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    take(client.mutex("a")).await.release().await.expect("it is held");
    fixture.wait_until_empty(fixture.all());
    fixture.all().for_each(|node| fixture.plant(node, "a", b"redlock\n"));
    let report = client.inspect("a").await.expect("every node answers");
    assert_eq!(report.votes, fixture.len());
    let holder = report.holder.as_ref().expect("another program");
    assert_eq!((&*holder.who, holder.is_foreign), (r"redlock\n", true));
    assert_eq!((holder.fence, holder.held_for, holder.expires_in), (None, None, None));
    assert_eq!((holder.owner_prefix.as_deref(), holder.is_this_client), (None, false));
    let shown = r"a: held by redlock\n (not a lock of Quorate), never expires";
    assert_eq!(report.to_string(), shown);
    let listed = client.locks("").all().await.expect("every node answers").locks;
    assert_eq!(listed, if fixture.mode() == Mode::Queue { vec![report] } else { vec![] });
}

async fn expired_lock_is_reported_as_free(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a").ttl(SHORT).no_renew()).await;
    guard.leave_to_expire();
    inspect_until(&client, "a", |report| report.holder.is_none()).await;
    assert_eq!(client.locks("").all().await.expect("every node answers").locks, []);
}

#[test]
fn waiters_are_notified_in_order() {
    on_memory(&[1, 3, 5], waiting_owners);
    on_servers(&[1, 3, 5], waiting_owners);
}

async fn waiting_owners(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let (bob, carol) = (fixture.client("bob").await, fixture.client("carol").await);
    let guard = take(alice.mutex("a")).await;
    let started = Instant::now();
    let mut waiters = JoinSet::new();
    for (number, client) in [&bob, &carol, &bob].into_iter().enumerate() {
        let mutex = client.mutex("a");
        waiters.spawn(async move { mutex.lock().await.expect("its turn") });
        inspect_until(&alice, "a", |report| report.waiting.len() == number + 1).await;
    }
    let report = carol.inspect("a").await.expect("every node answers");
    // Whose ticket is the earliest is not certain: clients know the nodes' time up to a round trip.
    let whos: Vec<_> = report.waiting.iter().map(|it| &*it.who).collect();
    let place = whos.iter().position(|who| *who == "carol");
    assert!(whos.len() == 3 && place.is_some(), "{whos:?}");
    assert_eq!((report.waiting_total, report.place_of_this_client()), (3, place));
    let ours = report.waiting.iter().position(|it| it.is_this_client);
    assert_eq!(ours, place, "{whos:?}");
    let times: Vec<Duration> = report.waiting.iter().map(|it| it.waiting_for).collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
    assert!(times[0] <= started.elapsed() + Duration::from_secs(1), "{times:?}");
    assert!(report.to_string().ends_with(", 3 waiting"), "{report}");
    let listed = carol.locks("").all().await.expect("every node answers").locks;
    assert_eq!((listed[0].waiting_total, listed[0].waiting.len()), (3, 0), "{listed:?}");

    guard.release().await.expect("it is held");
    let next = inspect_until(&alice, "a", |report| report.waiting.len() == 2).await;
    assert_eq!(next.holder.expect("the first waiter").who, whos[0]);
    for _ in 0..3 {
        let waited = timeout(PATIENCE, waiters.join_next()).await.expect("it has an end");
        drop(waited.expect("three of them").expect("no panic"));
    }
}

#[test]
fn names_with_signs_of_patterns_are_listed_unchanged() {
    on_memory(&[1, 3], strange_names);
    on_servers(&[1, 3], strange_names);
}

async fn strange_names(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let all = ["a", "a*", "a?b", "a[x]", "a\\", "ab", "a{b}", "a}", "größe 鎖", "x", "x^-]"];
    let mut guards = Vec::new();
    for name in all {
        guards.push(take(client.mutex(name)).await);
    }
    let list =
        async |prefix: &str| client.locks(prefix).all().await.expect("every node answers").locks;
    assert_eq!(names(&list("").await), all);
    for prefix in ["a*", "a?", "a[", "a\\", "a{", "a}", "größe", "x^", "a", "", "[", "*", "A", "\n"]
    {
        let meant: Vec<&str> = all.into_iter().filter(|it| it.starts_with(prefix)).collect();
        assert_eq!(names(&list(prefix).await), meant, "{prefix:?}");
    }
}

#[test]
fn many_locks_are_listed_page_by_page() {
    on_memory(&[1, 3], many_locks);
    on_servers(&[1, 3], many_locks);
}

/// Many of them, and on servers among many keys of others.
async fn many_locks(fixture: &Fixture) {
    const LOCKS: usize = 1_100;
    const OTHERS: usize = 3_000;
    for server in fixture.servers() {
        let mut planting = pipe();
        (0..OTHERS).for_each(|number| {
            planting.cmd("SET").arg(format!("other:{number}")).arg(1);
        });
        planting.exec(&mut server.connection()).expect("the server stores them");
    }
    let client = fixture.client("alice").await;
    let wanted: Vec<String> = (0..LOCKS).map(|number| format!("lock:{number:04}")).collect();
    let tasks: Vec<_> = wanted.iter().map(|name| tokio::spawn(take(client.mutex(name)))).collect();
    let mut guards: Vec<Guard> = Vec::new();
    for task in tasks {
        guards.push(task.await.expect("no panic"));
    }
    let list = client.locks("lock:").all().await.expect("every node answers");
    assert!(list.is_complete, "{:?}", list.nodes);
    assert_eq!(names(&list.locks), wanted);
    assert!(list.locks.iter().all(|lock| lock.is_held() && lock.holder.is_some()));
    assert_eq!(client.locks("lock:10").all().await.expect("every node answers").locks.len(), 100);
}

/// Asks until the report is as it should be.
async fn inspect_until(
    client: &Client,
    name: &str,
    is_so: impl Fn(&LockReport) -> bool,
) -> LockReport {
    let started = Instant::now();
    loop {
        let report = client.inspect(name).await.expect("every node answers");
        if is_so(&report) {
            return report;
        }
        assert!(started.elapsed() < PATIENCE, "{report}\n{report:?}");
        tokio::task::yield_now().await;
    }
}

fn names(locks: &[LockReport]) -> Vec<&str> {
    locks.iter().map(|lock| &*lock.name).collect()
}
