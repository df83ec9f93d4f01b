//! The call by which a writer becomes a reader.

use std::sync::Arc;

use quorate_core::lease::LostReason;

use super::{Call, Record};
use crate::{
    engine::{Engine, held::Held},
    observe::{Action, LockKind},
};

impl Call {
    /// Starts to replace this holder by a reader, and returns without waiting for anything. `None`
    /// in classic mode, which has no readers.
    pub(crate) fn downgrade(engine: &Arc<Engine>, held: &Held) -> Option<Self> {
        let name = held.name.clone();
        let mut record = Record::start(engine, Action::Acquire, name, LockKind::Read);
        let (id, started_at) = engine.work(|shared, now| {
            record.started_at = now;
            let patience = |ttl| engine.vote_timeout(ttl);
            let ids = shared.acquiring(engine, now, |shared| {
                let id = shared.machine.downgrade(held.id, &patience, now);
                if let Some(id) = id {
                    shared.calls.insert(id, record);
                }
                id.into_iter().collect()
            });
            Some((*ids.first()?, now))
        })?;
        Some(Self::new(engine, id, started_at))
    }

    /// Takes the lease of the reader in place of the writer's. The outcome must have been taken.
    pub(crate) fn keep_reader(&self, from: &Held) -> Result<Arc<Held>, LostReason> {
        let engine = &self.engine;
        engine.work(|shared, now| {
            let patience = |ttl| engine.vote_timeout(ttl);
            let id = shared.machine.keep_reader(self.id, from.id, &patience, now)?;
            let held = shared.machine.lease(id).expect("the lease was taken just now");
            let held = Arc::new(Held::new(id, held, LockKind::Read, now));
            shared.held.insert(id, held.clone());
            shared.held.remove(&from.id);
            Ok(held)
        })
    }
}
