//! Downgrading a writer to a reader.

use quorate_core::{acquire::Outcome, quorum::majority};

use super::Guard;
use crate::{
    engine::{Call, Ended},
    error::{DowngradeError, Lost, NodeAnswer, NodeReport},
    observe::Event,
};

impl Guard {
    /// See [`WriteGuard::downgrade`](crate::WriteGuard::downgrade). If it ends early, it drops the
    /// call, which releases the reader, and the guard, which releases the writer.
    pub(crate) async fn downgrade(mut self) -> Result<Self, DowngradeError> {
        if self.held.fenced.is_none() {
            return Err(self.not_shared());
        }
        self.wait_for_majority().await?;
        let client = self.client.clone();
        // A shutdown waits for this call, so that no key without a holder remains.
        let _call = client.engine.enter_call();
        if client.is_closed() {
            return Err(DowngradeError::ShutDown);
        }
        self.check()?;
        let call = Call::downgrade(&client.engine, &self.held).ok_or_else(|| self.not_shared())?;
        let Ended::Acquire(outcome) = call.outcome().await else {
            unreachable!("a downgrade ends as an acquire")
        };
        match outcome {
            Outcome::Held { .. } => {}
            _ if client.is_closed() => return Err(DowngradeError::ShutDown),
            Outcome::Contended | Outcome::NoQuorum | Outcome::Abandoned => {
                self.check()?;
                return Err(DowngradeError::NoQuorum {
                    lock: self.name().to_owned(),
                    nodes: call.reports(),
                });
            }
        }
        let held = call.keep_reader(&self.held);
        let held = held.map_err(|reason| Lost::new(&self.held.name, reason))?;
        self.tell_end();
        client.engine.notify_observer(&Event::Held { name: held.name.as_str(), kind: held.kind });
        let reader = Self { client: client.clone(), held, call, is_over: false };
        // A shutdown meanwhile did not see this guard, or has released the lock already.
        if client.is_closed() {
            return Err(DowngradeError::ShutDown);
        }
        // The task may not have run until now.
        reader.check()?;
        Ok(reader)
    }

    fn not_shared(&self) -> DowngradeError {
        DowngradeError::NotShared { lock: self.name().to_owned() }
    }

    /// Each node is asked once, so a majority should be attached. Until then the writer waits.
    async fn wait_for_majority(&self) -> Result<(), Lost> {
        let is_there = |report: &&NodeReport| report.answer == NodeAnswer::Attached;
        let has_majority = |nodes: &[NodeReport]| {
            let there = nodes.iter().filter(is_there).count();
            (there >= majority(nodes.len()) || self.client.is_closed()).then_some(())
        };
        while self.client.watch_nodes(self.remaining(), has_majority).await.is_none() {
            self.check()?;
        }
        Ok(())
    }
}
