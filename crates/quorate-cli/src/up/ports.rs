//! Free ports of this machine.

use std::net::{Ipv4Addr, TcpListener};

use crate::exit::Failure;

/// This many different ports of 127.0.0.1 on which nothing listens now.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    // Each listener stays open until all ports are chosen, so that none is chosen twice.
    let (mut ports, mut listeners) = (Vec::new(), Vec::new());
    for _ in 0..DRAWS {
        if ports.len() == count {
            return Ok(ports);
        }
        let port = draw()?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            ports.push(port);
            listeners.push(listener);
        }
    }
    Err(Failure::system("cannot find free ports", "too many are in use"))
}

/// Below the ports that systems give to outgoing connections: a stopped server finds its port free
/// when it is started again.
fn draw() -> Result<u16, Failure> {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::system("cannot draw random bytes", error))?;
    Ok(LOWEST + u16::from_ne_bytes(bytes) % PORTS)
}

const LOWEST: u16 = 10_000;
const PORTS: u16 = 20_000;
const DRAWS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_free() {
        let mut ports = free_ports(9).expect("there are free ports");
        for port in &ports {
            TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).expect("it is free");
        }
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 9);
    }
}
