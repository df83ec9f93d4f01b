//! A server that copied another server's data: its grants must not count.

use std::{cell::Cell, rc::Rc, time::Duration};

use tokio::time::sleep;

use crate::{
    dice::for_seeds,
    fixture::{Fixture, Program, TICK},
    server::Node,
    trace::now,
    waiting::{all_attached, eventually},
};

/// The holder holds the lock on two servers. The third grants it to one waiter and queues another.
/// Then one of the two copies the third. When the first waiter leaves, both of these grant the lock
/// to the other waiter: two of three, beside the holder.
#[test]
fn grant_of_a_server_that_copied_another_does_not_count() {
    for_seeds(10, |seed| {
        let mut fixture =
            Fixture::new(seed, 3, Duration::from_millis(3)).in_default_mode().quarantined(TTL);
        let story = Story::default();
        let (holder, first, second) = (story.clone(), story.clone(), story.clone());
        fixture.program("holder", move |program| holder.clone().hold(program));
        fixture.program("first", move |program| first.clone().leave(program));
        fixture.program("second", move |program| second.clone().wait(program));
        let mut is_copied = false;
        fixture.run(Duration::from_secs(60), |fixture| {
            if story.step.get() == Step::Queued && !is_copied {
                is_copied = true;
                fixture.trace.add_at(fixture.now(), format_args!("node-2 copies node-0"));
                fixture.nodes[2].copy(&fixture.nodes[0]);
                story.step.set(Step::Copied);
            }
        });
        assert!(is_copied, "the waiters were queued");
    });
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Step {
    #[default]
    Begun,
    Held,
    FirstAsked,
    Queued,
    Copied,
    Over,
}

#[derive(Clone, Default)]
struct Story {
    step: Rc<Cell<Step>>,
}

impl Story {
    async fn hold(self, program: Program) {
        let client = program.client("").ttl(TTL).build().expect("valid");
        client.admit().await.expect("the servers are new");
        turmoil::partition(program.host.as_str(), Node::host(0));
        let guard = client.mutex(LOCK).lock().await.expect("two servers are enough");
        let claim = program.claim(&guard);
        self.step.set(Step::Held);
        // Renewals fail from now on: it may lose the lock.
        let _ = guard.run(self.reaches(Step::Over)).await;
        drop(claim);
        turmoil::repair(program.host.as_str(), Node::host(0));
    }

    /// Waits for the lock, and leaves when the server has become a copy.
    async fn leave(self, program: Program) {
        let client = program.client("").ttl(TTL).build().expect("valid");
        self.reaches(Step::Held).await;
        all_attached(&client).await;
        let mutex = client.mutex(LOCK);
        let waits = async {
            let _guard = mutex.lock().await;
            unreachable!("the holder has it");
        };
        let leaves = async {
            eventually(TTL, "the first server is free", || program.nodes[0].has(LOCK, now())).await;
            self.step.set(Step::FirstAsked);
            self.reaches(Step::Copied).await;
        };
        tokio::select! {
            () = waits => {}
            () = leaves => {}
        }
        sleep(TTL / 2).await;
        self.step.set(Step::Over);
    }

    async fn wait(self, program: Program) {
        let client = program.client("").ttl(TTL).build().expect("valid");
        self.reaches(Step::FirstAsked).await;
        all_attached(&client).await;
        let mutex = client.mutex(LOCK);
        let queues = async {
            let is_queued = || (1..3).all(|node| program.nodes[node].waiters(LOCK) == 2);
            eventually(TTL, "both wait", is_queued).await;
            self.step.set(Step::Queued);
        };
        let waits = async {
            let guard = mutex.lock().await.expect("the holder ends");
            let _claim = program.claim(&guard);
            sleep(TICK).await;
        };
        tokio::join!(queues, waits);
    }

    async fn reaches(&self, step: Step) {
        eventually(10 * TTL, "the next step", || self.step.get() >= step).await;
    }
}

const LOCK: &str = "lock";

/// Long enough that no renewal and no heartbeat comes in between.
const TTL: Duration = Duration::from_secs(6);
