//! Handshakes of operators and of the checker with servers, without the network.

use quorate_core::{
    command::{Command, Reply},
    membership::{self, Enrolment, Handshake, Mark, NodeId, NodeInfo, Opinion, View},
};

use super::{QUARANTINE_MS, SESSION_MS};
use crate::{
    run::Env,
    settings::wall_ms,
    trace::{Position, Scene},
};

impl Env {
    pub(super) fn note_change(&mut self, text: impl FnOnce() -> String) {
        self.trace
            .add(self.now, None, || Scene::Note { place: Position::Everywhere, text: text() });
    }

    pub(super) fn random(&mut self) -> u128 {
        (u128::from(self.dice.next()) << 64) | u128::from(self.dice.next())
    }

    pub(super) fn fresh(&mut self) -> Mark {
        Mark::from_random(self.random())
    }

    pub(super) fn handshake(&mut self) -> Handshake {
        Handshake {
            wall_ms: wall_ms(self.now),
            known: None,
            mark: self.fresh(),
            id: NodeId::from_random(self.random()),
            lifetime_ms: SESSION_MS,
            quarantine_ms: QUARANTINE_MS,
            is_read_only: false,
            is_durable: self.settings.quarantine.is_some_and(|quarantine| quarantine.is_durable),
        }
    }

    /// What a server would report. It does not change.
    pub(super) fn probe(&mut self, server: usize) -> NodeInfo {
        let handshake = self.handshake();
        let node = &self.nodes[server];
        let command = membership::Command::Handshake(handshake).into();
        info_of(node.store.clone().apply(node.clock.at(self.now), &command))
    }

    pub(super) fn run_handshake(&mut self, server: usize) -> NodeInfo {
        let handshake = self.handshake();
        info_of(self.apply(server, &membership::Command::Handshake(handshake).into()))
    }

    pub(super) fn apply(&mut self, server: usize, command: &Command) -> Reply {
        let node = &mut self.nodes[server];
        node.store.apply(node.clock.at(self.now), command)
    }

    /// A client runs the handshake with these servers until none of them needs another message.
    /// Messages take no time, and servers that are `away` are not reached. Returns the marks of the
    /// servers that vote.
    pub(super) fn settle(
        &mut self,
        view: &mut View,
        list: &[usize],
        away: &[usize],
    ) -> Vec<Option<Mark>> {
        let mut votes = vec![None; list.len()];
        let seats = list.iter().enumerate().cycle().take(8 * list.len());
        for (seat, server) in seats.filter(|(_, server)| !away.contains(server)) {
            view.ask(seat);
            let info = self.run_handshake(*server);
            let fresh = self.fresh();
            votes[seat] = None;
            let command = match view.record(seat, info).0 {
                Opinion::Enrol(it) => {
                    membership::Command::Enrol(Enrolment { wall_ms: wall_ms(self.now), ..it })
                }
                Opinion::Update { mark, config } => {
                    membership::Command::Change { mark, config, fresh }
                }
                Opinion::Votes(mark) => {
                    votes[seat] = Some(mark);
                    continue;
                }
                Opinion::Quarantined(_) | Opinion::Differs(_) => continue,
            };
            self.apply(*server, &command.into());
        }
        votes
    }
}

fn info_of(reply: Reply) -> NodeInfo {
    match reply {
        Reply::Membership(membership::Reply::Info(info)) => *info,
        other => unreachable!("{other:?}"),
    }
}
