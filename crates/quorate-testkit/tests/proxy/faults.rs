//! What every [`Fault`] looks like from the two ends of a proxy.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use quorate_testkit::{Fault, Proxy, Server, eventually};

use crate::wire::{
    PONG, SOON, accept, assert_silent, connect, listener_and_proxy, pair, ping, read, read_all,
};

#[test]
fn delay_holds_up_every_chunk_but_not_the_ones_behind_it() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let mut client = connect(&proxy);
    let (up, down) = (Duration::from_millis(60), Duration::from_millis(40));
    proxy.set(Fault::Delay { up, down });

    let start = Instant::now();
    let numbers: Vec<_> = (0..50).map(|number| format!("{number:02}")).collect();
    for number in &numbers {
        client.write_all(format!("ECHO {number}\r\n").as_bytes()).unwrap();
    }
    let mut replies = vec![0; numbers.len() * "$2\r\n00\r\n".len()];
    client.read_exact(&mut replies).unwrap();
    let took = start.elapsed();

    let expected: String = numbers.iter().map(|number| format!("$2\r\n{number}\r\n")).collect();
    assert_eq!(String::from_utf8_lossy(&replies), expected);
    assert!(took >= up + down, "{took:?}");
    assert!(took < (up + down) * 10, "fifty chunks one after the other? {took:?}");
}

#[test]
fn delays_act_on_their_own_direction() {
    let (listener, proxy) = listener_and_proxy();
    let (mut client, mut served) = pair(&listener, &proxy);

    proxy.set(Fault::Delay { up: Duration::MAX, down: Duration::ZERO });
    client.write_all(b"request").unwrap();
    served.write_all(b"unasked").unwrap();
    assert_eq!(read(&mut client).unwrap(), b"unasked");
    assert_silent(&mut served);

    proxy.set(Fault::Pass);
    assert_eq!(read(&mut served).unwrap(), b"request");
}

#[test]
fn drop_replies_lets_requests_through_and_nothing_back() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let mut client = connect(&proxy);
    assert_eq!(ping(&mut client).unwrap(), PONG);

    proxy.set(Fault::DropReplies);
    client.write_all(b"SET key value\r\n").unwrap();
    eventually("the request arrives", SOON, || server.get("key").is_some());
    assert_silent(&mut client);

    // The connection is still good, and the lost reply does not come late.
    proxy.set(Fault::Pass);
    assert_eq!(ping(&mut client).unwrap(), PONG);
}

#[test]
fn drop_replies_hides_that_the_server_has_closed() {
    let (listener, proxy) = listener_and_proxy();
    let (mut client, mut served) = pair(&listener, &proxy);
    proxy.set(Fault::DropReplies);
    served.write_all(b"reply").unwrap();
    drop(served);
    assert_silent(&mut client);
    proxy.set(Fault::Pass);
    assert_eq!(read_all(&mut client).unwrap(), b"");
}

#[test]
fn black_hole_delays_everything_until_it_ends() {
    let (listener, proxy) = listener_and_proxy();
    let (mut client, mut served) = pair(&listener, &proxy);

    proxy.set(Fault::BlackHole);
    client.write_all(b"one ").unwrap();
    served.write_all(b"answer").unwrap();
    assert_silent(&mut served);
    assert_silent(&mut client);
    client.write_all(b"two").unwrap();
    client.shutdown(Shutdown::Write).unwrap();

    let mut newcomer = connect(&proxy);
    newcomer.write_all(b"hello").unwrap();
    assert_silent(&mut newcomer);
    assert_eq!(proxy.connections(), 2);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();

    proxy.set(Fault::Pass);
    assert_eq!(read_all(&mut served).unwrap(), b"one two");
    assert_eq!(read(&mut client).unwrap(), b"answer");
    assert_eq!(read(&mut accept(&listener)).unwrap(), b"hello");
}

#[test]
fn reset_hits_live_connections_and_new_ones() {
    let (listener, proxy) = listener_and_proxy();
    let (mut live, mut served) = pair(&listener, &proxy);
    live.write_all(b"unread").unwrap();

    proxy.set(Fault::Reset);
    assert_eq!(read(&mut live).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(read_all(&mut served).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let error = match TcpStream::connect(proxy.address()) {
        Ok(mut new) => read(&mut new).unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    proxy.set(Fault::Pass);
    let (mut client, mut served) = pair(&listener, &proxy);
    client.write_all(b"fine").unwrap();
    assert_eq!(read(&mut served).unwrap(), b"fine");
}

#[test]
fn cut_after_closes_in_the_middle_of_a_reply_and_only_once() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let mut first = connect(&proxy);
    let mut second = connect(&proxy);
    assert_eq!(ping(&mut first).unwrap(), PONG);

    proxy.set(Fault::CutAfter { bytes: 10 });
    assert_eq!(ping(&mut first).unwrap(), PONG);
    assert_eq!(proxy.fault(), Fault::CutAfter { bytes: 3 });
    second.write_all(b"PING\r\n").unwrap();
    assert_eq!(read_all(&mut second).unwrap(), b"+PO");

    assert_eq!(proxy.fault(), Fault::Pass);
    assert_eq!(ping(&mut first).unwrap(), PONG);
}

#[test]
fn cut_after_nothing_closes_instead_of_the_next_reply() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let mut client = connect(&proxy);
    proxy.set(Fault::CutAfter { bytes: 0 });
    client.write_all(b"SET key value\r\n").unwrap();
    assert_eq!(read_all(&mut client).unwrap(), b"");
    assert_eq!(server.get("key"), Some(b"value".to_vec()));
}

#[test]
fn cut_after_whole_replies_closes_with_the_last_byte() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let mut client = connect(&proxy);
    proxy.set(Fault::CutAfter { bytes: 7 });
    client.write_all(b"PING\r\n").unwrap();
    assert_eq!(read_all(&mut client).unwrap(), PONG.as_bytes());
}

#[test]
fn refuse_closes_the_port_until_another_fault_opens_it() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let mut live = connect(&proxy);
    assert_eq!(ping(&mut live).unwrap(), PONG);
    let address = proxy.address();

    for _ in 0..20 {
        proxy.set(Fault::Refuse);
        let error = TcpStream::connect(&address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(read_all(&mut live).unwrap(), b"");

        proxy.set(Fault::Pass);
        assert_eq!(proxy.address(), address);
        live = connect(&proxy);
        assert_eq!(ping(&mut live).unwrap(), PONG);
    }
}
