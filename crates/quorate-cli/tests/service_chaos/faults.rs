//! Faults: of at most one instance and two servers at the same time.

use std::time::Duration;

use quorate_testkit::{eventually, history::Moment};
use rustix::process::Signal;

use crate::{chaos::Fixture, dice::Dice, fixture::PATIENCE, pass, tally::Tally};

/// Kills, stops and pauses one instance after another.
pub(crate) fn crash_instances(fixture: &Fixture, tally: &Tally, dice: &mut Dice, end: Moment) {
    // In rotation, so that a short run has all kinds.
    for kind in [Signal::KILL, Signal::TERM, Signal::STOP].into_iter().cycle() {
        if !pause(dice.millis(50, 500), end) {
            return;
        }
        let number = *dice.pick(&[0, 1, 2]);
        let away = dice.millis(20, 700);
        fixture.with_instance(number, |instance| {
            instance.signal(kind);
            if kind == Signal::STOP {
                tally.instances_paused.add();
                pass(away);
                instance.signal(Signal::CONT);
                return;
            }
            let count = match kind == Signal::KILL {
                true => &tally.instances_killed,
                false => &tally.instances_stopped,
            };
            count.add();
            instance.end();
            pass(away);
            *instance = fixture.start_instance(fixture.addresses[number]);
        });
    }
}

/// Kills and pauses one server after another. With `forgets`, every third one loses its data.
pub(crate) fn crash_servers(
    fixture: &Fixture,
    tally: &Tally,
    dice: &mut Dice,
    forgets: bool,
    end: Moment,
) {
    let mut round = 0;
    while pause(dice.millis(50, 500), end) {
        round += 1;
        let number = fixture.choose_server(|| *dice.pick(&[0, 1, 2, 3, 4]));
        let (server, away) = (&fixture.servers[number], dice.millis(20, 700));
        let is_emptied = forgets && round % 3 == 0;
        if !is_emptied && dice.is_one_in(4) {
            tally.servers_paused.add();
            server.pause();
            pass(away);
            server.resume();
        } else {
            tally.servers_killed.add();
            server.kill();
            fixture.await_gone(number);
            pass(away);
            if is_emptied {
                tally.servers_emptied.add();
                server.restart_empty();
            } else {
                server.restart();
            }
        }
        // A server without its data does not vote until its quarantine ends.
        eventually("the server votes, or the run ends", PATIENCE, || {
            fixture.votes(number) || Moment::now() >= end
        });
        fixture.back(number);
    }
}

/// Returns false at the end of the run.
fn pause(time: Duration, end: Moment) -> bool {
    pass(time.min(end.since(Moment::now())));
    Moment::now() < end
}
