//! Events as spans and events of the `tracing` crate.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use quorate::{
    error::NodeError,
    memory::{
        Behaviour::{Fail, Hang},
        MemoryNodes,
    },
    observe::{Event, Observer as _, tracing::Tracing},
};
use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::watchdog::fixture::{NAME, TTL, build, loss, pass, settings, take};

#[tokio::test(start_paused = true)]
async fn round_is_a_span_with_a_child_for_each_answer() {
    let book = Book::default();
    // The engine runs on this thread too, so this subscriber gets all of it.
    let _local = tracing::subscriber::set_default(book.clone());
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).observer(Tracing::new()));
    nodes.set(2, Fail);
    take(&client.mutex(NAME)).await.release().await.unwrap();

    let spans = book.pages().spans.clone();
    for name in ["quorate.acquire", "quorate.release"] {
        let index = spans.iter().position(|span| span.name == name).unwrap();
        let fields = &spans[index].fields;
        assert!(fields.contains("lock=orders:42") && fields.contains("outcome=done"), "{fields}");
        assert!(fields.contains("took_us=0"), "{fields}");
        let parent = Some(index as u64 + 1);
        let children: Vec<_> = spans.iter().filter(|span| span.parent == parent).collect();
        assert!(children.iter().all(|span| span.name == "quorate.node"), "{children:?}");
        let answers: Vec<&str> = children.iter().map(|span| span.fields.as_str()).collect();
        assert_eq!(answers.len(), 3, "{answers:?}");
        assert!(answers[0].contains("node=memory:0 answer=Granted"), "{answers:?}");
        assert!(answers[2].contains("ConnectionRefused"), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn loss_is_logged_as_a_warning() {
    let book = Book::default();
    let _local = tracing::subscriber::set_default(book.clone());
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).observer(Tracing::new()));
    let guard = take(&client.mutex(NAME)).await;
    pass(TTL).await;
    (0..3).for_each(|node| nodes.set(node, Hang));
    loss(&guard).await;
    let warnings = book.events(Level::WARN);
    assert_eq!(
        warnings,
        [
            "message=lock is at risk lock=orders:42 kind=mutex",
            "message=lock is lost lock=orders:42 kind=mutex reason=the lease expired"
        ]
    );
    let others = book.events(Level::DEBUG);
    assert!(others.iter().any(|line| line.starts_with("message=held lock=orders:42")));
    assert!(others.iter().any(|line| line.contains("message=renewed") && line.contains("done")));
}

#[tokio::test(start_paused = true)]
async fn clean_shutdown_logs_no_warning() {
    let book = Book::default();
    let _local = tracing::subscriber::set_default(book.clone());
    let nodes = MemoryNodes::new(3);
    let tracing = Arc::new(Tracing::new());
    let observer = tracing.clone();
    let client = build(settings(&nodes).observer(move |event: &Event<'_>| observer.observe(event)));
    let guard = take(&client.mutex(NAME)).await;
    assert!(client.shutdown(TTL).await.is_clean);
    guard.check().unwrap_err();
    // A link to a server reports its end like this.
    let node = "redis://10.0.0.1:6379";
    tracing.observe(&Event::NodeDown { node, node_error: &NodeError::ShutDown });
    assert_eq!(book.events(Level::WARN), [""; 0]);
    let notes = book.events(Level::INFO);
    assert!(notes.iter().any(|line| line.contains("lock is released")), "{notes:?}");
    assert!(notes.iter().any(|line| line.contains("node is detached")), "{notes:?}");
}

#[test]
fn changes_of_nodes_are_reported() {
    let book = Book::default();
    let node = "redis://10.0.0.1:6379";
    tracing::subscriber::with_default(book.clone(), || {
        let tracing = Tracing::new();
        tracing.observe(&Event::NodeUp { node });
        tracing.observe(&Event::NodeDown { node, node_error: &NodeError::ConnectionRefused });
    });
    assert_eq!(book.events(Level::INFO), [format!("message=node is attached node={node}")]);
    let down = format!("message=node is down node={node} node_error=connection refused");
    assert_eq!(book.events(Level::WARN), [down]);
}

#[tokio::test(start_paused = true)]
async fn rounds_that_have_ended_are_not_kept() {
    let book = Book::default();
    let _local = tracing::subscriber::set_default(book.clone());
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).observer(Tracing::new()));
    nodes.set(0, Hang);
    for _ in 0..10 {
        take(&client.mutex(NAME)).await.release().await.unwrap();
    }
    pass(TTL).await;
    let pages = book.pages();
    assert_eq!(pages.closed, pages.spans.len(), "every span was closed");
}

/// A subscriber that keeps everything. Clones share their records.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    /// The first has the number 1.
    spans: Vec<Span>,
    closed: usize,
    events: Vec<(Level, String)>,
}

#[derive(Clone, Debug)]
struct Span {
    name: &'static str,
    parent: Option<u64>,
    fields: String,
}

impl Book {
    fn events(&self, level: Level) -> Vec<String> {
        let pages = self.pages();
        let of_level = pages.events.iter().filter(|(of, _)| *of == level);
        of_level.map(|(_, line)| line.clone()).collect()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for Book {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("quorate")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::default();
        span.record(&mut line);
        let (name, parent) = (span.metadata().name(), span.parent().map(Id::into_u64));
        let mut pages = self.pages();
        pages.spans.push(Span { name, parent, fields: line.0 });
        Id::from_u64(pages.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut line = Line::default();
        values.record(&mut line);
        let index = span.into_u64() as usize - 1;
        self.pages().spans[index].fields.push_str(&line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let line = line.0.trim_start().to_owned();
        self.pages().events.push((*event.metadata().level(), line));
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn try_close(&self, _: Id) -> bool {
        // Nothing here clones a span, so each is closed once.
        self.pages().closed += 1;
        true
    }
}

/// Fields as ` name=value`, one after the other.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}
