//! Events as metrics: every name and label that the documentation lists.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    atomics::AtomicU64,
};
use quorate::{
    memory::{
        Behaviour::{Answer, Fail, Hang},
        MemoryNodes,
    },
    observe::{Event, Observer as _, metrics::Metrics},
};

use crate::{
    mode::Mode,
    watchdog::fixture::{NAME, TTL, build, loss, pass, settings, take},
};

in_both_modes! {
    paused:
    everything_that_happens_is_counted,
}

async fn everything_that_happens_is_counted(mode: Mode) {
    let book = Book::default();
    // The engine runs on this thread too, so this recorder gets all of it.
    let _local = metrics::set_default_local_recorder(&book);
    let nodes = MemoryNodes::new(3);
    let client = build(mode.of(settings(&nodes)).observer(Metrics::new()));
    let mutex = client.mutex(NAME);
    let guard = take(&mutex).await;
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert!(mutex.lock_timeout(TTL).await.is_err());
    assert_eq!(book.gauge("quorate_held_locks kind=mutex"), 1.0);
    assert_eq!(book.gauge("quorate_waiters kind=mutex"), 0.0);
    guard.release().await.unwrap();
    assert_eq!(book.gauge("quorate_held_locks kind=mutex"), 0.0);
    assert_eq!(book.counter("quorate_acquire_total kind=mutex outcome=acquired"), 1);
    let busy = book.counter("quorate_acquire_total kind=mutex outcome=busy");
    assert_eq!(busy, 2, "a try, and a wait that timed out");
    assert_eq!(book.counter("quorate_acquire_total kind=mutex outcome=cancelled"), 0);
    assert_eq!(book.counter("quorate_release_total kind=mutex outcome=done"), 1);
    assert_eq!(book.samples("quorate_wait_duration_seconds kind=mutex").len(), 1);
    let waited = book.samples("quorate_wait_duration_seconds kind=mutex")[0];
    assert!((9.0..=10.0).contains(&waited), "{waited}");
    assert_eq!(book.samples("quorate_hold_duration_seconds kind=mutex").len(), 1);

    let guard = take(&mutex).await;
    pass(TTL).await;
    nodes.set(0, Hang);
    nodes.set(1, Fail);
    loss(&guard).await;
    nodes.set(0, Answer);
    assert!(book.counter("quorate_renew_total kind=mutex outcome=done") >= 2);
    assert!(book.counter("quorate_renew_total kind=mutex outcome=no_quorum") >= 2);
    assert_eq!(book.counter("quorate_lost_total kind=mutex reason=expired"), 1);
    let margins = book.samples("quorate_renew_margin_seconds kind=mutex");
    assert!(margins.iter().all(|margin| (0.0..=10.0).contains(margin)), "{margins:?}");
    assert!(mutex.try_lock().await.unwrap().is_none());
    // A node that is known to be down is not asked.
    let errors = book.counter("quorate_node_errors_total kind=connection_refused node=memory:1");
    assert_eq!(errors, 0);
    let requests = "quorate_node_request_duration_seconds node=memory:2 op=";
    assert!(!book.samples(&format!("{requests}acquire")).is_empty());
    assert_eq!(book.samples(&format!("{requests}release")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn metrics_distinguish_the_kinds_of_locks() {
    let book = Book::default();
    let _local = metrics::set_default_local_recorder(&book);
    let client = build(settings(&MemoryNodes::new(3)).observer(Metrics::new()));
    let mutex = take(&client.mutex("a")).await;
    let entry = take(&client.mutex("b").reentrant("job 7")).await;
    let set = client.mutex_all(["c", "d"]).lock().await.unwrap();
    let rwlock = client.rwlock("e");
    let readers = [rwlock.read().await.unwrap(), rwlock.read().await.unwrap()];
    let writer = client.rwlock("f").write().await.unwrap();
    let permits = client.semaphore("g", 4).acquire_many(3).await.unwrap();
    let counts: [(&str, u32); 6] =
        [("mutex", 1), ("reentrant", 1), ("set", 2), ("read", 2), ("write", 1), ("permit", 3)];
    for (kind, count) in counts {
        let held = book.gauge(&format!("quorate_held_locks kind={kind}"));
        assert_eq!(held, f64::from(count), "{kind}");
        let acquired = book.counter(&format!("quorate_acquire_total kind={kind} outcome=acquired"));
        assert_eq!(acquired, u64::from(count), "{kind}");
    }
    pass(TTL).await;
    for (kind, count) in counts {
        let renewed = book.counter(&format!("quorate_renew_total kind={kind} outcome=done"));
        assert!(renewed >= u64::from(count), "{kind}: {renewed}");
    }
    drop((mutex, entry, set, readers, writer, permits));
    for (kind, _) in counts {
        assert_eq!(book.gauge(&format!("quorate_held_locks kind={kind}")), 0.0, "{kind}");
    }
}

#[test]
fn nodes_are_up_or_down() {
    let book = Book::default();
    let node = "redis://10.0.0.1:6379";
    let up = "quorate_node_up node=redis://10.0.0.1:6379";
    metrics::with_local_recorder(&book, || Metrics::new().observe(&Event::NodeUp { node }));
    assert_eq!(book.gauge(up), 1.0);
    let node_error = &quorate::error::NodeError::ConnectionRefused;
    metrics::with_local_recorder(&book, || {
        Metrics::new().observe(&Event::NodeDown { node, node_error });
    });
    assert_eq!(book.gauge(up), 0.0);
}

#[tokio::test(start_paused = true)]
async fn no_lock_is_named_in_a_label() {
    let book = Book::default();
    let _local = metrics::set_default_local_recorder(&book);
    let client = build(settings(&MemoryNodes::new(3)).observer(Metrics::new()));
    for number in 0..20 {
        drop(client.mutex(format!("order:{number}")).lock().await.unwrap());
    }
    let keys = book.keys();
    assert!(!keys.is_empty());
    assert!(!keys.iter().any(|key| key.contains("order:")), "{keys:?}");
}

/// A recorder that keeps everything. Clones share their records.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    counters: BTreeMap<String, Arc<AtomicU64>>,
    gauges: BTreeMap<String, Arc<AtomicU64>>,
    histograms: BTreeMap<String, Arc<Samples>>,
}

#[derive(Default)]
struct Samples(Mutex<Vec<f64>>);

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    }
}

impl Book {
    fn counter(&self, key: &str) -> u64 {
        self.with(|pages| pages.counters.get(key).map_or(0, |it| it.load(Ordering::SeqCst)))
    }

    fn gauge(&self, key: &str) -> f64 {
        let bits = self.with(|pages| pages.gauges.get(key).map(|it| it.load(Ordering::SeqCst)));
        bits.map_or(f64::NAN, f64::from_bits)
    }

    fn samples(&self, key: &str) -> Vec<f64> {
        let samples = self.with(|pages| pages.histograms.get(key).cloned()).unwrap_or_default();
        samples.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keys(&self) -> Vec<String> {
        self.with(|pages| {
            let names = pages.counters.keys().chain(pages.gauges.keys());
            names.chain(pages.histograms.keys()).cloned().collect()
        })
    }

    fn with<T>(&self, access: impl FnOnce(&mut Pages) -> T) -> T {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The name and its labels, in alphabetical order.
fn text(key: &Key) -> String {
    let mut labels: Vec<String> =
        key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
    labels.sort();
    format!("{}{}", key.name(), labels.concat())
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.with(|it| Counter::from_arc(it.counters.entry(text(key)).or_default().clone()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.with(|it| Gauge::from_arc(it.gauges.entry(text(key)).or_default().clone()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.with(|it| Histogram::from_arc(it.histograms.entry(text(key)).or_default().clone()))
    }
}
