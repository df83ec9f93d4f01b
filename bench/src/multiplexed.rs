//! The same two commands through the `redis` crate's multiplexed connection, set up as well as it
//! can be: no delay, no response timeout. Requests wait for a quorum; slower ones go on in tasks of
//! their own, since that crate drops a queued request whose future is dropped.

use std::cell::Cell;

use redis::{AsyncConnectionConfig, IntoConnectionInfo as _, aio::MultiplexedConnection};
use tokio::sync::mpsc;

use crate::bare::FREE;

pub(crate) struct Multiplexed {
    nodes: Vec<MultiplexedConnection>,
    next: Cell<u64>,
    free: redis::Script,
}

impl Multiplexed {
    pub(crate) async fn connect(urls: &[String]) -> Self {
        let mut nodes = Vec::new();
        for url in urls {
            let info = url.as_str().into_connection_info().expect("a valid address");
            let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
            let client = redis::Client::open(info.set_tcp_settings(tcp)).expect("valid");
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_pipeline_buffer_size(1_024);
            let connection = client.get_multiplexed_async_connection_with_config(&config).await;
            nodes.push(connection.expect("the server is up"));
        }
        Self { nodes, next: Cell::new(0), free: redis::Script::new(FREE) }
    }

    pub(crate) async fn pair(&self, key: &str) {
        self.next.set(self.next.get() + 1);
        let value = format!("0123456789abcdef0123456789abcdef01234567:{}", self.next.get());
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&value).arg("NX").arg("PX").arg(10_000);
        self.ask(|mut node| {
            let set = set.clone();
            async move { set.query_async::<()>(&mut node).await }
        })
        .await;
        self.ask(|mut node| {
            let call = self.free.clone();
            let (key, value) = (key.to_owned(), value.clone());
            async move { call.key(key).arg(value).invoke_async::<()>(&mut node).await }
        })
        .await;
    }

    async fn ask<F>(&self, mut request: impl FnMut(MultiplexedConnection) -> F)
    where
        F: Future<Output = redis::RedisResult<()>> + 'static,
    {
        if let [node] = self.nodes.as_slice() {
            return request(node.clone()).await.expect("the server answers");
        }
        let (done, mut finished) = mpsc::unbounded_channel();
        for node in &self.nodes {
            let (request, done) = (request(node.clone()), done.clone());
            tokio::task::spawn_local(async move {
                request.await.expect("the server answers");
                let _ = done.send(());
            });
        }
        for _ in 0..self.nodes.len() / 2 + 1 {
            finished.recv().await;
        }
    }
}
