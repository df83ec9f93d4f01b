//! Faults that a seed draws: links that are cut or delayed, servers and programs that are killed.

use std::time::Duration;

use crate::{
    dice::Dice,
    fixture::Fixture,
    server::{Manner, Node},
};

/// Starts and ends faults until its time has passed. After that there are no faults.
pub(crate) struct Chaos {
    dice: Dice,
    until: Duration,
    next_at: Duration,
    programs: usize,
    pause_max_ms: u64,
    /// The test restarts the servers itself.
    is_without_restarts: bool,
    active: Vec<(Duration, Fault)>,
}

/// A fault. A link belongs to a program and a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// Messages are lost, in both directions, to the server, or from it.
    Cut(usize, usize, Lost),
    /// Messages wait until the fault ends.
    Held(usize, usize),
    /// The server's process is killed; its data stays.
    Down(usize),
    /// The server behaves badly.
    Odd(usize, Manner),
    /// The server is full.
    Full(usize),
    /// The program's process is killed.
    Killed(usize),
    /// Connections break, and a prefix of the bytes in flight arrives later.
    Broken(usize, usize),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lost {
    Both,
    There,
    Back,
}

impl Chaos {
    /// Faults of programs `client-0` to `client-(programs - 1)` and of all servers.
    pub(crate) fn new(fixture: &Fixture, programs: usize, until: Duration) -> Self {
        let seed = fixture.seed();
        let dice = Dice::new(seed, "chaos");
        fixture.wires.leave_stragglers(Dice::new(seed, "stragglers"));
        Self {
            dice,
            until,
            next_at: Duration::ZERO,
            programs,
            pause_max_ms: 250,
            is_without_restarts: false,
            active: Vec::new(),
        }
    }

    /// Starts faults less often, and never restarts a server.
    pub(crate) fn calm(self, pause_max: Duration) -> Self {
        let pause_max_ms = u64::try_from(pause_max.as_millis()).expect("short");
        Self { pause_max_ms, is_without_restarts: true, ..self }
    }

    /// To be called after every tick.
    pub(crate) fn step(&mut self, fixture: &mut Fixture) {
        let now = fixture.now();
        let is_over = now >= self.until;
        let (due, left) = self.active.drain(..).partition(|(until, _)| is_over || *until <= now);
        self.active = left;
        for (_, fault) in due {
            heal(fixture, fault);
        }
        if !is_over && now >= self.next_at {
            self.next_at = now + self.dice.ms(10..=self.pause_max_ms);
            let fault = self.draw(fixture.nodes.len());
            if self.active.iter().all(|(_, other)| other.place() != fault.place()) {
                // Some end unnoticed, some outlast the link timeout.
                let longest = if self.dice.chance(30) { 2_500 } else { 300 };
                self.active.push((now + self.dice.ms(5..=longest), fault));
                start(fixture, fault);
            }
        }
    }

    fn draw(&mut self, nodes: usize) -> Fault {
        let (program, node) = (self.dice.below(self.programs), self.dice.below(nodes));
        match self.dice.below(19) {
            0 | 1 => Fault::Cut(program, node, Lost::Both),
            2 | 3 => Fault::Cut(program, node, Lost::There),
            4 | 5 => Fault::Cut(program, node, Lost::Back),
            6 | 7 => Fault::Held(program, node),
            8 | 9 if !self.is_without_restarts => Fault::Down(node),
            8..=10 => Fault::Odd(node, Manner::Hang),
            11 => Fault::Odd(node, Manner::Late(self.dice.ms(5..=600))),
            12 => Fault::Odd(node, Manner::HangUp),
            13 => Fault::Killed(program),
            14 | 15 => Fault::Full(node),
            _ => Fault::Broken(program, node),
        }
    }
}

impl Fault {
    /// There is at most one fault of a link, a server or a program at a time.
    const fn place(self) -> (Option<usize>, Option<usize>) {
        match self {
            Self::Cut(program, node, _)
            | Self::Held(program, node)
            | Self::Broken(program, node) => (Some(program), Some(node)),
            Self::Down(node) | Self::Odd(node, _) | Self::Full(node) => (None, Some(node)),
            Self::Killed(program) => (Some(program), None),
        }
    }
}

fn start(fixture: &mut Fixture, fault: Fault) {
    fixture.trace.add_at(fixture.now(), format_args!("begins: {fault:?}"));
    match fault {
        Fault::Cut(program, node, Lost::Both) => {
            fixture.sim.partition(program_host(program), Node::host(node));
        }
        Fault::Cut(program, node, Lost::There) => {
            fixture.sim.partition_oneway(program_host(program), Node::host(node));
        }
        Fault::Cut(program, node, Lost::Back) => {
            fixture.sim.partition_oneway(Node::host(node), program_host(program));
        }
        Fault::Held(program, node) => fixture.sim.hold(program_host(program), Node::host(node)),
        Fault::Down(node) => fixture.sim.crash(Node::host(node)),
        Fault::Odd(node, manner) => {
            fixture.nodes[node].forget_scripts();
            fixture.nodes[node].set(manner);
        }
        Fault::Full(node) => fixture.nodes[node].set_full(true),
        Fault::Killed(program) => fixture.kill(&program_host(program)),
        Fault::Broken(program, node) => {
            fixture.wires.cut(fixture.sim.lookup(program_host(program)), &Node::host(node));
        }
    }
}

fn heal(fixture: &mut Fixture, fault: Fault) {
    fixture.trace.add_at(fixture.now(), format_args!("has ended: {fault:?}"));
    match fault {
        Fault::Cut(program, node, _) => {
            fixture.sim.repair(program_host(program), Node::host(node));
        }
        Fault::Held(program, node) => fixture.sim.release(program_host(program), Node::host(node)),
        Fault::Down(node) => fixture.sim.bounce(Node::host(node)),
        Fault::Odd(node, _) => fixture.nodes[node].set(Manner::Answer),
        Fault::Full(node) => fixture.nodes[node].set_full(false),
        Fault::Killed(program) => fixture.sim.bounce(program_host(program)),
        Fault::Broken(..) => {}
    }
}

/// The host of a program that may have faults.
pub(crate) fn program_host(number: usize) -> String {
    format!("client-{number}")
}
