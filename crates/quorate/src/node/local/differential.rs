//! Compares a folder with the core's store: the same random commands at the same times must give
//! the same replies and pushes, and leave the same data.
//!
//! The commands are the same as in the tests of the server scripts. The test sets the time, so that
//! days pass: often to the millisecond in which something expires, or to the next one.

#[expect(dead_code, reason = "tests of servers use the rest")]
#[path = "../../../tests/it/differential/batch.rs"]
mod batch;
mod queue;

use quorate_core::{
    backoff::Jitter,
    command::{ClientId, Command, Reply, Value},
    moment::NodeTime,
    name::Name,
    queue::Push,
    store::{ClientState, Kept, LockState, Store},
};

use self::batch::{Draw, Memory, Step, Thing};
use super::{
    db::{Db, Durability, Tx},
    folder::Folder,
    notifier::{Incoming, Notifier, PUSH_LEN_MAX, Receiver},
    transaction::Transaction,
};

#[test]
fn twenty_thousand_random_commands_get_the_replies_that_the_store_gives() {
    let mut draw = Draw::new(Jitter::new(SEED), Memory::Enough);
    let mut node = Local::new(draw.names.clone(), Vec::new());
    let mut store = Store::new();
    let (mut now, mut taken) = (START, 0);
    for _ in 0..1_200 {
        let ends = ends_in_ms(&store, now, &draw.names);
        now = later(now, draw.pause_ms(&ends));
        let steps: Vec<Step> = draw.batch().into_iter().map(storable).collect();
        let replies = node.run(now, &steps);
        for (step, reply) in steps.iter().zip(replies) {
            assert_eq!(reply, step.apply(&mut store, now), "{step:?}, seed {SEED}");
            taken += usize::from(reply == Some(Reply::Stored));
        }
        node.compare(now, &store);
    }
    assert!(taken > 1_000, "few locks were taken: {taken}");
}

/// A folder as a node, with the receivers of some clients.
struct Local {
    db: Db,
    notifier: Notifier,
    names: Vec<Name>,
    receivers: Vec<(ClientId, Option<Receiver>)>,
    received: Vec<Push>,
    batches: u64,
    // Dropped last.
    _folder: tempfile::TempDir,
}

impl Local {
    fn new(names: Vec<Name>, clients: Vec<ClientId>) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        folder.make_db().unwrap();
        Self {
            db: Db::open(folder.db_path()).unwrap(),
            notifier: Notifier::new(folder.sockets().unwrap()).unwrap(),
            names,
            receivers: clients.into_iter().map(|client| (client, None)).collect(),
            received: Vec::new(),
            batches: 0,
            _folder: temporary,
        }
    }

    fn listen(&mut self, client: ClientId) {
        let receiver = self.notifier.listen(client).unwrap();
        let (_, known) = self.receivers.iter_mut().find(|(it, _)| *it == client).unwrap();
        *known = Some(receiver);
    }

    /// Executes steps in one transaction, then sends the pushes. Sometimes removes expired data,
    /// which must make no difference.
    fn run(&mut self, now: NodeTime, steps: &[Step]) -> Vec<Option<Reply>> {
        let mut replies = Vec::new();
        // Steps that are not commands change the file. They end the transaction.
        for steps in steps.chunk_by(|one, next| is_asked(one) && is_asked(next)) {
            let tx = self.db.begin(Durability::Lazy).unwrap();
            let mut transaction = Transaction::new(&tx, &self.notifier);
            for step in steps {
                replies.push(match step {
                    Step::Ask(Command::Batch(entries)) => {
                        let each = entries.iter().map(|entry| transaction.run(now, entry).ok());
                        Some(Reply::Batch(each.collect()))
                    }
                    Step::Ask(command) => Some(transaction.run(now, command).unwrap()),
                    Step::Plant { .. } | Step::Clear | Step::Fill(_) | Step::HangUp { .. } => None,
                });
            }
            let pushes = transaction.save().unwrap();
            self.batches += 1;
            if self.batches.is_multiple_of(7) {
                tx.sweep(now).unwrap();
            }
            match steps {
                [Step::Plant { name, thing: Thing::Text(text), ttl_ms }] => {
                    plant(&tx, now, name, text, *ttl_ms);
                }
                [Step::Clear] => self.clear(&tx),
                _ => {}
            }
            tx.commit().unwrap();
            if let [Step::HangUp { client, .. }] = steps {
                let (_, receiver) = self.receivers.iter_mut().find(|(it, _)| it == client).unwrap();
                *receiver = None;
            }
            pushes.iter().for_each(|push| self.send(push));
        }
        replies
    }

    /// Received immediately: the kernel keeps few messages for a socket that is not read.
    fn send(&mut self, push: &Push) {
        self.notifier.send(push);
        let receivers = self.receivers.iter().filter(|(client, _)| *client == push.client);
        for receiver in receivers.filter_map(|(_, receiver)| receiver.as_ref()) {
            match receiver.receive(&mut [0; PUSH_LEN_MAX]) {
                Some(Incoming::Push(push)) => self.received.push(push),
                Some(Incoming::Alarm) => panic!("the files are not replaced in this test"),
                None => {}
            }
        }
    }

    fn clear(&self, tx: &Tx<'_>) {
        for name in &self.names {
            let before = tx.lock(name).unwrap();
            tx.save_lock(name, &before, &LockState::default()).unwrap();
        }
        for (client, _) in &self.receivers {
            tx.save_client(client, &ClientState::default()).unwrap();
        }
    }

    /// Checks that the file contains the same as the store, apart from expired data.
    fn compare(&self, now: NodeTime, store: &Store) {
        let tx = self.db.begin(Durability::Lazy).unwrap();
        let (mut known, mut found) = (Store::new(), Store::new());
        for name in &self.names {
            known.set_lock_state(name, store.lock_state(name));
            found.set_lock_state(name, tx.lock(name).unwrap());
        }
        for (client, _) in &self.receivers {
            known.set_client_state(client, store.client_state(client));
            found.set_client_state(client, tx.client(client).unwrap());
        }
        // Removes expired data.
        for store in [&mut known, &mut found] {
            store.queued_names(now);
            store.names(now);
        }
        assert_eq!(found, known, "seed {SEED}");
    }
}

fn is_asked(step: &Step) -> bool {
    matches!(step, Step::Ask(_))
}

/// Keys of other types cannot be stored in a folder.
fn storable(step: Step) -> Step {
    match step {
        Step::Plant { name, thing: Thing::Hash | Thing::List | Thing::Set, ttl_ms } => {
            Step::Plant { name, thing: Thing::Text(b"another's".into()), ttl_ms }
        }
        other => other,
    }
}

fn plant(tx: &Tx<'_>, now: NodeTime, name: &Name, text: &[u8], ttl_ms: Option<u64>) {
    let before = tx.lock(name).unwrap();
    let ends_at_ms = ttl_ms.map(|ttl_ms| now.as_millis() + ttl_ms);
    let key = Some(Kept { value: Value::Text(text.into()), ends_at_ms });
    tx.save_lock(name, &before, &LockState { key, ..before.clone() }).unwrap();
}

/// When data expires within the next two days.
fn ends_in_ms(store: &Store, now: NodeTime, names: &[Name]) -> Vec<u64> {
    let ends = names.iter().flat_map(|name| {
        let LockState { key, fence, queue } = store.lock_state(name);
        let queue = queue.and_then(|it| it.ends_at_ms);
        [key.and_then(|it| it.ends_at_ms), fence.and_then(|it| it.ends_at_ms), queue]
    });
    let left = ends.flatten().filter_map(|end| end.checked_sub(now.as_millis()));
    left.filter(|left| *left <= 2 * 24 * 60 * 60 * 1_000).collect()
}

fn later(now: NodeTime, pause_ms: u64) -> NodeTime {
    NodeTime::from_micros(now.as_micros() + pause_ms * 1_000 + 137)
}

const START: NodeTime = NodeTime::from_micros(1_800_000_000_000_000);
const SEED: u64 = 0x5eed_2026;
