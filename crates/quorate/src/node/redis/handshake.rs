//! The connection handshake: checks the kind of server and whether it can be a node.

use super::{
    link::LinkContext,
    replies::{Replies, without_password},
    script::{Scripts, write_loads},
    target::{Endpoint, Target},
    wire::{channel, write_words},
};
use quorate_core::dialect::Dialect;

use crate::error::NodeError;

/// What a server reports about itself.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) run_id: String,
    pub(super) scripts: Scripts,
    /// The server's clock.
    pub(super) time_us: u64,
}

/// Logs in, checks the server and loads the scripts, unless membership comes first.
pub(super) async fn handshake(
    replies: &mut Replies<'_>,
    around: &LinkContext,
) -> Result<Server, NodeError> {
    let target = replies.target;
    replies.ask(&request(target, around)).await?;
    expect_login(replies).await?;
    let server = replies.expect_text().await?;
    let replication = replies.expect_text().await?;
    let memory = replies.expect_text().await?;
    check(&server, &replication, &memory, around.dialect)?;
    let run_id = field(&server, "run_id")
        .filter(|run_id| !run_id.is_empty())
        .ok_or_else(|| NodeError::Unsupported("the server has no run_id".into()))?
        .to_owned();
    let time_us = replies.expect_time().await?;
    if around.dialect.has_queue() {
        replies.expect_number().await?;
    }
    if reads_record(around) && is_member(replies, &around.prefix).await? {
        return Err(membership_is_off(&around.prefix));
    }
    let mut scripts = Scripts::new(around.prefix.clone());
    if loads_scripts(around) {
        replies.expect_loads(around.scripts(), &mut scripts).await?;
    }
    Ok(Server { run_id, scripts, time_us })
}

/// Whether the client itself reads a node's record. Without membership there is no membership
/// handshake, and without a session, as in classic mode, no session would be rejected.
fn reads_record(around: &LinkContext) -> bool {
    (!around.dialect.has_queue() || around.is_read_only) && around.membership.is_none()
}

/// A member of a set gets the scripts when it votes, since the client reconnects to it repeatedly
/// until then. A node that is only read does not get them.
const fn loads_scripts(around: &LinkContext) -> bool {
    around.membership.is_none() && !around.is_read_only
}

/// The error of a client without membership for a node that has a place in a set.
pub(super) fn membership_is_off(prefix: &str) -> NodeError {
    NodeError::Disagreement(format!(
        "the node uses quarantine, which is disabled in this client: enable it for all clients, or \
         stop all clients of this node and delete {prefix}node on every node of its set"
    ))
}

/// Whether the node is a member of a set of other nodes.
async fn is_member(replies: &mut Replies<'_>, prefix: &str) -> Result<bool, NodeError> {
    let target = replies.target;
    let (frame, bytes) = replies.next().await?;
    let Some(error) = frame.error(bytes) else {
        let unknown = || NodeError::Protocol("expected a record while attaching".into());
        return frame.has_texts(bytes).ok_or_else(unknown);
    };
    // A cluster node has no record whose slot is on another node.
    if ELSEWHERE.iter().any(|start| error.starts_with(start)) {
        return Ok(false);
    }
    // A client that cannot read the record must not use the node: the node may have forgotten
    // locks.
    Err(match NodeError::from_reply(&without_password(&error, target)) {
        NodeError::NoPermission(text) => NodeError::NoPermission(format!(
            "cannot read {prefix}node, which shows whether other clients use quarantine: {text}"
        )),
        node_error => node_error.of_record(prefix),
    })
}

/// Appends the request of RESP3, the login, and the choice of the database.
pub(super) fn write_login(out: &mut Vec<u8>, target: &Target, client_name: &str) {
    let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(password) = &target.password {
        let user = target.user.as_deref().unwrap_or("default");
        hello.extend([b"AUTH", user.as_bytes(), password.expose().as_bytes()]);
    }
    hello.extend([&b"SETNAME"[..], client_name.as_bytes()]);
    write_words(out, &hello);
    if target.database != 0 {
        write_words(out, &[b"SELECT", target.database.to_string().as_bytes()]);
    }
}

/// Reads the answers to the login.
pub(super) async fn expect_login(replies: &mut Replies<'_>) -> Result<(), NodeError> {
    let target = replies.target;
    if let Err(node_error) = replies.fill().await {
        return Err(describe_silence(node_error, replies.first(), target));
    }
    let (frame, bytes) = replies.next().await?;
    if let Some(error) = frame.error(bytes) {
        return Err(rejected_by(&without_password(&error, target)));
    }
    if target.database != 0 {
        replies.expect_text().await?;
    }
    Ok(())
}

/// The whole handshake as one request.
fn request(target: &Target, around: &LinkContext) -> Vec<u8> {
    let mut out = Vec::new();
    write_login(&mut out, target, &around.client_name);
    write_words(&mut out, &[b"INFO", b"server"]);
    write_words(&mut out, &[b"INFO", b"replication"]);
    write_words(&mut out, &[b"INFO", b"memory"]);
    write_words(&mut out, &[b"TIME"]);
    if around.dialect.has_queue() {
        // Report a missing permission immediately, not when a session begins.
        let channel = channel(&around.prefix, &around.client);
        write_words(&mut out, &[b"PUBLISH", channel.as_bytes(), b""]);
    }
    if reads_record(around) {
        let record = format!("{}node", around.prefix);
        match around.dialect {
            Dialect::Classic => write_words(&mut out, &[b"HMGET", record.as_bytes(), b"change"]),
            // Scripts that may not run are reported as when a session begins.
            Dialect::Queue => write_words(&mut out, &[b"EVAL", READ, b"1", record.as_bytes()]),
        }
    }
    if loads_scripts(around) {
        write_loads(&mut out, around.scripts());
    }
    out
}

/// Whether the server can be a node at all.
fn check(server: &str, replication: &str, memory: &str, dialect: Dialect) -> Result<(), NodeError> {
    // Valkey names the field `server_mode`. Both report a single server as `standalone`.
    let kind = field(server, "redis_mode").or_else(|| field(server, "server_mode"));
    match kind {
        Some("sentinel") => return Err(NodeError::Unsupported("it is a sentinel".into())),
        Some("cluster") if dialect.has_queue() => {
            let reason = "it is in cluster mode, which can carry classic mode only";
            return Err(NodeError::Unsupported(reason.into()));
        }
        Some(_) | None => {}
    }
    if field(replication, "role") != Some("master") {
        return Err(NodeError::ReadOnly);
    }
    if dialect.has_queue() {
        check_version(server)?;
    }
    check_memory(memory)
}

/// A server that evicts keys when its memory is full evicts locks.
fn check_memory(memory: &str) -> Result<(), NodeError> {
    let (limit, policy) = (field(memory, "maxmemory"), field(memory, "maxmemory_policy"));
    match (limit, policy) {
        (Some("0"), _) | (Some(_), Some("noeviction")) => Ok(()),
        (Some(_), Some(policy)) => Err(NodeError::Evicts(policy.to_owned())),
        _ => Err(NodeError::Unsupported("the server does not report its memory policy".into())),
    }
}

fn check_version(server: &str) -> Result<(), NodeError> {
    let version = field(server, "redis_version").unwrap_or_default();
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if (major, minor) < (6, 2) => Err(NodeError::Unsupported(
            format!("Redis {version} does not support queues: use 6.2 or later, or classic mode"),
        )),
        _ => Ok(()),
    }
}

fn rejected_by(error: &str) -> NodeError {
    if error.contains("unknown command") {
        return NodeError::Unsupported(
            "the server does not know HELLO: Redis 6.0 is needed".into(),
        );
    }
    NodeError::from_reply(error)
}

/// A server that expects TLS answers a plain handshake with an alert, or not at all.
fn describe_silence(node_error: NodeError, first: Option<u8>, target: &Target) -> NodeError {
    match node_error {
        _ if target.is_tls || matches!(target.endpoint, Endpoint::Unix(_)) => node_error,
        NodeError::Protocol(_) if first == Some(TLS_ALERT) => {
            NodeError::Tls("the server speaks TLS there; write rediss://".into())
        }
        NodeError::ConnectionLost(reason) => NodeError::ConnectionLost(format!(
            "{reason}, before its first reply; if it speaks TLS there, write rediss://"
        )),
        other => other,
    }
}

/// The value of a line `name:value` of an INFO text.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Checks whether the record names a set.
const READ: &[u8] = b"return redis.call('HMGET', KEYS[1], 'change')";

/// Errors of a cluster node for a key on another node.
const ELSEWHERE: [&str; 3] = ["MOVED ", "ASK ", "CLUSTERDOWN Hash slot not served"];

/// The first byte that a TLS server sends in reply to a plain handshake.
const TLS_ALERT: u8 = 0x15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_without_queue_support_is_rejected_with_advice() {
        let check = |version: &str| check_version(&format!("redis_version:{version}\r\n"));
        for fit in ["6.2.0", "6.2.14", "7.0.15", "7.2.4", "8.6.3", "255.255.255", "unknown"] {
            assert_eq!(check(fit), Ok(()), "{fit}");
        }
        assert_eq!(check_version(""), Ok(()), "a server without a version is tried");
        for old in ["5.0.14", "6.0.16"] {
            let rejected = check(old).unwrap_err().to_string();
            assert!(rejected.contains(old) && rejected.contains("classic mode"), "{rejected}");
        }
    }

    #[test]
    fn info_fields_match_by_full_name() {
        let info = "# Server\r\nxrun_id:no\r\nrun_id:abc\r\nrole:master\r\n";
        assert_eq!(field(info, "run_id"), Some("abc"));
        assert_eq!(field(info, "role"), Some("master"));
        assert_eq!(field(info, "run"), None);
    }

    #[test]
    fn unsuitable_server_is_rejected_with_the_reason() {
        let memory = "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n";
        let rejected = |server: &str, role: &str, memory: &str, dialect| {
            check(server, role, memory, dialect).map_err(|node_error| node_error.to_string())
        };
        let (alone, master) = ("redis_version:7.0.0\r\nredis_mode:standalone\r\n", "role:master");
        assert_eq!(rejected(alone, master, memory, Dialect::Queue), Ok(()));
        for (server, role, memory, expected) in [
            ("redis_mode:cluster", master, memory, "classic mode only"),
            ("server_mode:cluster", master, memory, "classic mode only"),
            ("redis_mode:sentinel", master, memory, "sentinel"),
            (alone, "role:slave", memory, "replica"),
            (alone, "", memory, "replica"),
            (alone, master, "maxmemory:9\r\nmaxmemory_policy:allkeys-lru", "allkeys-lru"),
            (alone, master, "maxmemory:9\r\nmaxmemory_policy:volatile-ttl", "volatile-ttl"),
            (alone, master, "maxmemory:9", "memory policy"),
            (alone, master, "", "memory policy"),
        ] {
            let error = rejected(server, role, memory, Dialect::Queue).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let full = "maxmemory:9\r\nmaxmemory_policy:noeviction";
        assert_eq!(rejected(alone, master, full, Dialect::Queue), Ok(()));
        assert_eq!(rejected("redis_mode:cluster", master, full, Dialect::Classic), Ok(()));
    }
}
