//! Cases that random commands do not reach: servers without memory, and many readers.

use quorate::{error::NodeError, simulation::Decoded};
use quorate_core::{
    command::{Command, Owner, Reply, SessionTerms},
    name::Name,
    queue::{AcquireRequest, Extend, Position, Sender, Yield},
    store::LockDetails,
};
use quorate_testkit::{Server, redis::cmd};

use super::{
    super::{
        Pace,
        batch::{Memory, Step},
        node::Answered,
        on_every_flavour,
    },
    Comparison,
};

/// A server whose memory is full refuses a script that stores something before it has deleted or
/// extended anything.
#[test]
fn full_server_extends_and_releases_like_the_store() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        let [early, middle, late] = fixture.callers();
        let (writer, reader) = (fixture.owner(middle, 2, false), fixture.owner(middle, 3, true));
        let others = [fixture.owner(early, 1, false), fixture.owner(late, 4, true)];
        let of_writer = [Act::Extend, Act::Yield, Act::Release].map(|act| (act, &writer));
        let of_reader = [Act::Extend, Act::Yield, Act::Release, Act::Ask].map(|act| (act, &reader));
        for (act, holder) in of_writer.into_iter().chain(of_reader) {
            fixture.clear();
            fixture.run([fixture.ask(middle, holder)]);
            // The first of them shall hold the lock before the holder, and the other one after it.
            fixture.run([fixture.ask(early, &others[0]), fixture.ask(late, &others[1])]);
            set_memory(server, 1);
            fixture.pass_ms(5);
            fixture.run([fixture.act(act, middle, holder)]);
            // The current holder extends and releases, until no owner is left.
            for (sender, next) in [(early, &others[0]), (middle, holder), (late, &others[1])] {
                fixture.run([
                    fixture.act(Act::Extend, sender, next),
                    fixture.act(Act::Release, sender, next),
                ]);
            }
            set_memory(server, 0);
        }
    });
}

/// The table of readers is searched if few readers are left, and by each waiter if there are many.
#[test]
fn release_with_few_readers_removes_expired_ones_like_the_store() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        let [caller, ..] = fixture.callers();
        for dead in 30..=35 {
            fixture.clear();
            let last = fixture.owner_for(caller, 1, true, 60_000);
            let readers: Vec<Owner> =
                (0..dead).map(|number| fixture.owner(caller, 2 + number, true)).collect();
            let writer = fixture.owner(caller, 100, false);
            let all = readers.iter().chain([&last, &writer]);
            fixture.run(all.map(|owner| fixture.ask(caller, owner)).collect::<Vec<_>>());
            fixture.pass_ms(TTL_MS + 1);
            fixture.run([fixture.act(Act::Release, caller, &last)]);
            let left = fixture.details().shares.len();
            assert_eq!(left, if dead <= 32 { 0 } else { dead as usize }, "of {dead}");
        }
    });
}

/// What a holder does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Extend,
    Ask,
    Yield,
    Release,
}

/// A server whose clock stands still, and the store.
pub(super) struct Fixture<'a> {
    comparison: Comparison<'a>,
}

impl<'a> Fixture<'a> {
    pub(super) fn new(server: &'a Server) -> Self {
        let mut comparison = Comparison::new(server, Pace::Set, Memory::Enough);
        for caller in &mut comparison.draw.callers {
            comparison.events.listen(caller.client);
            caller.connection = comparison.events.connection(caller.client);
        }
        let mut fixture = Self { comparison };
        fixture.clear();
        fixture
    }

    /// Begins anew, with sessions and without locks.
    pub(super) fn clear(&mut self) {
        self.comparison.node.clear();
        self.comparison.store.clear();
        for caller in self.callers() {
            self.comparison.store.subscribe(caller.client);
        }
        let attach = |sender| {
            Step::Ask(Command::Attach { sender, terms: SessionTerms::without_membership(60_000) })
        };
        self.run(self.callers().map(attach));
    }

    pub(super) fn callers(&self) -> [Sender; 3] {
        [0, 1, 2].map(|at| self.comparison.draw.sender(at))
    }

    pub(super) fn ticket(&self, number: u64) -> u64 {
        (self.comparison.batch_at.as_millis() - 1) * 1_000 + number
    }

    /// The reply of the server alone.
    pub(super) fn answer(&mut self, command: Command) -> Reply {
        self.comparison.node.reply(&command).expect("no error")
    }

    /// The reply of the server alone to a batch, and the errors of entries without a reply.
    pub(super) fn decoded(&mut self, batch: &Command) -> Result<Decoded, NodeError> {
        self.comparison.node.connection.ask_for_batch(batch)
    }

    /// Executes entries in the store, which must give these replies, store and push the same as the
    /// server.
    pub(super) fn expect_batch(
        &mut self,
        names: &[Name],
        entries: &[Command],
        replies: &[Option<Reply>],
    ) {
        let Answered { from, asides, .. } = self.comparison.node.ask(&[], names);
        let store = &mut self.comparison.store;
        let expected = store.apply(from, &Command::Batch(entries.into()));
        assert_eq!(Reply::Batch(replies.into()), expected);
        let pushed = store.take_pushes();
        for (name, found) in names.iter().zip(asides) {
            assert_eq!(found, store.details(from, name), "{name:?}");
        }
        self.comparison.compare_pushes(&[], Some(pushed));
    }

    pub(super) fn names(&self) -> [Name; 3] {
        self.comparison.draw.names.clone().try_into().expect("three of them")
    }

    pub(super) fn name(&self) -> &Name {
        &self.comparison.draw.names[0]
    }

    fn details(&self) -> LockDetails {
        self.comparison.store.clone().details(self.comparison.batch_at, self.name())
    }

    fn pass_ms(&mut self, ms: u64) {
        self.comparison.node.let_pass(ms);
    }

    /// Runs the steps on both sides, and compares everything.
    pub(super) fn run(&mut self, steps: impl AsRef<[Step]>) {
        let compared = self.comparison.tracker.compared;
        self.comparison.run(steps.as_ref());
        assert!(self.comparison.tracker.compared > compared, "time stands still");
    }

    pub(super) fn owner(&self, sender: Sender, number: u64, is_shared: bool) -> Owner {
        self.owner_for(sender, number, is_shared, TTL_MS)
    }

    /// An owner whose ticket is the later, the larger its number is.
    fn owner_for(&self, sender: Sender, number: u64, is_shared: bool, ttl_ms: u64) -> Owner {
        let place = Position { ticket: self.ticket(number), ttl_ms, client: sender.client };
        if is_shared { place.shared_owner(number) } else { place.owner(number) }
    }

    pub(super) fn ask(&self, sender: Sender, owner: &Owner) -> Step {
        self.ask_for(self.name(), sender, owner)
    }

    pub(super) fn ask_for(&self, name: &Name, sender: Sender, owner: &Owner) -> Step {
        let (name, owner) = (name.clone(), owner.clone());
        let ask = AcquireRequest { name, owner, is_waiting: true, is_known: false };
        Step::Ask(Command::Acquire { sender, request: ask })
    }

    fn act(&self, act: Act, sender: Sender, owner: &Owner) -> Step {
        let (name, owner) = (self.name().clone(), owner.clone());
        let aside = self.details();
        let share = aside.shares.iter().find(|(it, _)| **it == owner).map(|(_, share)| share.fence);
        let stored = || aside.fence.map(|(fence, _)| fence);
        let fence = share.or_else(stored).expect("it was granted");
        Step::Ask(match act {
            Act::Extend => {
                let entry = Extend { name, owner, fence, ttl_ms: TTL_MS, may_heal: false };
                Command::Extend { sender, entries: [entry].into() }
            }
            Act::Ask => return self.ask(sender, &owner),
            Act::Yield => Command::Release { name, owner, yields: Some(Yield { fence, sender }) },
            Act::Release => Command::Release { name, owner, yields: None },
        })
    }
}

/// This much memory, or no limit if it is zero.
pub(super) fn set_memory(server: &Server, bytes: u64) {
    let mut connection = server.connection();
    for (setting, value) in [("maxmemory-policy", "noeviction"), ("maxmemory", &bytes.to_string())]
    {
        let set = cmd("CONFIG").arg("SET").arg(setting).arg(value).exec(&mut connection);
        set.expect("it is a setting");
    }
}

pub(super) const TTL_MS: u64 = 50;
