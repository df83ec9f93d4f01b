//! Peers that forget, echo, and change places.

use std::{
    io::{BufReader, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate::{
    Client,
    error::{NodeAnswer, NodeError},
    observe::Event,
};
use quorate_testkit::eventually;

use crate::{
    faults::cluster::{PATIENCE, wait_until_attached},
    links::{
        executor::block_on,
        strangers::peer::{Peer, fake_redis, is_attempt, is_release, read_command},
    },
    mode::Mode,
    watchdog::fixture::NAME,
};

in_both_modes! {
    a_server_that_forgets_every_script_is_not_asked_for_ever,
    two_servers_that_change_places_are_attached_again,
}

fn a_server_that_forgets_every_script_is_not_asked_for_ever(mode: Mode) {
    // Each refusal sent the release again at once, for as long as the client was there.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let peer = Peer::start(fake_redis(move |words, _| {
        is_release(words).then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            "-NOSCRIPT No matching script.\r\n".into()
        })
    }));
    let ttl = Duration::from_millis(300);
    let settings =
        mode.of(Client::builder().quarantine(false)).nodes([peer.url()]).vote_timeout(PATIENCE);
    let client = block_on(settings.ttl(ttl).max_ttl(ttl).connect()).unwrap();
    let mutex = client.mutex(NAME).no_renew();
    let released = block_on(block_on(mutex.lock()).unwrap().release());
    assert!(released.is_err(), "{released:?}");
    // It goes on until the release is owed no more, since the key has expired by then.
    block_on(client.shutdown(PATIENCE));
    let asked = asked.load(Ordering::SeqCst);
    assert!((2..20).contains(&asked), "{asked} times");
}

fn two_servers_that_change_places_are_attached_again(mode: Mode) {
    // Each was taken for the other, which it had been before, for ever.
    let is_swapped = Arc::new(AtomicBool::new(false));
    let peers = [0, 1].map(|number| {
        let is_swapped = is_swapped.clone();
        Peer::start(fake_redis(move |words, connection| match words[0].as_str() {
            "INFO" if words[1] == "server" => {
                let run = number ^ usize::from(is_swapped.load(Ordering::SeqCst));
                let text = format!("run_id:{run:0>40}\r\n");
                Some(format!("${}\r\n{text}\r\n", text.len()))
            }
            // Makes no sense, so that the connection ends.
            _ if is_attempt(words) && connection == 0 => Some(":1\r\n".into()),
            _ => None,
        }))
    });
    let urls = peers.each_ref().map(Peer::url);
    let settings = mode.of(Client::builder().quarantine(false)).nodes(urls).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    is_swapped.store(true, Ordering::SeqCst);
    assert!(block_on(client.mutex(NAME).try_lock()).is_err());
    eventually("both are connected anew", PATIENCE, || {
        peers.iter().all(|peer| peer.accepted() > 1)
    });
    wait_until_attached(&client);
    block_on(client.mutex(NAME).lock()).unwrap().check().unwrap();
}

#[test]
fn a_password_that_a_peer_echoes_is_not_shown() {
    // What the peer said was told as it was.
    for (start, node_error) in [
        ("ERR wrong arguments:", "server error: ERR wrong"),
        ("WRONGPASS for", "authentication failed: WRONGPASS"),
        ("NOPERM with", "no permission: NOPERM"),
        ("NOPROTO in", "not supported: NOPROTO"),
        // Texts are cut, and a part of the password must not be left before the cut.
        (LONG, "server error: ERR xxx"),
    ] {
        let peer = Peer::start(move |stream| {
            let mut reader = BufReader::new(&stream);
            while let Some(words) = read_command(&mut reader) {
                let said = format!("-{start} {}\r\n", words.join(" "));
                if (&stream).write_all(said.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let url = peer.url().replace("//", &format!("//app:{PASSWORD}@"));
        let events = Arc::new(Mutex::new(String::new()));
        let told = events.clone();
        let observer = move |event: &Event<'_>| {
            *told.lock().unwrap_or_else(PoisonError::into_inner) += &format!("{event:?}\n");
        };
        let settings = Client::builder().quarantine(false).nodes([url]).observer(observer);
        let client = settings.clone().build().unwrap();
        let said = || match client.node_status()[0].answer.clone() {
            NodeAnswer::NodeError(NodeError::Connecting) => None,
            answer => Some(answer),
        };
        eventually("it has said something", PATIENCE, || said().is_some());
        let error = block_on(settings.connect_timeout(Duration::from_millis(200)).connect());
        let error = error.unwrap_err();
        let shown =
            format!("{:?} {} {error:?} {error}", client.node_status(), client.node_status()[0]);
        let shown = shown + &events.lock().unwrap();
        assert!(shown.contains(node_error), "{shown}");
        assert!(!shown.contains("hunter"), "{shown}");
    }
}

const LONG: &str = "ERR xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
const PASSWORD: &str = "hunter2";
