//! `quorate acquire`, `renew` and `release`: for scripts that are no single command.

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
    run::{Kind, Patience, Signals, Want, by_signal, lock, named},
    runtime,
    settings::Place,
    time,
    voice::Voice,
};

/// Takes a lock and leaves it to expire, with what is needed to renew and release it.
#[derive(Args, Debug)]
pub(crate) struct Acquire {
    /// The name of the lock, or of the permits.
    name: String,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    kind: Kind,
    /// Rejected with a reason: one output is one lease.
    #[arg(long, value_name = "NUMBER", hide = true)]
    take: Option<String>,
    /// The exit code if another has the lock.
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = BUSY)]
    conflict_exit_code: u8,
    /// How long the lock lasts if it is not renewed, 10s by default.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    ttl: Option<Duration>,
    /// How the lease is written to standard output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    pub(crate) voice: Voice,
}

/// Renews or releases a lease.
#[derive(Args, Debug)]
pub(crate) struct Lease {
    /// The lease, as `quorate acquire` has written it. Without it QUORATE_LEASE is read, which
    /// keeps it out of the list of processes.
    lease: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    pub(crate) voice: Voice,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Format {
    /// The lease alone.
    #[default]
    Text,
    /// Variables for a shell, `eval "$(quorate acquire NAME --format sh)" || exit`; if it fails,
    /// what fails with its exit code, and unsets them.
    Sh,
    /// One JSON object, errors too.
    Json,
}

impl Acquire {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        if is_lost(&io::stdout()) {
            return Err(Failure::new(IO, NOWHERE));
        }
        if self.take.is_some() {
            return Err(Failure::usage(ONE_PERMIT));
        }
        let settings = self.place.settings()?;
        settings.warn(&self.voice);
        if settings.is_local_by_default() {
            self.voice.warn("no nodes are configured: the lock is local to this machine");
        }
        let ttl = self.ttl.map_or_else(|| settings.ttl(), Ok)?;
        let identity = self.kind.identity(true)?;
        let builder = identity.put_on(settings.builder()?);
        let want = self.kind.only(&self.name, &identity);
        block_on(async {
            let mut signals = Signals::listen()
                .map_err(|error| Failure::system("cannot listen to signals", error))?;
            tokio::select! {
                biased;
                signal = signals.end() => {
                    self.voice.status("");
                    Ok(by_signal(signal))
                }
                taken = self.take(builder, &want, ttl) => taken.map(|()| 0),
            }
        })
    }

    async fn take(
        &self,
        builder: ClientBuilder,
        want: &Want<'_>,
        ttl: Duration,
    ) -> Result<(), Failure> {
        let client = builder.build()?;
        let limit = self.patience.limit();
        let locked = lock(&client, want, ttl, limit, &self.voice).await;
        let guard = locked.map_err(|failure| match failure.code {
            BUSY => Failure { code: self.conflict_exit_code, ..failure },
            _ => failure,
        })?;
        let (left, since) = (guard.remaining(), Instant::now());
        let permit = want.permit(guard.name());
        let lease = guard.detach().await?;
        let left = left.saturating_sub(since.elapsed());
        let text = match self.format {
            Format::Text => format!("{lease}\n"),
            Format::Sh => for_shell(&lease, permit),
            Format::Json => format!("{}\n", for_programs(&lease, permit, left)),
        };
        if let Err(error) = io::stdout().write_all(text.as_bytes()) {
            // Nobody has it, so nobody could give it back.
            let _ = client.release_lease(&lease).await;
            return Err(Failure::new(IO, format!("cannot write: {error}")));
        }
        Ok(())
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Has failed with this code: a shell that evaluates what we say must know.
    pub(crate) fn fail_in_shell(&self, code: u8) {
        if self.format == Format::Sh {
            fail_in_shell(code);
        }
    }
}

/// Says what fails with this code in a shell that evaluates it, and leaves nothing there that could
/// be taken for a lease: an empty text would succeed.
pub(crate) fn fail_in_shell(code: u8) {
    let text = format!("unset {}; (exit {code})\n", VARIABLES.join(" "));
    // There is nobody else who could be told.
    let _ = io::stdout().write_all(text.as_bytes());
}

impl Lease {
    /// Lets it live on for its ttl.
    pub(crate) fn renew(&self) -> Result<u8, Failure> {
        let (lease, builder) = self.parts()?;
        block_on(async {
            let left = builder.connect().await?.renew_lease(&lease).await;
            let left = left.map_err(|error| named(lease.name(), error.into()))?;
            self.voice.detail(&format!("{:?} lasts for {}", lease.name(), time::shown(left)));
            Ok(0)
        })
    }

    /// Gives it back.
    pub(crate) fn release(&self) -> Result<u8, Failure> {
        let (lease, builder) = self.parts()?;
        block_on(async {
            let released = builder.connect().await?.release_lease(&lease).await;
            released.map_err(|error| named(lease.name(), error.into()))?;
            Ok(0)
        })
    }

    fn parts(&self) -> Result<(DetachedLease, ClientBuilder), Failure> {
        // What is not UTF-8 is not a lease, which is told below.
        let variable = || env::var_os("QUORATE_LEASE").filter(|text| !text.is_empty());
        let variable = || variable().map(|text| text.to_string_lossy().into_owned());
        let missing =
            || Failure::usage("no lease is given: write it as an argument, or set QUORATE_LEASE");
        let text = self.lease.clone().or_else(variable).ok_or_else(missing)?;
        // Nothing but the line end: the name of a lock may end with a blank.
        let lease = text.trim_end_matches(['\r', '\n']).parse::<DetachedLease>();
        let lease = lease.map_err(|error| match error {
            ParseLeaseError::Malformed => Failure::usage(NOT_A_LEASE),
            error => Failure::usage(error.to_string()),
        })?;
        // Two that were pasted together look like one with a strange name, which would be told.
        if lease.name().contains(LEASE_MARK) {
            return Err(Failure::usage(NOT_A_LEASE));
        }
        let settings = self.place.settings()?;
        settings.warn(&self.voice);
        Ok((lease, settings.builder()?))
    }
}

/// What a lease does not have is nothing that was left there by an earlier one either.
fn for_shell(lease: &DetachedLease, permit: Option<u32>) -> String {
    let fence = lease.fence().map(|fence| fence.to_string());
    let permit = permit.map(|number| number.to_string());
    let values = [Some(lease.to_string()), Some(lease.name().to_owned()), fence, permit];
    let line = |(name, value): (&str, Option<String>)| match value {
        Some(value) => format!("export {name}={};\n", quoted(&value)),
        None => format!("unset {name};\n"),
    };
    VARIABLES.into_iter().zip(values).map(line).collect()
}

/// Safe in every shell: nothing has a meaning between these quotes but the quote itself.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn for_programs(lease: &DetachedLease, permit: Option<u32>, left: Duration) -> serde_json::Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "schema_version": 1,
        "lease": lease.to_string(),
        "name": lease.name(),
        "fence": lease.fence().map(quorate::fence::Fence::get),
        "permit": permit,
        "ttl_ms": millis(lease.ttl()),
        "valid_for_ms": millis(left),
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime::start()?.block_on(work)
}

/// Whether what is written there is read by nobody. A descriptor that was closed is the same place:
/// the runtime opens it there before we are asked.
fn is_lost(out: &io::Stdout) -> bool {
    let written_to = out.as_fd().try_clone_to_owned().map(fs::File::from);
    let (Ok(out), Ok(nowhere)) =
        (written_to.and_then(|it| it.metadata()), fs::metadata("/dev/null"))
    else {
        return false;
    };
    out.rdev() == nowhere.rdev() && nowhere.rdev() != 0
}

/// What a shell is given, in this order: the lease, the name, the fence, the permit.
const VARIABLES: [&str; 4] = ["QUORATE_LEASE", "QUORATE_LOCK", "QUORATE_FENCE", "QUORATE_PERMIT"];

/// How a lease begins.
const LEASE_MARK: &str = "quorate-lease-";

const ONE_PERMIT: &str = "--take is an option of `quorate run` only: `quorate acquire` writes one \
                          lease, so it acquires one permit";

const NOT_A_LEASE: &str = "this is not a lease as `quorate acquire` writes it";

const NOWHERE: &str = "standard output is closed or /dev/null: nobody could renew or release the \
                       lease, so the lock is not taken";
