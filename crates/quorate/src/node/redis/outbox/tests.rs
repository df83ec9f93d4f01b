//! When callers write, and when the driver is woken.

use quorate_core::name::Name;

use super::*;
use crate::node::Inbox;

#[derive(Debug)]
struct Ignored;

impl Inbox for Ignored {
    fn handle_answer(
        self: Arc<Self>,
        _node: usize,
        _command: Command,
        _answer: Result<Reply, NodeError>,
        _now: Moment,
    ) {
    }
}

fn open(outbox: &mut Outbox) {
    let (writer, scripts) = (tokio::io::sink(), Scripts::new("quorate:".into()));
    let terms = (Session::UNSET, SessionTerms::without_membership(0));
    outbox.open(Writer(Box::new(writer)), scripts, terms, Phase::Up, Moment::ZERO);
}

fn push(outbox: &mut Outbox) {
    let command = Command::ReadKey { name: Name::parse("a", "").expect("valid") };
    outbox.push(Request::to_inbox(command, 0, Arc::new(Ignored)), Moment::ZERO);
}

/// The driver is not woken while another task writes.
#[test]
fn work_left_during_a_write_is_sent() {
    let mut outbox = Outbox::new("quorate:".into(), Moment::ZERO);
    open(&mut outbox);
    assert!(!outbox.leave_work(1), "the link is idle");
    (0..3).for_each(|_| push(&mut outbox));
    let mut writing = outbox.take_to_write().expect("there are three");
    assert!(outbox.leave_work(1), "three answers are due");
    assert!(matches!(outbox.flush(DISTANT), Flush::Done), "another task writes");
    assert!(writing.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(outbox.give_back(writing, DISTANT), "the writer takes the work that was left");
}

#[test]
fn driver_is_not_woken_before_the_next_answer_of_a_near_server() {
    let mut outbox = Outbox::new("quorate:".into(), Moment::ZERO);
    open(&mut outbox);
    outbox.driver = Some(Waker::noop().clone());
    (0..16).for_each(|_| push(&mut outbox));
    let mut writing = outbox.take_to_write().expect("there are some");
    assert!(outbox.leave_work(1), "answers are due");
    assert!(writing.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(!outbox.give_back(writing, Duration::ZERO), "the driver takes it with an answer");
    assert!(matches!(outbox.flush(Duration::ZERO), Flush::Done));
    assert!(matches!(outbox.flush(DISTANT), Flush::Wake(_)), "the server would wait");
}

/// A few callers with single commands.
#[test]
fn driver_is_woken_for_a_server_with_little_to_do() {
    let mut outbox = Outbox::new("quorate:".into(), Moment::ZERO);
    open(&mut outbox);
    outbox.driver = Some(Waker::noop().clone());
    (0..4).for_each(|_| push(&mut outbox));
    let mut writing = outbox.take_to_write().expect("there are four");
    assert!(writing.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(!outbox.give_back(writing, Duration::ZERO), "nothing waits");
    assert!(outbox.leave_work(1), "four answers are due");
    assert!(matches!(outbox.flush(Duration::ZERO), Flush::Wake(_)));
}

#[test]
fn driver_is_woken_if_no_answer_will_wake_it() {
    let mut outbox = Outbox::new("quorate:".into(), Moment::ZERO);
    open(&mut outbox);
    outbox.driver = Some(Waker::noop().clone());
    (0..4).for_each(|_| push(&mut outbox));
    assert!(outbox.leave_work(1), "four requests are queued");
    assert!(matches!(outbox.flush(Duration::ZERO), Flush::Wake(_)), "none is written");
}

const DISTANT: Duration = Duration::from_secs(1);

/// Two concurrent callers must not each leave the writing to the other.
#[test]
fn unwritten_requests_are_not_waited_for() {
    let mut outbox = Outbox::new("quorate:".into(), Moment::ZERO);
    open(&mut outbox);
    push(&mut outbox);
    assert!(!outbox.is_answer_due());
    push(&mut outbox);
    assert!(!outbox.is_answer_due(), "neither is written");
    let writing = outbox.take_to_write().expect("there are two");
    assert!(outbox.is_answer_due(), "they are being written");
    push(&mut outbox);
    assert!(outbox.is_answer_due());
    assert!(outbox.give_back(writing, DISTANT), "the third is not written");
    outbox.unanswered.drain(..2);
    assert!(!outbox.is_answer_due(), "both are answered");
    outbox.close(Phase::Closed);
    open(&mut outbox);
    push(&mut outbox);
    assert!(!outbox.is_answer_due(), "on a new connection nothing is written");
}
