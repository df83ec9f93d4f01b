//! The commands that a server runs, as it prints them.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::mpsc,
    thread,
    time::Duration,
};

use quorate_testkit::Server;

/// A connection on which the server prints every command that it runs.
pub(super) struct Monitor {
    lines: mpsc::Receiver<String>,
}

impl Monitor {
    pub(super) fn start(server: &Server) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("the server is up");
        stream.write_all(b"MONITOR\r\n").expect("the server reads");
        let (sender, lines) = mpsc::channel();
        let mut reader = BufReader::new(stream);
        let mut answer = String::new();
        reader.read_line(&mut answer).expect("the server answers");
        assert_eq!(answer.trim_end(), "+OK");
        // Ends with the server, or when the receiver is dropped.
        thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// The words of the next command that a client has sent.
    pub(super) fn next(&self) -> Vec<String> {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("another command comes");
            // The commands of scripts are printed as well, with "lua" as their source.
            if !line.contains(" lua] ") {
                return words(&line);
            }
        }
    }
}

/// The words of a line, each in quotation marks. A backslash is before what has no form of its own.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut chars) = (Vec::new(), line.chars());
    while chars.any(|c| c == '"') {
        let mut word = String::new();
        loop {
            match chars.next() {
                None | Some('"') => break,
                Some('\\') => word.extend(chars.next()),
                Some(plain) => word.push(plain),
            }
        }
        words.push(word);
    }
    words
}

/// The call of a script.
pub(super) struct Call<'a> {
    pub(super) keys: Vec<&'a str>,
    pub(super) args: Vec<&'a str>,
}

impl<'a> Call<'a> {
    /// `None` for another command.
    pub(super) fn of(words: &'a [String]) -> Option<Self> {
        let [kind, _, count, rest @ ..] = words else { return None };
        let is_call = matches!(kind.as_str(), "EVALSHA" | "EVAL");
        let mut keys: Vec<&str> = rest.iter().map(String::as_str).collect();
        let args = count.parse().ok().filter(|count| is_call && *count <= keys.len())?;
        let args = keys.split_off(args);
        Some(Self { keys, args })
    }

    /// The locks and owners of a call that acquires some, in the default mode.
    pub(super) fn acquires(&self) -> Vec<(&'a str, &'a str)> {
        match (&self.keys[..], &self.args[..]) {
            // With the keys of the fence, of the queue and of the session.
            ([name, _, _, session], [owner, ..]) if is_session(session) => vec![(name, owner)],
            ([session, names @ ..], [_, _, _, owners @ ..])
                if is_session(session) && names.len() == owners.len() =>
            {
                pairs(names, owners)
            }
            _ => Vec::new(),
        }
    }

    /// The locks and owners of a call that releases some.
    pub(super) fn releases(&self) -> Vec<(&'a str, &'a str)> {
        match (&self.keys[..], &self.args[..]) {
            ([session, ..], _) if is_session(session) => Vec::new(),
            // With the keys of the fence and of the queue.
            ([name, _, _], [owner]) => vec![(name, owner)],
            (names, ["quorate:", owners @ ..]) => pairs(names, owners),
            (names, owners) if names.len() == owners.len() => pairs(names, owners),
            _ => Vec::new(),
        }
    }
}

fn is_session(key: &str) -> bool {
    key.starts_with("quorate:s:")
}

fn pairs<'a>(names: &[&'a str], owners: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    names.iter().copied().zip(owners.iter().copied()).collect()
}

const PATIENCE: Duration = Duration::from_secs(20);
