//! What is in force, and from where: a flag counts before the environment, that before a file, and
//! that before the default.

mod file;
mod shown;

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use quorate::{Client, ClientBuilder, Tls};

use self::file::File;
pub(crate) use self::shown::Shown;
use crate::{
    exit::{CONFIG, Failure},
    time,
    voice::Voice,
};

/// Where the locks are.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Place {
    /// The address of a node, such as redis://10.0.0.1; once for each. Without any, QUORATE_NODES
    /// is read, which has them with commas between, then VALKEY_URL, REDIS_URL, and the file of
    /// settings. If none of them names a node, the locks are local to this machine.
    #[arg(long = "node", value_name = "URL", help_heading = "Where the locks are")]
    nodes: Vec<String>,
    /// Keeps the locks on this machine, whatever nodes are configured.
    #[arg(long, conflicts_with = "nodes", help_heading = "Where the locks are")]
    local: bool,
    /// The folder of the locks of this machine, which are meant then, whatever nodes are
    /// configured. QUORATE_DIR names one that is used only if no node is.
    #[arg(long, value_name = "FOLDER", conflicts_with = "nodes")]
    #[arg(help_heading = "Where the locks are")]
    dir: Option<PathBuf>,
    /// The file of settings. Without it QUORATE_CONFIG names it, or it is
    /// ~/.config/quorate/config.toml or /etc/quorate/config.toml, if there is one.
    #[arg(long, value_name = "FILE", help_heading = "Where the locks are")]
    config: Option<PathBuf>,
    /// The longest ttl of any lock, as all clients have it.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    #[arg(help_heading = "Where the locks are")]
    max_ttl: Option<Duration>,
    /// Where Quorate keeps keys of its own on the nodes, as all clients have it.
    #[arg(long, help_heading = "Where the locks are")]
    prefix: Option<String>,
}

/// A value, and who said it.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) from: Source,
}

impl<T> Setting<T> {
    const fn new(value: T, from: Source) -> Self {
        Self { value, from }
    }
}

/// Who said a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    Flag(&'static str),
    Environment(&'static str),
    File(PathBuf),
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(variable) => write!(f, "${variable}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Everything that is in force.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The addresses; none means this machine.
    pub(crate) nodes: Setting<Vec<String>>,
    dir: Setting<Option<PathBuf>>,
    ttl: Setting<Duration>,
    max_ttl: Setting<Duration>,
    prefix: Setting<String>,
    who: Setting<Option<String>>,
    quarantine: Setting<Option<bool>>,
    durable_nodes: Setting<bool>,
    tls_ca: Setting<Option<PathBuf>>,
    tls_cert: Setting<Option<PathBuf>>,
    tls_key: Setting<Option<PathBuf>>,
    /// What is probably not meant.
    warnings: Vec<String>,
}

impl Place {
    /// Puts together what flags, environment and file say.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let (file, path) = match self.file()? {
            Some(path) => (File::read(&path)?, path),
            None => (File::default(), PathBuf::new()),
        };
        let mut warnings = Vec::new();
        let from_file = || Source::File(path.clone());
        let nodes = self.nodes(file.nodes.as_ref().map(file::Nodes::list), from_file())?;
        if file.nodes.iter().any(file::Nodes::has_password) && is_readable_by_others(&path) {
            let path = path.display();
            warnings.push(format!("{path} holds a password and others can read it: chmod 600"));
        }
        let dir = match (&self.dir, env::var_os("QUORATE_DIR").filter(|dir| !dir.is_empty())) {
            (Some(dir), _) => Setting::new(Some(dir.clone()), Source::Flag("--dir")),
            (None, Some(dir)) => Setting::new(Some(dir.into()), Source::Environment("QUORATE_DIR")),
            (None, None) => optional(file.dir, from_file()),
        };
        let max_ttl = match self.max_ttl {
            Some(max) => Setting::new(max, Source::Flag("--max-ttl")),
            None => or_default(file.max_ttl, MAX_TTL_DEFAULT, from_file()),
        };
        // Who sets the longest ttl only has not asked for a longer one.
        let ttl_default = TTL_DEFAULT.min(max_ttl.value);
        let prefix = self.prefix.clone().map(|it| Setting::new(it, Source::Flag("--prefix")));
        Ok(Settings {
            nodes,
            dir,
            ttl: or_default(file.ttl, ttl_default, from_file()),
            max_ttl,
            prefix: prefix
                .unwrap_or_else(|| or_default(file.prefix, PREFIX_DEFAULT.into(), from_file())),
            who: optional(file.who.filter(|who| !who.trim().is_empty()), from_file()),
            quarantine: optional(file.quarantine, from_file()),
            durable_nodes: or_default(file.durable_nodes, false, from_file()),
            tls_ca: optional(file.tls_ca, from_file()),
            tls_cert: optional(file.tls_cert, from_file()),
            tls_key: optional(file.tls_key, from_file()),
            warnings,
        })
    }

    fn nodes(
        &self,
        in_file: Option<Vec<String>>,
        file: Source,
    ) -> Result<Setting<Vec<String>>, Failure> {
        if self.local {
            return Ok(Setting::new(Vec::new(), Source::Flag("--local")));
        }
        // Whoever names the folder here and now means it, and nodes would not know it.
        if self.dir.is_some() {
            return Ok(Setting::new(Vec::new(), Source::Flag("--dir")));
        }
        if !self.nodes.is_empty() {
            return Ok(Setting::new(self.nodes.clone(), Source::Flag("--node")));
        }
        let mut said = in_file.map(|nodes| Setting::new(nodes, file));
        for variable in ["QUORATE_NODES", "VALKEY_URL", "REDIS_URL"] {
            if let Some(list) = text_of(variable)? {
                said = Some(Setting::new(separate(&list), Source::Environment(variable)));
                break;
            }
        }
        match said {
            // Whoever has set it means nodes, and must not get locks of this machine.
            Some(said) if said.value.is_empty() => {
                let what = match &said.from {
                    Source::File(path) => format!("`nodes` of {}", path.display()),
                    from => from.to_string(),
                };
                let text = format!("{what} names no node: leave it out, or say --local");
                Err(Failure::new(CONFIG, text))
            }
            Some(said) => Ok(said),
            None => Ok(Setting::new(Vec::new(), Source::Default)),
        }
    }

    /// The file of settings, if there is one.
    fn file(&self) -> Result<Option<PathBuf>, Failure> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = &self.config {
            return Ok(Some(path.clone()));
        }
        if let Some(path) = set("QUORATE_CONFIG") {
            return Ok(Some(path.into()));
        }
        let home = || set("HOME").map(|home| Path::new(&home).join(".config"));
        let own = set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
        for folder in own.into_iter().chain([PathBuf::from("/etc")]) {
            let path = folder.join("quorate/config.toml");
            if is_there(&path)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// Whether there is something, even if it cannot be read. Who may not look has not seen that there
/// is nothing: the nodes may be written there.
fn is_there(path: &Path) -> Result<bool, Failure> {
    let is_nothing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let unknown = |path: &Path, error: io::Error| {
        let path = path.display();
        let text = format!("whether there are settings at {path} cannot be seen: {error}");
        Failure::new(CONFIG, text + "; QUORATE_CONFIG can name another file, such as /dev/null")
    };
    match fs::symlink_metadata(path) {
        Ok(_) => return Ok(true),
        Err(error) if is_nothing(&error) => {}
        Err(error) => return Err(unknown(path, error)),
    }
    // The first folder on the way back that there is must not be a link to nowhere.
    let is_seen = |folder: &&Path| fs::symlink_metadata(folder).is_ok();
    let folder = path.ancestors().skip(1).find(is_seen).unwrap_or_else(|| Path::new("/"));
    match fs::metadata(folder) {
        Ok(_) => Ok(false),
        Err(error) => Err(unknown(path, error)),
    }
}

/// What a variable says; one that is empty says nothing.
pub(crate) fn text_of(variable: &'static str) -> Result<Option<String>, Failure> {
    let Some(value) = env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    // What it is may be a password.
    let wrong = |_| Failure::new(CONFIG, format!("${variable} is not UTF-8"));
    value.into_string().map(Some).map_err(wrong)
}

impl Settings {
    /// The settings of a client of these nodes, or of this machine.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let settings = match self.nodes.value.is_empty() {
            true => self.local()?,
            false => Client::builder().nodes(&self.nodes.value).tls(self.tls()?),
        };
        let (ttl, max_ttl) = (self.ttl.value, self.max_ttl.value);
        let settings = settings.prefix(&self.prefix.value).max_ttl(max_ttl).ttl(ttl.min(max_ttl));
        let settings = settings.durable_nodes(self.durable_nodes.value).max_hold(None);
        let settings = match &self.who.value {
            Some(who) => settings.who(who),
            None => settings,
        };
        Ok(match self.quarantine.value {
            Some(is_on) => settings.quarantine(is_on),
            None => settings,
        })
    }

    fn local(&self) -> Result<ClientBuilder, Failure> {
        let folder = match &self.dir.value {
            Some(folder) => folder.clone(),
            // What it fails with is for programs, which have no flags.
            None => Client::local_folder().map_err(|_| Failure::new(CONFIG, HOMELESS))?,
        };
        Ok(Client::builder().local(folder))
    }

    fn tls(&self) -> Result<Tls, Failure> {
        let read = |path: &Path| {
            let wrong = |error| format!("{} cannot be read: {error}", path.display());
            fs::read(path).map_err(|error| Failure::new(CONFIG, wrong(error)))
        };
        let mut tls = Tls::new();
        if let Some(ca) = &self.tls_ca.value {
            tls = tls.ca_pem(read(ca)?);
        }
        match (&self.tls_cert.value, &self.tls_key.value) {
            (Some(cert), Some(key)) => Ok(tls.identity_pem(read(cert)?, read(key)?)),
            (None, None) => Ok(tls),
            _ => Err(Failure::new(CONFIG, "tls_cert and tls_key go together")),
        }
    }

    /// The ttl of a lock that does not say otherwise.
    pub(crate) fn ttl(&self) -> Result<Duration, Failure> {
        let (ttl, max_ttl) = (&self.ttl, &self.max_ttl);
        let wrong = match ttl.value {
            Duration::ZERO => "no time at all".to_owned(),
            value if value > max_ttl.value => {
                let (shown, max) = (time::shown(value), time::shown(max_ttl.value));
                format!("{shown}, longer than max_ttl, which is {max} ({})", max_ttl.from)
            }
            value => return Ok(value),
        };
        // If nobody set it, somebody has set max_ttl to what made it so.
        let from = if ttl.from == Source::Default { &max_ttl.from } else { &ttl.from };
        Err(Failure::new(CONFIG, format!("the ttl of {from} is {wrong}")))
    }

    /// Says what is probably not meant.
    pub(crate) fn warn(&self, voice: &Voice) {
        self.warnings.iter().for_each(|warning| voice.warn(warning));
    }

    /// Whether the locks are of this machine only because nobody said otherwise.
    pub(crate) fn is_local_by_default(&self) -> bool {
        self.nodes.value.is_empty() && self.nodes.from == Source::Default
    }
}

fn or_default<T>(value: Option<T>, default: T, file: Source) -> Setting<T> {
    match value {
        Some(value) => Setting::new(value, file),
        None => Setting::new(default, Source::Default),
    }
}

fn optional<T>(value: Option<T>, file: Source) -> Setting<Option<T>> {
    let from = if value.is_some() { file } else { Source::Default };
    Setting::new(value, from)
}

/// The addresses of a list with commas between.
fn separate(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect()
}

fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // A pipe is read by one.
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o044 != 0)
}

const TTL_DEFAULT: Duration = Duration::from_secs(10);
const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);
const PREFIX_DEFAULT: &str = "quorate:";
const HOMELESS: &str = "this user has no home for local locks: name a folder by --dir or \
                        QUORATE_DIR, or set HOME";
