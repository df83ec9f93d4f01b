//! A writer that continues as a reader. No exclusive owner gets the lock in between.

use super::{
    CallId, Client, Hold, Patience,
    owners::{OwnerKind, OwnerSource, Owners as _},
    waiter::Want,
    watchdog::LeaseId,
};
use crate::{
    acquire::Wait,
    dialect::{Adoption, Dialect},
    lease::LostReason,
    moment::Moment,
    queue::Position,
};

impl<S: OwnerSource> Client<S> {
    /// Asks each node once to replace the holder of this lease by a reader. From now on the lease
    /// is not renewed: an extension would find another owner. `None` in classic mode, which has no
    /// readers.
    ///
    /// The caller takes the outcome and calls [`keep_reader`](Self::keep_reader), or releases the
    /// lease. If the call is abandoned or fails, the client releases the reader.
    pub fn downgrade(
        &mut self,
        lease: LeaseId,
        patience: Patience<'_>,
        now: Moment,
    ) -> Option<CallId> {
        let held = self.watchdog.lease(lease)?;
        // The reader has the ticket of the writer.
        let position = Position::of(held.owner().as_bytes())?;
        let kind = OwnerKind { is_shared: true, ..OwnerKind::of(held.owner()) };
        let terms = held.terms();
        let terms = terms.with_vote_timeout(patience(terms.ttl()));
        // Unlike a lease from another process, its end is known here, so it may still heal.
        let (name, from, fenced) = (held.name().clone(), held.owner().clone(), held.fenced());
        let is_retired = true;
        mutate!(DowngradeStillRenews => let is_retired = false);
        if is_retired {
            self.watchdog.retire(lease);
        }
        let owner = self.naming.next_owner(&position, &kind);
        let adopts = Some(Box::new(Adoption { from, owner, fenced }));
        let (wait, dialect) = (Wait::Never, Dialect::Queue);
        let kind = kind.boxed();
        Some(self.acquire(Want { name, terms, kind, wait, dialect, adopts }, now))
    }

    /// Takes the lease of the reader, which the call has acquired, with an end of its own. Releases
    /// the writer on every node.
    ///
    /// # Errors
    ///
    /// Why the writer's lease has ended. A reader may only continue a lock that was held all the
    /// time, so the client releases the reader, and the caller must release the lease.
    pub fn keep_reader(
        &mut self,
        call: CallId,
        lease: LeaseId,
        patience: Patience<'_>,
        now: Moment,
    ) -> Result<LeaseId, LostReason> {
        let held = self.watchdog.lease(lease).ok_or(LostReason::ShutDown)?;
        let hold = Hold { renewal: held.renewal(), until: held.lease().hold_until() };
        let acquired = self.calls.get(&call).and_then(|call| call.acquired(hold));
        let acquired = acquired.ok_or(LostReason::Gone)?;
        let was_held = self.watchdog.check(lease, now);
        let reader = self.watchdog.keep(acquired, now);
        if let Err(reason) = was_held {
            if let Some(call) = self.release(reader, patience, now) {
                self.close_call(call);
            }
            return Err(reason);
        }
        if let Some(held) = self.leave(lease) {
            for node in 0..self.config.nodes {
                self.release_orphan(node, held.name().clone(), held.owner().clone());
            }
        }
        Ok(reader)
    }
}
