//! A client of the service: it fails over, repeats requests with their idempotency key, and records
//! the responses.

use std::time::Duration;

use quorate_testkit::history::{Holding, Moment, Recorder};
use serde_json::{Value, json};
use ureq::{Agent, http};

use crate::{chaos::Fixture, dice::Dice, pass, tally::Tally};

/// One of the clients that contend for the [`LOCKS`].
pub(crate) struct Client<'a> {
    name: String,
    fixture: &'a Fixture,
    tally: &'a Tally,
    recorder: &'a Recorder,
    dice: Dice,
    agent: Agent,
}

/// A lock that the client holds.
struct Lease {
    id: String,
    lock: &'static str,
    fence: u64,
    /// The client acts until then.
    deadline: Moment,
    holding: Holding,
}

/// A response, and when the request was sent.
struct Answer {
    status: u16,
    body: Value,
    sent_at: Moment,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        number: usize,
        fixture: &'a Fixture,
        tally: &'a Tally,
        recorder: &'a Recorder,
        dice: Dice,
    ) -> Self {
        let config = Agent::config_builder().http_status_as_error(false);
        let agent = config.timeout_global(Some(ANSWER_MAX)).build().into();
        Self { name: format!("client-{number:02}"), fixture, tally, recorder, dice, agent }
    }

    /// Acquires locks, works and releases them until the end.
    pub(crate) fn run(mut self, end: Moment) {
        while Moment::now() < end {
            let lock = *self.dice.pick(&LOCKS);
            let (ttl, wait) = (self.dice.between(500, 2_001), *self.dice.pick(&[0, 300, 1_500]));
            if let Some(lease) = self.acquire(lock, ttl, wait) {
                self.work(lease);
            } else {
                pass(self.dice.millis(1, 50));
            }
        }
    }

    /// Acquires and releases a lock, and returns its fence.
    #[track_caller]
    pub(crate) fn acquire_and_release(&mut self, lock: &'static str) -> u64 {
        let acquired = (0..5).find_map(|_| self.acquire(lock, 2_000, 5_000));
        let lease =
            acquired.unwrap_or_else(|| panic!("no client can acquire {lock}: {}", self.tally));
        let fence = lease.fence;
        self.release(lease);
        fence
    }

    fn work(&mut self, mut lease: Lease) {
        // Most are short, so that the locks change holders often.
        let renewals = *self.dice.pick(&[0, 0, 0, 1, 1, 2, 4]);
        for _ in 0..renewals {
            self.rest(&lease, 2);
            match self.renew(lease) {
                Some(renewed) => lease = renewed,
                None => return,
            }
        }
        if self.dice.is_one_in(12) {
            // A client that crashes. It may act until the deadline.
            self.tally.abandoned.add();
            return;
        }
        self.rest(&lease, 30);
        self.release(lease);
    }

    /// Works for a random time of at most 1/`parts` of the remaining time.
    fn rest(&mut self, lease: &Lease, parts: u64) {
        let left = lease.deadline.since(Moment::now()).as_millis();
        let left = u64::try_from(left).expect("a ttl is not that long");
        pass(self.dice.millis(0, left / parts + 1));
    }

    /// Acquires the lock, or finds that another client holds it. Every repetition has the same key,
    /// so that a lease whose response was lost does not block the lock.
    fn acquire(&mut self, lock: &'static str, ttl_ms: u64, wait_ms: u64) -> Option<Lease> {
        let key = format!("{:016x}", self.dice.number());
        let body = json!({ "ttl_ms": ttl_ms, "wait_ms": wait_ms, "who": self.name });
        let path = format!("/v1/locks/{lock}/acquire");
        let request = self.recorder.ask(&self.name, lock);
        let give_up_at = Moment::now().after(REPEAT_MAX);
        let mut is_repeated = false;
        while Moment::now() < give_up_at {
            if let Some(answer) = self.send("POST", &path, Some(&key), Some(&body)) {
                match answer.status {
                    200 => {
                        self.tally.acquired.add();
                        if is_repeated {
                            self.tally.acquired_again.add();
                        }
                        let (deadline, fence) = (answer.deadline(), answer.number("fence"));
                        let id = answer.body["lease_id"].as_str().expect("a lease id").to_owned();
                        let holding = request.acquired(Some(fence), Some(deadline));
                        return Some(Lease { id, lock, fence, deadline, holding });
                    }
                    409 => {
                        self.tally.held.add();
                        return None;
                    }
                    // The servers were so slow that the lock expired before the response.
                    410 => self.tally.expired_early.add(),
                    _ => self.note(lock, "acquire", &answer),
                }
            }
            is_repeated = true;
            pass(self.dice.millis(1, 50));
        }
        self.tally.gave_up.add();
        None
    }

    /// Renews the lease at any instance that answers, until its deadline.
    fn renew(&mut self, mut lease: Lease) -> Option<Lease> {
        let path = format!("/v1/leases/{}/renew", lease.id);
        while Moment::now() < lease.deadline {
            if let Some(answer) = self.send("POST", &path, None, None) {
                match answer.status {
                    200 => {
                        self.tally.renewed.add();
                        // The earlier deadline stays valid.
                        lease.deadline = lease.deadline.max(answer.deadline());
                        lease.holding.extended(lease.deadline);
                        return Some(lease);
                    }
                    410 => {
                        self.check_is_over(&lease, "a renewal");
                        break;
                    }
                    _ => self.note(lease.lock, "renew", &answer),
                }
            }
            pass(self.dice.millis(1, 50));
        }
        self.tally.expired.add();
        lease.holding.lost();
        None
    }

    fn release(&mut self, lease: Lease) {
        let path = format!("/v1/leases/{}", lease.id);
        let Lease { lock, deadline, holding, .. } = lease;
        // Another client may hold the lock before the response arrives.
        holding.released();
        let give_up_at = Moment::now().after(REPEAT_MAX);
        let mut is_repeated = false;
        while Moment::now() < give_up_at {
            if let Some(answer) = self.send("DELETE", &path, None, None) {
                match answer.status {
                    204 => return self.tally.released.add(),
                    410 if is_repeated || Moment::now() >= deadline => return,
                    410 => {
                        let text = format!("{}: {lock} was lost before its deadline", self.name);
                        return self.tally.is_broken(text);
                    }
                    _ => self.note(lock, "release", &answer),
                }
            }
            is_repeated = true;
            pass(self.dice.millis(1, 50));
        }
    }

    /// The service reports that the lease has ended.
    fn check_is_over(&self, lease: &Lease, by: &str) {
        let Lease { lock, fence, deadline, .. } = lease;
        let left = deadline.since(Moment::now());
        if !left.is_zero() {
            let text = format!(
                "{}: {by} of {lock} (fence {fence}) found it lost {left:?} before its deadline",
                self.name
            );
            self.tally.is_broken(text);
        }
    }

    /// A response after which the request is sent again.
    fn note(&self, lock: &str, what: &str, answer: &Answer) {
        match (answer.status, answer.body["code"].as_str()) {
            (503, Some("no_quorum")) => self.tally.no_quorum.add(),
            (503, Some("shutting_down")) => self.tally.shutting_down.add(),
            _ => {
                let Answer { status, body, .. } = answer;
                let text = format!("{}: {what} of {lock}: {status} {body}", self.name);
                self.tally.is_broken(text);
            }
        }
    }

    /// Sends a request to any instance. None if the response does not arrive.
    fn send(
        &mut self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Option<Answer> {
        let address = *self.dice.pick(&self.fixture.addresses);
        let mut request =
            http::Request::builder().method(method).uri(format!("http://{address}{path}"));
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(body).expect("a valid request");
        let sent_at = Moment::now();
        let response = self.agent.run(request).and_then(|mut response| {
            let text = response.body_mut().read_to_string()?;
            Ok((response.status().as_u16(), text))
        });
        match response {
            Ok((status, text)) => {
                let body = serde_json::from_str(&text).unwrap_or_default();
                Some(Answer { status, body, sent_at })
            }
            Err(_) => {
                self.tally.broken.add();
                None
            }
        }
    }
}

impl Answer {
    /// The deadline of the lock as the documentation defines it.
    fn deadline(&self) -> Moment {
        let held_ms = self.number("waited_ms") + self.number("valid_for_ms");
        self.sent_at.after(Duration::from_millis(held_ms))
    }

    fn number(&self, field: &str) -> u64 {
        self.body[field].as_u64().unwrap_or_else(|| panic!("{field}: {}", self.body))
    }
}

/// Few enough that the clients contend for them.
pub(crate) const LOCKS: [&str; 4] = ["orders", "invoices", "reports", "backups"];

/// Longer than any wait and any pause of an instance.
const ANSWER_MAX: Duration = Duration::from_secs(4);

/// How long a request is repeated.
const REPEAT_MAX: Duration = Duration::from_secs(8);
