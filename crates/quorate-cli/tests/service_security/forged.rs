//! Forged and changed lease ids: they do not affect any lock.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use quorate_testkit::Server;
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, Response},
    token_file,
};

/// The parts of a lease id.
#[derive(Clone, Debug)]
struct Parts {
    mark: String,
    ttl_ms: String,
    fence: String,
    owner: String,
    name: String,
}

impl Parts {
    #[track_caller]
    fn of(id: &str) -> Self {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id).expect("base64")).expect("text");
        let parts: Vec<String> = text.splitn(5, ':').map(str::to_owned).collect();
        let [mark, ttl_ms, fence, owner, name] = parts.try_into().expect("five parts");
        Self { mark, ttl_ms, fence, owner: from_hex(&owner), name }
    }

    fn id(&self) -> String {
        let Self { mark, ttl_ms, fence, owner, name } = self;
        let owner: String = owner.bytes().map(|byte| format!("{byte:02x}")).collect();
        URL_SAFE_NO_PAD.encode(format!("{mark}:{ttl_ms}:{fence}:{owner}:{name}"))
    }
}

#[track_caller]
fn from_hex(digits: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    String::from_utf8((0..digits.len()).step_by(2).map(byte).collect()).expect("text")
}

fn is_same_but_for_fence(id: &str, other: &str) -> bool {
    let parts = |id: &str| {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
        let mut parts: Vec<String> = text.splitn(5, ':').map(str::to_owned).collect();
        (parts.len() == 5).then(|| parts.remove(2)).map(|_| parts)
    };
    parts(id) == parts(other)
}

/// No request accepts the id.
#[track_caller]
fn assert_rejected(fixture: &Fixture, what: &str, id: &str) {
    for response in [fixture.renew(id), fixture.downgrade(id), fixture.release(id)] {
        let Response { status, body, .. } = &response;
        let is_clear = match status {
            400 => body["code"] == "invalid_lease" || body["code"] == "not_a_write_lease",
            410 => body["code"] == "lease_lost",
            _ => false,
        };
        assert!(is_clear, "{what}: {response:?}");
        assert_eq!(response.headers["content-type"], "application/problem+json", "{what}");
    }
}

#[track_caller]
fn assert_invalid(fixture: &Fixture, what: &str, id: &str) {
    for response in [fixture.renew(id), fixture.downgrade(id), fixture.release(id)] {
        assert_eq!((response.status, what), (400, what), "{response:?}");
        response.assert_problem(400, "invalid_lease");
    }
}

fn change(genuine: &Parts, change: impl FnOnce(&mut Parts)) -> String {
    let mut parts = genuine.clone();
    change(&mut parts);
    parts.id()
}

/// Stores a value on a server, like another application.
fn set(server: &Server, key: &str, value: &str) {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    write!(stream, "SET {key} {value}\r\n").expect("it is connected");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+OK\r\n");
}

/// With the fences of microseconds since 1970, no later holder may be an hour ahead.
const HOUR_US: u64 = 3_600_000_000;

#[test]
fn client_cannot_raise_the_fence_or_the_ttl_of_its_lock() {
    for fixture in Fixture::of_each_kind() {
        let acquired = fixture.acquire("job", &json!({ "ttl_ms": 10_000 })).assert_status(200);
        let (id, fence) = (acquired.lease_id(), acquired.number("fence"));
        let genuine = Parts::of(&id);
        assert_eq!(genuine.id(), id, "the test knows the form of lease ids");
        for forged in [4_503_599_627_370_496, fence + 1, fence * 2, u64::MAX] {
            let id = change(&genuine, |parts| parts.fence = forged.to_string());
            assert_invalid(&fixture, "a larger fence", &id);
        }
        for ttl_ms in ["0", "9999", "10001", "86400000", "18446744073709551615"] {
            let id = change(&genuine, |parts| parts.ttl_ms = ttl_ms.to_owned());
            assert_invalid(&fixture, "another ttl", &id);
            let id = change(&genuine, |parts| {
                parts.owner = parts.owner.replace(":10000:", &format!(":{ttl_ms}:"));
                parts.ttl_ms = ttl_ms.to_owned();
            });
            assert_rejected(&fixture, "another ttl in the owner too", &id);
        }
        // A smaller fence changes nothing on the nodes.
        let smaller = change(&genuine, |parts| parts.fence = "1".to_owned());
        assert!([200, 400].contains(&fixture.renew(&smaller).status));
        let lock = fixture.get("/v1/locks/job").assert_status(200);
        assert_eq!(lock.body["holder"]["fence"], fence, "{lock:?}");
        let left = lock.body["holder"]["expires_in_ms"].as_u64().expect("it expires");
        assert!(left <= 10_000, "{lock:?}");
        fixture.renew(&id).assert_status(200);
        fixture.release(&id).assert_status(204);
        let next = fixture.acquire("job", &json!({})).assert_status(200).number("fence");
        assert!((fence + 1..fence + HOUR_US).contains(&next), "{fence} {next}");
    }
}

#[test]
fn changed_lease_ids_reach_no_other_lock() {
    for fixture in Fixture::of_each_kind() {
        let mine = fixture.acquire("mine", &json!({})).assert_status(200).lease_id();
        let other = fixture.acquire("other", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let reader = json!({ "mode": "read", "ttl_ms": 60_000 });
        let shared = fixture.acquire("shared", &reader).assert_status(200);
        let genuine = Parts::of(&mine);
        let (ticket, rest) = genuine.owner[3..].split_once(':').expect("a ticket");
        let number: u64 = ticket.parse().expect("digits");
        let forgeries = [
            ("another lock", change(&genuine, |it| it.name = "other".to_owned())),
            ("a shared lock", change(&genuine, |it| it.name = "shared".to_owned())),
            (
                "a reader of a shared lock",
                change(&genuine, |it| {
                    (it.name, it.owner) = ("shared".to_owned(), format!("{}:s", it.owner));
                }),
            ),
            ("the same owner as a reader", change(&genuine, |it| it.owner += ":s")),
            (
                "a ticket later",
                change(&genuine, |it| {
                    it.owner = format!("q1:{:016}:{rest}", number + 1);
                    it.fence = (number + 1).to_string();
                }),
            ),
            ("no owner", change(&genuine, |it| it.owner = String::new())),
            ("a huge owner", change(&genuine, |it| it.owner += &"x".repeat(2_000))),
            ("a huge name", change(&genuine, |it| it.name = "x".repeat(2_000))),
            ("no name", change(&genuine, |it| it.name = String::new())),
            ("a control character", change(&genuine, |it| it.name += "\n")),
            ("another form", change(&genuine, |it| it.mark += "1")),
        ];
        for (what, id) in &forgeries {
            assert_rejected(&fixture, what, id);
        }
        for lease in [mine, other.lease_id(), shared.lease_id()] {
            fixture.renew(&lease).assert_status(200);
            fixture.release(&lease).assert_status(204);
        }
    }
}

/// The value of the fence key can be guessed. A lease id with that value as its owner would delete
/// the key, and fences would start again.
#[test]
fn lease_ids_do_not_reach_keys_that_are_not_locks() {
    for fixture in Fixture::of_each_kind() {
        let acquired = fixture.acquire("job", &json!({})).assert_status(200);
        let (id, fence) = (acquired.lease_id(), acquired.number("fence"));
        let genuine = Parts::of(&id);
        let digits = format!("{fence:016}");
        for name in ["quorate:f:{job}", "quorate:q:{job}", "quorate:n", "app:session"] {
            for server in &fixture.servers {
                if name.starts_with("app") {
                    set(server, name, &digits);
                }
            }
            for owner in [&digits, &genuine.owner, "1", ""] {
                let id = change(&genuine, |it| {
                    (it.name, it.owner) = (name.to_owned(), owner.to_owned());
                });
                assert_rejected(&fixture, name, &id);
            }
        }
        for server in &fixture.servers {
            for key in ["app:session", "quorate:f:{job}"] {
                assert_eq!(server.get(key).as_deref(), Some(digits.as_bytes()), "{key}");
            }
        }
        fixture.release(&id).assert_status(204);
        let next = fixture.acquire("job", &json!({})).assert_status(200).number("fence");
        assert!(next > fence, "{next} {fence}");
    }
}

#[test]
fn each_lease_has_one_id() {
    let fixture = Fixture::start(0, 1, &[]);
    let id = fixture.acquire("job", &json!({})).assert_status(200).lease_id();
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(&id).expect("base64")).expect("text");
    let owner = text.split(':').nth(3).expect("an owner");
    let spellings = [
        text.replace(owner, &owner.to_uppercase().replace('A', "a")),
        text.replace(":10000:", ":010000:"),
        text.replace(":10000:", ":+10000:"),
        format!("{text} "),
        format!(" {text}"),
    ];
    for spelling in spellings.iter().filter(|it| **it != text) {
        assert_rejected(&fixture, spelling, &URL_SAFE_NO_PAD.encode(spelling));
    }
    for spelling in
        [format!("{id}="), format!("{id}%3D%3D"), format!("{id}%0A"), format!("%20{id}")]
    {
        assert_invalid(&fixture, &spelling, &spelling);
    }
    fixture.release(&id).assert_status(204);
}

#[test]
fn truncated_and_damaged_lease_ids_are_rejected() {
    let fixture = Fixture::start(0, 1, &[]);
    let id = fixture.acquire("orders:42", &json!({})).assert_status(200).lease_id();
    for len in (1..id.len()).step_by(7) {
        assert_rejected(&fixture, "truncated", &id[..len]);
    }
    for at in (0..id.len()).step_by(5) {
        let other = if &id[at..=at] == "A" { "B" } else { "A" };
        let damaged = format!("{}{other}{}", &id[..at], &id[at + 1..]);
        // A fence smaller than the genuine one has no effect on the nodes.
        if !is_same_but_for_fence(&id, &damaged) {
            assert_rejected(&fixture, "damaged", &damaged);
        }
    }
    for id in ["x", "%00", "%ff", "..", "a%2Fb", "null", "%22", &"A".repeat(10_000)] {
        let response = fixture.renew(id);
        assert_eq!(response.status, 400, "{id}: {response:?}");
    }
    fixture.renew(&id).assert_status(200);
    fixture.release(&id).assert_status(204);
}

/// A reader can forge the write lease of which its own would be the downgrade.
#[test]
fn made_up_write_lease_of_a_reader_gains_nothing() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "mode": "read", "ttl_ms": 60_000 });
        let reader = fixture.acquire("doc", &request).assert_status(200).lease_id();
        let forged = change(&Parts::of(&reader), |it| it.owner.truncate(it.owner.len() - 2));
        let downgraded = fixture.downgrade(&forged).assert_status(200);
        assert_eq!(downgraded.lease_id(), reader);
        for response in [fixture.renew(&forged), fixture.release(&forged)] {
            response.assert_problem(410, "lease_lost");
        }
        fixture.release(&reader).assert_status(204);
        fixture.downgrade(&forged).assert_problem(410, "lease_lost");
        fixture.acquire("doc", &json!({})).assert_status(200);
    }
}

#[test]
fn token_cannot_use_a_lease_id_of_its_own_making_outside_its_prefix() {
    let all: [&[&str]; 2] = [&["all"], &["ci", "--prefix", "ci:"]];
    let (fixture, [all, ci]) = token_file::start(all, &[]);
    let instance = fixture.any();
    let outside = instance.acquire_with("prod", &all.auth(), &json!({})).assert_status(200);
    let stolen = Parts::of(&outside.lease_id());
    for (name, status) in [("prod", 403), ("ci:x", 410), ("ci:", 410)] {
        let id = change(&stolen, |parts| parts.name = name.to_owned());
        for (method, path) in [
            ("POST", format!("/v1/leases/{id}/renew")),
            ("POST", format!("/v1/leases/{id}/downgrade")),
            ("DELETE", format!("/v1/leases/{id}")),
        ] {
            let response = instance.send(method, &path, &ci.auth(), None);
            assert_eq!(response.status, status, "{name}: {response:?}");
        }
    }
    let lock = instance.send("GET", "/v1/locks/prod", &all.auth(), None).assert_status(200);
    assert_eq!(lock.body["is_held"], Value::Bool(true), "{lock:?}");
}

#[test]
fn lease_of_a_repeated_request_renews_with_the_same_fence() {
    for fixture in Fixture::of_each_kind() {
        let with_key = || {
            let key = [("Idempotency-Key", "again")];
            fixture.any().acquire_with("job", &key, &json!({})).assert_status(200)
        };
        let (first, second) = (with_key(), with_key());
        fixture.renew(&second.lease_id()).assert_status(200);
        let third = with_key();
        for response in [&second, &third] {
            assert_eq!(response.number("fence"), first.number("fence"));
        }
        fixture.release(&third.lease_id()).assert_status(204);
    }
}
