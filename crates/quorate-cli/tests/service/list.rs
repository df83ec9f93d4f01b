//! Lists of locks.

use std::{collections::BTreeSet, thread};

use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn following_the_cursor_yields_every_held_lock() {
    Fixture::on_each_kind(|fixture| {
        const LOCKS: usize = 500;
        thread::scope(|scope| {
            for part in 0..4 {
                let instance = &fixture.instances[part % 2];
                scope.spawn(move || {
                    for number in (part..LOCKS).step_by(4) {
                        let request = json!({ "ttl_ms": 60_000 });
                        let name = format!("job-{number:03}");
                        instance.acquire(&name, &request).assert_status(200);
                    }
                });
            }
        });
        fixture.acquire("other", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let expected: BTreeSet<String> =
            (0..LOCKS).map(|number| format!("job-{number:03}")).collect();
        for limit in [7, 100, 1_000] {
            assert_eq!(all_pages(&fixture, "job-", limit), expected);
        }
        assert_eq!(
            all_pages(&fixture, "job-04", 3),
            (40..50).map(|it| format!("job-{it:03}")).collect()
        );
        assert_eq!(all_pages(&fixture, "none", 10), BTreeSet::new());
        assert!(all_pages(&fixture, "", 100).contains("other"));
    });
}

#[test]
fn list_shows_holders_and_waiters() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "ttl_ms": 60_000, "who": "worker-7" });
        let acquired = fixture.acquire("job", &request).assert_status(200);
        let _waiter = fixture.any().start_acquire("job", &[], &json!({ "wait_ms": 60_000 }));
        fixture.await_waiting("job", 1);
        let page = fixture.get("/v1/locks").assert_status(200);
        assert_eq!(page.body["is_complete"], true, "{page:?}");
        let lock = &page.body["locks"][0];
        assert_eq!(lock["name"], "job", "{page:?}");
        assert_eq!(lock["holder"]["who"], "worker-7", "{page:?}");
        assert_eq!(lock["holder"]["fence"], acquired.body["fence"], "{page:?}");
        assert_eq!(lock["waiting"], 1, "{page:?}");
    }
}

#[test]
fn lock_is_listed_once_per_page_and_not_after_its_release() {
    for fixture in Fixture::of_each_kind() {
        let lease = fixture.acquire("job", &json!({})).assert_status(200).lease_id();
        let listed = fixture.get("/v1/locks").assert_status(200);
        assert_eq!(listed.body["locks"].as_array().map(Vec::len), Some(1), "{listed:?}");
        fixture.release(&lease).assert_status(204);
        assert_eq!(all_pages(&fixture, "", 100), BTreeSet::new());
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let fixture = Fixture::nodes(1);
    for (query, code) in [
        ("limit=0", "out_of_bounds"),
        ("limit=1001", "out_of_bounds"),
        ("limit=-1", "invalid_request"),
        ("limit=many", "invalid_request"),
        ("cursor=%21%21%21", "invalid_request"),
        ("cursor=bm90IGEgY3Vyc29yIQ", "invalid_request"),
        ("cursor=_w", "invalid_request"),
        ("order=name", "invalid_request"),
    ] {
        let refused = fixture.get(&format!("/v1/locks?{query}")).assert_problem(400, code);
        let field = query.split('=').next().expect("a field");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(field), "{query}: {detail}");
    }
}

/// The names on all pages, each page through the next instance.
#[track_caller]
fn all_pages(fixture: &Fixture, prefix: &str, limit: usize) -> BTreeSet<String> {
    let (mut names, mut cursor) = (BTreeSet::new(), None::<String>);
    for _ in 0..PAGES_MAX {
        let cursor_query = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let path = format!("/v1/locks?prefix={prefix}&limit={limit}{cursor_query}");
        let page = fixture.get(&path).assert_status(200);
        assert_eq!(page.body["is_complete"], true, "{page:?}");
        let locks = page.body["locks"].as_array().expect("locks");
        names.extend(locks.iter().map(|lock| lock["name"].as_str().expect("a name").to_owned()));
        cursor = page.body["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return names;
        }
    }
    panic!("there is no last page after {PAGES_MAX}");
}

const PAGES_MAX: usize = 2_000;
