//! No server outlives its test process, even if that is killed and runs no `Drop`.
//!
//! The process to be killed is this test binary again, started with an environment variable.

use std::io::Write;
use std::iter;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use quorate_testkit::processes::{Child, this_test};
use quorate_testkit::{Server, eventually};

#[test]
fn server_ends_when_its_test_process_is_killed() {
    let can_be_tied = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !can_be_tied {
        eprintln!("skipped: there is no setpriv that knows --pdeathsig");
        return;
    }

    // The victim cannot remove its temporary files: this test removes them.
    let temporary = tempfile::tempdir().unwrap();
    let mut command = this_test("act_as_the_victim");
    let mut victim = Child::start(command.env(VICTIM, "yes").env("TMPDIR", temporary.path()));
    let server = iter::repeat_with(|| victim.next_line())
        .find_map(|line| line.split_once(SERVER_AT).map(|(_, at)| at.to_owned()))
        .expect("the victim prints the address of its server");
    assert!(TcpStream::connect(&server).is_ok());

    victim.kill();
    // Whether its process id is gone too depends on the process that reaps it now.
    eventually("the server is gone", Duration::from_secs(5), || {
        TcpStream::connect(&server).is_err()
    });
}

/// Does nothing when it runs as a test.
#[test]
fn act_as_the_victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let server = Server::start();
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{SERVER_AT}{}", server.address()).unwrap();
    stdout.flush().unwrap();
    // Until it is killed, or the test ends without that.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

const VICTIM: &str = "QUORATE_TESTKIT_VICTIM";
const SERVER_AT: &str = "server-at=";
