//! The effective settings and their sources. A flag takes precedence over the environment, the
//! environment over a file, and a file over the default.

mod file;
mod report;

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use quorate::{Client, ClientBuilder, Tls};

use self::file::File;
pub(crate) use self::report::SettingsReport;
use crate::{
    exit::{CONFIG, Failure},
    reporter::Reporter,
    time,
};

/// The options that select the nodes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeArgs {
    /// Address of a node, such as redis://10.0.0.1 or localhost:6379. Repeat the option for each
    /// node, or separate the addresses by commas. Without it, QUORATE_NODES, VALKEY_URL, REDIS_URL
    /// and the settings file are tried in this order. If none of them is set, the locks are local
    /// to this machine
    #[arg(long = "node", value_name = "URL", help_heading = "Nodes")]
    nodes: Vec<String>,
    /// Use locks local to this machine, even if nodes are configured
    #[arg(long, conflicts_with = "nodes", help_heading = "Nodes")]
    local: bool,
    /// Directory of the local locks; implies --local. Without it, QUORATE_DIR is used, which does
    /// not imply --local
    #[arg(long, value_name = "DIR", conflicts_with = "nodes")]
    #[arg(help_heading = "Nodes")]
    dir: Option<PathBuf>,
    /// Settings file. Without it, QUORATE_CONFIG, ~/.config/quorate/config.toml and
    /// /etc/quorate/config.toml are tried in this order
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    config: Option<PathBuf>,
    /// Longest ttl of any lock; the same for all clients
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    #[arg(help_heading = "Nodes")]
    max_ttl: Option<Duration>,
    /// Prefix of Quorate's own keys on the nodes; the same for all clients
    #[arg(long, help_heading = "Nodes")]
    prefix: Option<String>,
}

/// A value and its source.
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

/// The source of a value.
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

/// All effective settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The addresses of the nodes; empty for locks local to this machine.
    pub(crate) nodes: Setting<Vec<String>>,
    dir: Setting<Option<PathBuf>>,
    ttl: Setting<Duration>,
    pub(crate) max_ttl: Setting<Duration>,
    pub(crate) prefix: Setting<String>,
    who: Setting<Option<String>>,
    quarantine: Setting<Option<bool>>,
    pub(crate) durable_nodes: Setting<bool>,
    tls_ca: Setting<Option<PathBuf>>,
    tls_cert: Setting<Option<PathBuf>>,
    tls_key: Setting<Option<PathBuf>>,
    /// Warnings about probable mistakes.
    warnings: Vec<String>,
}

impl NodeArgs {
    /// As if these addresses were given with `--node`.
    pub(crate) fn of_nodes(nodes: Vec<String>) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Combines the flags, the environment and the file.
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
            warnings.push(format!(
                "other users can read {path}, which contains a password: use chmod 600 {path}"
            ));
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
        // A user who lowers only `max_ttl` also gets a lower default ttl.
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
        // An explicit folder selects local locks: nodes would ignore it.
        if self.dir.is_some() {
            return Ok(Setting::new(Vec::new(), Source::Flag("--dir")));
        }
        if !self.nodes.is_empty() {
            let nodes: Vec<String> = self.nodes.iter().flat_map(|it| split_addresses(it)).collect();
            let none = || Failure::usage("--node contains no node address: use --node HOST:PORT");
            return (!nodes.is_empty())
                .then_some(Setting::new(nodes, Source::Flag("--node")))
                .ok_or_else(none);
        }
        let mut found = in_file.map(|nodes| Setting::new(nodes, file));
        for variable in ["QUORATE_NODES", "VALKEY_URL", "REDIS_URL"] {
            if let Some(list) = text_of(variable)? {
                found = Some(Setting::new(split_addresses(&list), Source::Environment(variable)));
                break;
            }
        }
        match found {
            // A list was set, so nodes are meant: local locks would not exclude the other clients.
            Some(setting) if setting.value.is_empty() => {
                let what = match &setting.from {
                    Source::File(path) => format!("`nodes` of {}", path.display()),
                    from => from.to_string(),
                };
                let text = format!("{what} contains no node address: remove it, or use --local");
                Err(Failure::new(CONFIG, text))
            }
            Some(setting) => Ok(setting),
            None => Ok(Setting::new(Vec::new(), Source::Default)),
        }
    }

    /// The path of the settings file, if there is one.
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

/// Whether the path exists, even if it cannot be read. If this cannot be determined, it is an
/// error: the nodes may be configured there.
fn is_there(path: &Path) -> Result<bool, Failure> {
    let is_nothing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let unknown = |path: &Path, error: io::Error| {
        let path = path.display();
        let text = format!("cannot tell whether {path} exists: {error}");
        Failure::new(CONFIG, text + "; set QUORATE_CONFIG to use another file, such as /dev/null")
    };
    match fs::symlink_metadata(path) {
        Ok(_) => return Ok(true),
        Err(error) if is_nothing(&error) => {}
        Err(error) => return Err(unknown(path, error)),
    }
    // The nearest existing folder above must not be a dangling link.
    let exists = |folder: &&Path| fs::symlink_metadata(folder).is_ok();
    let folder = path.ancestors().skip(1).find(exists).unwrap_or_else(|| Path::new("/"));
    match fs::metadata(folder) {
        Ok(_) => Ok(false),
        Err(error) => Err(unknown(path, error)),
    }
}

/// The text of an environment variable. An empty one counts as unset.
pub(crate) fn text_of(variable: &'static str) -> Result<Option<String>, Failure> {
    let Some(value) = env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    // The value is not shown: it may contain a password.
    let wrong = |_| Failure::new(CONFIG, format!("${variable} is not UTF-8"));
    value.into_string().map(Some).map_err(wrong)
}

impl Settings {
    /// The builder of a client with these settings.
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
            // The error of the library does not mention the flags of this command.
            None => Client::local_folder().map_err(|_| Failure::new(CONFIG, NO_HOME))?,
        };
        Ok(Client::builder().local(folder))
    }

    fn tls(&self) -> Result<Tls, Failure> {
        let read = |path: &Path| {
            let wrong = |error| format!("cannot read {}: {error}", path.display());
            fs::read(path).map_err(|error| Failure::new(CONFIG, wrong(error)))
        };
        let mut tls = Tls::new();
        if let Some(ca) = &self.tls_ca.value {
            tls = tls.ca_pem(read(ca)?);
        }
        match (&self.tls_cert.value, &self.tls_key.value) {
            (Some(cert), Some(key)) => Ok(tls.identity_pem(read(cert)?, read(key)?)),
            (None, None) => Ok(tls),
            _ => Err(Failure::new(CONFIG, "tls_cert and tls_key must be set together")),
        }
    }

    /// The ttl of locks without `--ttl`.
    pub(crate) fn ttl(&self) -> Result<Duration, Failure> {
        let (ttl, max_ttl) = (&self.ttl, &self.max_ttl);
        let wrong = match ttl.value {
            Duration::ZERO => "zero: use at least 1ms".to_owned(),
            value if value > max_ttl.value => {
                let (shown, max) = (time::shown(value), time::shown(max_ttl.value));
                format!("{shown}, longer than max_ttl, which is {max} ({})", max_ttl.from)
            }
            value => return Ok(value),
        };
        // A default ttl is only wrong because of max_ttl.
        let from = if ttl.from == Source::Default { &max_ttl.from } else { &ttl.from };
        Err(Failure::new(CONFIG, format!("invalid ttl ({from}): it is {wrong}")))
    }

    /// Reports the warnings.
    pub(crate) fn warn(&self, reporter: &Reporter) {
        self.warnings.iter().for_each(|warning| reporter.warn(warning));
    }

    /// Reports, to people who watch, that a lock excludes only processes of this machine because no
    /// nodes are configured. A cron job would send a mail each time.
    pub(crate) fn note_local_locks(&self, reporter: &Reporter) {
        if self.is_local_by_default() {
            reporter.note("no nodes are configured: the lock is local to this machine");
        }
    }

    /// Reports, to people who watch, that only locks of this machine are shown because no nodes are
    /// configured.
    pub(crate) fn note_local_inspection(&self, reporter: &Reporter) {
        if self.is_local_by_default() {
            reporter.note("no nodes are configured: only locks of this machine are shown");
        }
    }

    /// The name of the holder, if it is set.
    pub(crate) fn who(&self) -> Option<&str> {
        self.who.value.as_deref()
    }

    /// Whether the locks are local only because no nodes are configured.
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

/// The addresses in a list separated by commas.
fn split_addresses(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect()
}

fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // A pipe has a single reader.
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o044 != 0)
}

const TTL_DEFAULT: Duration = Duration::from_secs(10);
const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);
const PREFIX_DEFAULT: &str = "quorate:";
const NO_HOME: &str = "no home directory for local locks: use --dir, or set QUORATE_DIR or HOME";
