//! How connections through a proxy begin, live and end, whatever the fault.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};

use quorate_testkit::{Fault, Proxy, Server, redis};

use crate::wire::{BRIEFLY, PONG, connect, listener_and_proxy, pair, ping, read, read_all, reset};

#[test]
fn it_forwards_both_ways_and_counts_connections() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    assert_eq!(proxy.connections(), 0);

    let mut client = redis::Client::open(proxy.url()).unwrap().get_connection().unwrap();
    let large = vec![b'x'; 20_000_000];
    redis::cmd("SET").arg("key").arg(&large).exec(&mut client).unwrap();
    let got: Vec<u8> = redis::cmd("GET").arg("key").query(&mut client).unwrap();
    assert!(got == large);

    let _second = connect(&proxy);
    assert_eq!(proxy.connections(), 2);
    assert_eq!(proxy.fault(), Fault::Pass);
}

#[test]
fn end_of_either_side_reaches_the_other() {
    let (listener, proxy) = listener_and_proxy();

    let (mut client, mut served) = pair(&listener, &proxy);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut served).unwrap(), b"");
    served.write_all(b"late reply").unwrap();
    drop(served);
    assert_eq!(read_all(&mut client).unwrap(), b"late reply");

    let (mut client, served) = pair(&listener, &proxy);
    reset(served);
    assert_eq!(read_all(&mut client).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn it_can_be_led_to_another_server() {
    let servers = Server::start_many(2);
    let proxy = Proxy::start(&servers[0].address());
    let mut client = connect(&proxy);
    assert_eq!(ping(&mut client).unwrap(), PONG);
    servers[0].kill();
    proxy.lead_to(&servers[1].address());
    assert_eq!(read_all(&mut client).unwrap(), b"");
    assert_eq!(ping(&mut connect(&proxy)).unwrap(), PONG);
}

#[test]
fn without_a_server_clients_are_reset() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let mut client = connect(&proxy);
    assert_eq!(ping(&mut client).unwrap(), PONG);

    server.kill();
    assert_eq!(read_all(&mut client).unwrap(), b"");
    let error = read_all(&mut connect(&proxy)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    server.restart();
    assert_eq!(ping(&mut connect(&proxy)).unwrap(), PONG);
}

#[test]
fn close_all_ends_live_connections_in_an_orderly_way() {
    let (listener, proxy) = listener_and_proxy();
    let (mut client, mut served) = pair(&listener, &proxy);
    // Held back, so that the proxy has input it will never forward.
    proxy.set(Fault::BlackHole);
    client.write_all(b"lost").unwrap();

    proxy.close_all();
    assert_eq!(read_all(&mut client).unwrap(), b"");
    assert_eq!(read_all(&mut served).unwrap(), b"");
    assert_eq!(proxy.fault(), Fault::BlackHole);
}

#[test]
fn client_that_does_not_read_delays_no_other() {
    let (listener, proxy) = listener_and_proxy();
    let (_lazy, mut flooding) = pair(&listener, &proxy);
    flooding.set_write_timeout(Some(BRIEFLY)).unwrap();
    let megabyte = vec![0; 1 << 20];
    while flooding.write(&megabyte).is_ok() {}

    let (mut client, mut served) = pair(&listener, &proxy);
    client.write_all(b"request").unwrap();
    assert_eq!(read(&mut served).unwrap(), b"request");
    proxy.close_all();
}

#[test]
fn dropping_closes_everything() {
    let (listener, proxy) = listener_and_proxy();
    let (mut client, mut served) = pair(&listener, &proxy);
    let address = proxy.address();
    proxy.set(Fault::BlackHole);
    drop(proxy);
    assert_eq!(read_all(&mut client).unwrap(), b"");
    assert_eq!(read_all(&mut served).unwrap(), b"");
    let error = TcpStream::connect(address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn proxies_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Proxy>();
}

#[test]
#[should_panic(expected = "\"nowhere\" is no address")]
fn upstream_without_a_port_is_refused() {
    drop(Proxy::start("nowhere"));
}
