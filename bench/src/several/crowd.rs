//! Many callers that acquire the same, again and again.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use quorate::Guard;

/// How often `callers` have acquired per second, all together, if each keeps what it gets for
/// `hold`. All of them want it before the time begins, and still do when it ends. Then they go.
pub(super) async fn acquired_per_second<A>(
    callers: usize,
    hold: Duration,
    time: Duration,
    mut contestant: impl FnMut(usize) -> A,
) -> f64
where
    A: AsyncFnMut() -> Guard + 'static,
{
    let (acquired, over) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(false)));
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (mut acquire, acquired, over) =
                (contestant(caller), acquired.clone(), over.clone());
            tokio::task::spawn_local(async move {
                while !over.get() {
                    let guard = acquire().await;
                    acquired.set(acquired.get() + 1);
                    // Others may hold it as well, so this one must not block their thread.
                    if !hold.is_zero() && !over.get() {
                        tokio::time::sleep(hold).await;
                    }
                    guard.release().await.expect("servers answer");
                }
            })
        })
        .collect();
    tokio::time::sleep(time / 3).await;
    let (since, before) = (Instant::now(), acquired.get());
    tokio::time::sleep(time).await;
    let rate = (acquired.get() - before) as f64 / since.elapsed().as_secs_f64();
    over.set(true);
    for task in tasks {
        task.await.expect("no caller panics");
    }
    rate
}

/// The description in a row.
pub(super) fn held(hold: Duration) -> String {
    if hold.is_zero() {
        "released at once".to_owned()
    } else {
        format!("held for {} ms", hold.as_millis())
    }
}
