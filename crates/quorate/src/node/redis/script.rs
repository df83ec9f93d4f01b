//! The scripts that run on a server, and the digests by which they are called.

use std::sync::{Arc, OnceLock};

use quorate_core::{command::Command, membership};

use super::wire::write_words;

/// One script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Script {
    SetKey,
    Adopt,
    DeleteKey,
    ExtendKeys,
    ReadKey,
    Introduce,
    Attach,
    Ping,
    Acquire,
    Release,
    Extend,
    AcquireMany,
    ReleaseMany,
    SetKeys,
    DeleteKeys,
    Handshake,
    Enrol,
    Change,
    Admit,
    Inspect,
    List,
}

impl Script {
    /// The scripts of classic mode without membership.
    pub(super) const CLASSIC: &[Self] =
        &[Self::Adopt, Self::DeleteKey, Self::DeleteKeys, Self::ExtendKeys, Self::ReadKey];

    /// The scripts of classic mode with membership.
    pub(super) const CLASSIC_MEMBERS: &[Self] = &[
        Self::SetKey,
        Self::SetKeys,
        Self::Adopt,
        Self::DeleteKey,
        Self::DeleteKeys,
        Self::ExtendKeys,
        Self::ReadKey,
        Self::Ping,
    ];

    /// The scripts of the default mode.
    pub(super) const QUEUE: &[Self] = &[
        Self::Adopt,
        Self::ReadKey,
        Self::Attach,
        Self::Ping,
        Self::Acquire,
        Self::AcquireMany,
        Self::Release,
        Self::ReleaseMany,
        Self::Extend,
    ];

    const COUNT: usize = Self::List as usize + 1;

    /// The script that executes a command, or `None` for a plain command of the server.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Batch(entries) => match entries.first() {
                Some(first) => Self::of_batch(first),
                None => None,
            },
            single => Self::of_single(single),
        }
    }

    const fn of_single(command: &Command) -> Option<Self> {
        match command {
            Command::SetKey { sender: Some(_), .. } => Some(Self::SetKey),
            Command::Adopt { .. } => Some(Self::Adopt),
            Command::DeleteKey { .. } => Some(Self::DeleteKey),
            Command::ExtendKeys { .. } => Some(Self::ExtendKeys),
            Command::Check { .. } | Command::ReadKey { .. } => Some(Self::ReadKey),
            Command::Introduce { .. } => Some(Self::Introduce),
            Command::Attach { .. } => Some(Self::Attach),
            Command::Ping { .. } => Some(Self::Ping),
            Command::Acquire { .. } => Some(Self::Acquire),
            Command::Release { .. } => Some(Self::Release),
            Command::Extend { .. } => Some(Self::Extend),
            Command::Membership(command) => Some(Self::of_membership(command)),
            Command::Inspect { .. } => Some(Self::Inspect),
            Command::List { .. } => Some(Self::List),
            _ => None,
        }
    }

    /// The script that executes a batch that begins with this command.
    const fn of_batch(first: &Command) -> Option<Self> {
        match first {
            Command::Acquire { .. } => Some(Self::AcquireMany),
            Command::Release { .. } => Some(Self::ReleaseMany),
            Command::SetKey { .. } => Some(Self::SetKeys),
            Command::DeleteKey { .. } => Some(Self::DeleteKeys),
            single => Self::of_single(single),
        }
    }

    /// The script of a membership command.
    pub(super) const fn of_membership(command: &membership::Command) -> Self {
        match command {
            membership::Command::Handshake(_) => Self::Handshake,
            membership::Command::Enrol(_) => Self::Enrol,
            membership::Command::Change { .. } => Self::Change,
            membership::Command::Admit { .. } => Self::Admit,
        }
    }

    /// The text of the script, with all its parts.
    pub(crate) fn text(self) -> &'static str {
        static TEXTS: [OnceLock<String>; Script::COUNT] =
            [const { OnceLock::new() }; Script::COUNT];
        TEXTS[self as usize].get_or_init(|| with_parts(self.file()))
    }

    const fn file(self) -> &'static str {
        match self {
            Self::SetKey => include_str!("../../../lua/set_key.lua"),
            Self::Adopt => include_str!("../../../lua/adopt.lua"),
            Self::DeleteKey => include_str!("../../../lua/delete_key.lua"),
            Self::ExtendKeys => include_str!("../../../lua/extend_keys.lua"),
            Self::ReadKey => include_str!("../../../lua/read_key.lua"),
            Self::Introduce => include_str!("../../../lua/queue/introduce.lua"),
            Self::Attach => include_str!("../../../lua/queue/attach.lua"),
            Self::Ping => include_str!("../../../lua/queue/ping.lua"),
            Self::Acquire => include_str!("../../../lua/queue/acquire.lua"),
            Self::Release => include_str!("../../../lua/queue/release.lua"),
            Self::Extend => include_str!("../../../lua/queue/extend.lua"),
            Self::AcquireMany => include_str!("../../../lua/queue/acquire_many.lua"),
            Self::ReleaseMany => include_str!("../../../lua/queue/release_many.lua"),
            Self::SetKeys => include_str!("../../../lua/set_keys.lua"),
            Self::DeleteKeys => include_str!("../../../lua/delete_keys.lua"),
            Self::Handshake => include_str!("../../../lua/membership/handshake.lua"),
            Self::Enrol => include_str!("../../../lua/membership/enrol.lua"),
            Self::Change => include_str!("../../../lua/membership/change.lua"),
            Self::Admit => include_str!("../../../lua/membership/admit.lua"),
            Self::Inspect => include_str!("../../../lua/inspect.lua"),
            Self::List => include_str!("../../../lua/list.lua"),
        }
    }
}

/// The text of a file with the parts that it includes with a line like `-- parts: order, shares`. A
/// server takes a script as one text, and shared code should be written once.
fn with_parts(file: &str) -> String {
    let mut text = String::with_capacity(2 * file.len());
    for line in file.lines() {
        match line.strip_prefix("-- parts: ") {
            // A part can have parts of its own.
            Some(names) => names.split(", ").for_each(|it| text.push_str(&with_parts(part(it)))),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

fn part(name: &str) -> &'static str {
    match name {
        "order" => include_str!("../../../lua/queue/parts/order.lua"),
        "shares" => include_str!("../../../lua/queue/parts/shares.lua"),
        "put_share" => include_str!("../../../lua/queue/parts/put_share.lua"),
        "fence" => include_str!("../../../lua/queue/parts/fence.lua"),
        "since" => include_str!("../../../lua/queue/parts/since.lua"),
        "hand_off" => include_str!("../../../lua/queue/parts/hand_off.lua"),
        "full" => include_str!("../../../lua/queue/parts/full.lua"),
        "entry_error" => include_str!("../../../lua/queue/parts/entry_error.lua"),
        "acquire_one" => include_str!("../../../lua/queue/parts/acquire_one.lua"),
        "release_one" => include_str!("../../../lua/queue/parts/release_one.lua"),
        "release_with_waiters" => {
            include_str!("../../../lua/queue/parts/release_with_waiters.lua")
        }
        "holders" => include_str!("../../../lua/queue/parts/holders.lua"),
        other => unreachable!("no script has a part {other}"),
    }
}

/// Loads scripts into a server, so that they can be called by digest.
pub(super) fn write_loads(out: &mut Vec<u8>, scripts: &[Script]) {
    for script in scripts {
        write_words(out, &[b"SCRIPT", b"LOAD", script.text().as_bytes()]);
    }
}

/// The scripts that one server has, and the prefix of Quorate's keys.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    known: [Known; Script::COUNT],
    prefix: Arc<str>,
}

impl Scripts {
    /// A server without scripts.
    pub(crate) fn new(prefix: Arc<str>) -> Self {
        Self { known: Default::default(), prefix }
    }

    /// Records the digest that the server reported at the attach.
    pub(crate) fn set(&mut self, script: Script, digest: String) {
        self.known[script as usize] = Known { digest, is_forgotten: false };
    }

    /// Records whether the server has forgotten the script. It is sent as text until an answer
    /// shows that the server has it again.
    pub(crate) const fn set_forgotten(&mut self, script: Script, is_forgotten: bool) {
        self.known[script as usize].is_forgotten = is_forgotten;
    }

    /// The digest by which the script can be called. `None` if it must be sent as text.
    pub(crate) fn digest(&self, script: Script) -> Option<&str> {
        let known = &self.known[script as usize];
        // Some scripts are never loaded: the answer to a script's text does not contain its digest.
        (!known.is_forgotten && !known.digest.is_empty()).then_some(&known.digest)
    }

    pub(crate) const fn prefix(&self) -> &Arc<str> {
        &self.prefix
    }
}

#[derive(Clone, Debug)]
struct Known {
    digest: String,
    is_forgotten: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self { digest: String::new(), is_forgotten: true }
    }
}
