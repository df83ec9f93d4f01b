//! The bare limit of renewals: one script extends many keys whose values are right, on raw sockets,
//! with one thread that does nothing else. One batch goes to all nodes, and the next one follows
//! when all have answered.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::{
    bare::{head, word, words},
    cpu,
};

/// Processor time of the client per extension. The keys are stored first.
pub(crate) fn cpu_per_extension(addresses: &[String], keys: usize, batch: usize) -> Duration {
    let mut nodes: Vec<TcpStream> = addresses.iter().map(|address| connect(address)).collect();
    let held: Vec<(String, String)> =
        (0..keys).map(|key| (format!("held:{key}"), value(key))).collect();
    for (key, value) in &held {
        let set = words(&[b"SET", key.as_bytes(), value.as_bytes(), b"PX", b"600000"]);
        ask(&mut nodes, &set, b"+OK");
    }
    let used = cpu::of_this_process();
    let mut out = Vec::new();
    for held in held.chunks(batch) {
        out.clear();
        head(&mut out, 4 + 2 * held.len());
        let count = held.len().to_string();
        let fixed: [&[u8]; 3] = [b"EVALSHA", DIGEST.as_bytes(), count.as_bytes()];
        fixed.iter().for_each(|it| word(&mut out, it));
        held.iter().for_each(|(key, _)| word(&mut out, key.as_bytes()));
        word(&mut out, b"10000");
        held.iter().for_each(|(_, value)| word(&mut out, value.as_bytes()));
        ask(&mut nodes, &out, format!(":{count}").as_bytes());
    }
    (cpu::of_this_process() - used) / u32::try_from(keys).expect("a small number")
}

fn connect(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server is up");
    stream.set_nodelay(true).expect("an ordinary socket");
    let load = words(&[b"SCRIPT", b"LOAD", EXTEND.as_bytes()]);
    stream.write_all(&load).expect("the server reads");
    let mut reply = [0; "$40\r\n".len() + DIGEST.len() + "\r\n".len()];
    stream.read_exact(&mut reply).expect("the server answers");
    let digest = String::from_utf8_lossy(&reply[5..45]);
    assert_eq!(digest, DIGEST, "the digest of EXTEND");
    stream
}

/// Replies are one short line.
fn ask(nodes: &mut [TcpStream], request: &[u8], reply: &[u8]) {
    for node in &mut *nodes {
        node.write_all(request).expect("the server reads");
    }
    for node in nodes {
        let mut buffer = [0; 64];
        let mut filled = 0;
        while !buffer[..filled].ends_with(b"\r\n") {
            let len = node.read(&mut buffer[filled..]).expect("the server answers");
            assert!(len > 0, "the server has gone");
            filled += len;
        }
        let answer = &buffer[..filled - 2];
        assert_eq!(String::from_utf8_lossy(answer), String::from_utf8_lossy(reply));
    }
}

/// As long as the owner of a lock.
fn value(key: usize) -> String {
    format!("q1:{key:016}:10000:0123456789abcdef0123456789abcdef01234567:1")
}

const EXTEND: &str = "local n=0 for i=1,#KEYS do if redis.call('get',KEYS[i])==ARGV[i+1] then \
                      n=n+redis.call('pexpire',KEYS[i],ARGV[1]) end end return n";
const DIGEST: &str = "2b33d75f5e71144bb425f6073019c801d03c67b2";
