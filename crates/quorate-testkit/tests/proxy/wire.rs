//! Plain sockets at the two ends of a proxy.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use quorate_testkit::Proxy;

pub(crate) fn listener_and_proxy() -> (TcpListener, Proxy) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = Proxy::start(&listener.local_addr().expect("an address").to_string());
    (listener, proxy)
}

/// Both ends of one connection through the proxy.
pub(crate) fn pair(listener: &TcpListener, proxy: &Proxy) -> (TcpStream, TcpStream) {
    (connect(proxy), accept(listener))
}

pub(crate) fn connect(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.address()).expect("the proxy accepts");
    client.set_read_timeout(Some(SOON)).expect("a timeout can be set");
    client
}

pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    let (served, _) = listener.accept().expect("the proxy connects");
    served.set_read_timeout(Some(SOON)).expect("a timeout can be set");
    served
}

pub(crate) fn ping(client: &mut TcpStream) -> std::io::Result<String> {
    client.write_all(b"PING\r\n")?;
    read(client).map(|reply| String::from_utf8_lossy(&reply).into_owned())
}

pub(crate) fn read(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 1024];
    let count = stream.read(&mut buffer)?;
    buffer.truncate(count);
    Ok(buffer)
}

pub(crate) fn read_all(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// That nothing comes can only be seen by waiting; too short a wait misses a defect, but never
/// reports one that is not there.
pub(crate) fn assert_silent(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(BRIEFLY)).expect("a timeout can be set");
    let error = read(stream).expect_err("nothing was to arrive");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(SOON)).expect("a timeout can be set");
}

pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("an open socket");
    drop(stream);
}

pub(crate) const PONG: &str = "+PONG\r\n";
pub(crate) const SOON: Duration = Duration::from_secs(5);
pub(crate) const BRIEFLY: Duration = Duration::from_millis(100);
