//! The scripts that run on a server, and the names under which it keeps them.

/// One script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Script {
    Free,
    Prolong,
    Look,
}

impl Script {
    pub(crate) const ALL: [Self; 3] = [Self::Free, Self::Prolong, Self::Look];

    /// The text of the script.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Free => include_str!("../../../lua/free.lua"),
            Self::Prolong => include_str!("../../../lua/prolong.lua"),
            Self::Look => include_str!("../../../lua/look.lua"),
        }
    }
}

/// The digests under which one server keeps the scripts, as it told at the attach.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digests([String; Script::ALL.len()]);

impl Digests {
    pub(crate) fn set(&mut self, script: Script, digest: String) {
        self.0[script as usize] = digest;
    }

    pub(crate) fn get(&self, script: Script) -> &str {
        &self.0[script as usize]
    }
}
