//! No server outlives its test process, even if that is killed and runs no `Drop`.
//!
//! The process to be killed is this same test binary, told by an environment variable to play that
//! part.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use quorate_testkit::{Server, eventually};

#[test]
fn a_server_ends_when_its_test_process_is_killed() {
    let can_be_tied = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !can_be_tied {
        eprintln!("skipped: there is no setpriv that knows --pdeathsig");
        return;
    }

    // The victim cannot remove its temporary files; here they go when the test ends.
    let temporary = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_part_of_the_victim", "--nocapture"])
        .env(VICTIM, "yes")
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let server = BufReader::new(victim.stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().split_once(SERVER_AT).map(|(_, at)| at.to_owned()))
        .expect("the victim tells where its server is");
    assert!(TcpStream::connect(&server).is_ok());

    victim.kill().unwrap();
    victim.wait().unwrap();
    // Whether its process id is gone too depends on who has to reap it now.
    eventually("the server is gone", Duration::from_secs(5), || {
        TcpStream::connect(&server).is_err()
    });
}

/// Does nothing when it runs as a test.
#[test]
fn the_part_of_the_victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let server = Server::start();
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{SERVER_AT}{}", server.address()).unwrap();
    stdout.flush().unwrap();
    // Until it is killed, or until the test that is to kill it has ended without doing so.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

const VICTIM: &str = "QUORATE_TESTKIT_VICTIM";
const SERVER_AT: &str = "server-at=";
