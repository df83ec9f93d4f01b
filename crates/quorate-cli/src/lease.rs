//! `quorate acquire`, `renew` and `release`: locks for scripts that consist of several commands.

use std::{
    env, fs, io,
    io::Write as _,
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use quorate::{ClientBuilder, DetachedLease, ParseLeaseError};
use serde_json::json;

use crate::{
    exit::{BUSY, Failure, IO},
    progress,
    reporter::Reporter,
    run::{LockArgs, Request, Signals, WaitArgs, by_signal, check_nodes, lock, with_name},
    runtime,
    settings::NodeArgs,
    time, who,
};

/// Acquire a lock and print its lease
#[derive(Args, Debug)]
pub(crate) struct Acquire {
    /// Name of the lock, or of the permits
    name: String,
    #[command(flatten)]
    wait_args: WaitArgs,
    #[command(flatten)]
    lock_args: LockArgs,
    /// Rejected with an explanation: one output holds one lease.
    #[arg(long, value_name = "NUMBER", hide = true)]
    take: Option<String>,
    /// Exit code if the lock is held
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = BUSY)]
    conflict_exit_code: u8,
    /// Time until the lock expires unless it is renewed [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    ttl: Option<Duration>,
    /// Format of the lease on standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    node_args: NodeArgs,
    #[command(flatten)]
    pub(crate) reporter: Reporter,
}

/// Renew or release a lease
#[derive(Args, Debug)]
pub(crate) struct Lease {
    /// Lease, as printed by `quorate acquire`. Without it, QUORATE_LEASE is used, which keeps the
    /// lease out of the process list
    lease: Option<String>,
    #[command(flatten)]
    node_args: NodeArgs,
    #[command(flatten)]
    pub(crate) reporter: Reporter,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Format {
    /// The lease alone
    #[default]
    Text,
    /// Variables for a shell: `eval "$(quorate acquire NAME --format sh)" || exit`. If it fails,
    /// the text unsets the variables and fails with the exit code
    Sh,
    /// One JSON object, for errors too
    Json,
}

impl Acquire {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        if is_discarded(&io::stdout()) {
            return Err(Failure::new(IO, NO_READER));
        }
        if self.take.is_some() {
            return Err(Failure::usage(ONE_PERMIT));
        }
        let settings = self.node_args.settings()?;
        settings.warn(&self.reporter);
        settings.note_local_locks(&self.reporter);
        let ttl = self.ttl.map_or_else(|| settings.ttl(), Ok)?;
        let identity = self.lock_args.identity(true)?;
        let builder = identity.apply_to(settings.builder()?);
        // This process ends before the lease does.
        let builder = match settings.who() {
            Some(_) => builder,
            None => builder.who(who::of_caller().text(None)),
        };
        let request = self.lock_args.single_request(&self.name, &identity);
        block_on(async {
            let mut signals = Signals::listen()
                .map_err(|error| Failure::system("cannot handle signals", error))?;
            tokio::select! {
                biased;
                signal = signals.next_terminating() => {
                    self.reporter.status("");
                    Ok(by_signal(signal))
                }
                acquired = self.acquire(builder, &request, ttl) => match acquired {
                    Ok(()) => Ok(0),
                    Err(failure) if failure.code == BUSY => self.report_conflict(failure),
                    Err(failure) => Err(failure),
                },
            }
        })
    }

    /// The lock is held. With `--format json` this is the result, so it is always written.
    fn report_conflict(&self, failure: Failure) -> Result<u8, Failure> {
        if self.is_json() {
            return Err(Failure { code: self.conflict_exit_code, ..failure });
        }
        self.reporter.conflict(&failure.text);
        Ok(self.conflict_exit_code)
    }

    async fn acquire(
        &self,
        builder: ClientBuilder,
        request: &Request<'_>,
        ttl: Duration,
    ) -> Result<(), Failure> {
        let client = builder.build()?;
        let limit = self.wait_args.limit();
        let guard = lock(&client, request, ttl, limit, &self.reporter).await?;
        if let Err(failure) = check_nodes(&client).await {
            // The process ends, so the release must not continue in the background.
            let _ = guard.release().await;
            return Err(failure);
        }
        let (left, since) = (guard.remaining(), Instant::now());
        let permit = request.permit_number(guard.name());
        let lease = guard.detach().await?;
        let left = left.saturating_sub(since.elapsed());
        let text = match self.format {
            Format::Text => format!("{}\n", lease.expose_secret()),
            Format::Sh => shell_text(&lease, permit),
            Format::Json => format!("{}\n", json_value(&lease, permit, left)),
        };
        if let Err(error) = io::stdout().write_all(text.as_bytes()) {
            // No caller has received the lease, so no caller could release it.
            let _ = client.release_lease(&lease).await;
            return Err(Failure::new(
                IO,
                format!("cannot write the lease to standard output: {error}"),
            ));
        }
        Ok(())
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Makes a shell that evaluates the output fail with this code.
    pub(crate) fn print_shell_failure(&self, code: u8) {
        if self.format == Format::Sh {
            print_shell_failure(code);
        }
    }
}

/// Prints a text that fails with this code in a shell that evaluates it, and that unsets the
/// variables of a lease. An empty text would succeed.
pub(crate) fn print_shell_failure(code: u8) {
    let text = format!("unset {}; (exit {code})\n", VARIABLES.join(" "));
    // There is no other way to report that standard output failed.
    let _ = io::stdout().write_all(text.as_bytes());
}

impl Lease {
    /// Renews the lease for its ttl.
    pub(crate) fn renew(&self) -> Result<u8, Failure> {
        let (lease, builder) = self.parts()?;
        ask_nodes(async {
            let left = builder.connect().await?.renew_lease(&lease).await;
            let left = left.map_err(|error| with_name(lease.name(), error.into()))?;
            self.reporter.detail(&format!(
                "renewed {:?}: it expires in {}",
                lease.name(),
                time::shown(left)
            ));
            Ok(0)
        })
    }

    /// Releases the lease.
    pub(crate) fn release(&self) -> Result<u8, Failure> {
        let (lease, builder) = self.parts()?;
        ask_nodes(async {
            let released = builder.connect().await?.release_lease(&lease).await;
            released.map_err(|error| with_name(lease.name(), error.into()))?;
            self.reporter.detail(&format!("released {:?}", lease.name()));
            Ok(0)
        })
    }

    fn parts(&self) -> Result<(DetachedLease, ClientBuilder), Failure> {
        // Text that is not UTF-8 is not a lease: parsing reports it below.
        let variable = || env::var_os("QUORATE_LEASE").filter(|text| !text.is_empty());
        let variable = || variable().map(|text| text.to_string_lossy().into_owned());
        let missing =
            || Failure::usage("no lease given: pass it as an argument or set QUORATE_LEASE");
        let text = self.lease.clone().or_else(variable).ok_or_else(missing)?;
        // Trims only line endings: the name of a lock may end with a blank.
        let lease = text.trim_end_matches(['\r', '\n']).parse::<DetachedLease>();
        let lease = lease.map_err(|error| match error {
            ParseLeaseError::Malformed => Failure::usage(NOT_A_LEASE),
            error => Failure::usage(error.to_string()),
        })?;
        // Two leases pasted together parse as one lease with a strange name, which the error would
        // reveal.
        if lease.name().contains(LEASE_MARK) {
            return Err(Failure::usage(NOT_A_LEASE));
        }
        let settings = self.node_args.settings()?;
        settings.warn(&self.reporter);
        Ok((lease, settings.builder()?))
    }
}

/// Variables that this lease does not set are unset: they may be left from an earlier lease.
fn shell_text(lease: &DetachedLease, permit: Option<u32>) -> String {
    let fence = lease.fence().map(|fence| fence.to_string());
    let permit = permit.map(|number| number.to_string());
    let values = [Some(lease.expose_secret()), Some(lease.name().to_owned()), fence, permit];
    let line = |(name, value): (&str, Option<String>)| match value {
        Some(value) => format!("export {name}={};\n", quoted(&value)),
        None => format!("unset {name};\n"),
    };
    VARIABLES.into_iter().zip(values).map(line).collect()
}

/// Safe in every shell: between single quotes only the single quote has a meaning.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn json_value(lease: &DetachedLease, permit: Option<u32>, left: Duration) -> serde_json::Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "schema_version": 1,
        "lease": lease.expose_secret(),
        "name": lease.name(),
        "fence": lease.fence().map(quorate::fence::Fence::get),
        "permit": permit,
        "ttl_ms": millis(lease.ttl()),
        "valid_for_ms": millis(left),
    })
}

/// Asks the nodes about a lease, which takes no longer than they need to answer.
fn ask_nodes(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    progress::during(progress::NODES, || block_on(work))
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime::start()?.block_on(work)
}

/// Whether the output is discarded. A closed descriptor counts too: the runtime opens /dev/null in
/// its place before this check.
fn is_discarded(out: &io::Stdout) -> bool {
    let output = out.as_fd().try_clone_to_owned().map(fs::File::from);
    let (Ok(out), Ok(null)) = (output.and_then(|it| it.metadata()), fs::metadata("/dev/null"))
    else {
        return false;
    };
    out.rdev() == null.rdev() && null.rdev() != 0
}

/// The variables for a shell, in this order: the lease, the name, the fence, the permit.
const VARIABLES: [&str; 4] = ["QUORATE_LEASE", "QUORATE_LOCK", "QUORATE_FENCE", "QUORATE_PERMIT"];

/// The prefix of a lease.
const LEASE_MARK: &str = "quorate-lease-";

const ONE_PERMIT: &str = "--take is an option of `quorate run` only: `quorate acquire` prints one \
                          lease, so it acquires one permit";

const NOT_A_LEASE: &str = "invalid lease: pass the text that `quorate acquire` printed";

const NO_READER: &str = "standard output is closed or /dev/null, so the lease would be lost: the \
                         lock was not acquired. Redirect standard output to a file or a pipe";
