//! `quorate acquire`, `renew` and `release`: for scripts that are no single command.

use std::{env, io, io::Write as _, time::Duration};

use clap::{Args, ValueEnum};
use quorate::{ClientBuilder, LeaseHandover};
use serde_json::json;

use crate::{
    exit::{BUSY, Failure, IO, SOFTWARE},
    run::{Patience, Signals, by_signal, lock, named},
    settings::Place,
    time,
    voice::Voice,
};

/// Takes a lock and leaves it to expire, with what is needed to renew and release it.
#[derive(Args, Debug)]
pub(crate) struct Acquire {
    /// The name of the lock.
    name: String,
    #[command(flatten)]
    patience: Patience,
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
    /// Variables for a shell: `eval "$(quorate acquire NAME --format sh)"`.
    Sh,
    /// One JSON object.
    Json,
}

impl Acquire {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let settings = self.place.settings()?;
        settings.warn(&self.voice);
        if settings.is_local_by_default() {
            self.voice.warn("no nodes are configured: the lock is local to this machine");
        }
        let ttl = self.ttl.unwrap_or_else(|| settings.ttl());
        let builder = settings.builder()?;
        block_on(async {
            let mut signals =
                Signals::listen().map_err(|error| Failure::new(SOFTWARE, error.to_string()))?;
            tokio::select! {
                biased;
                signal = signals.end() => Ok(by_signal(signal)),
                taken = self.take(builder, ttl) => taken.map(|()| 0),
            }
        })
    }

    async fn take(&self, builder: ClientBuilder, ttl: Duration) -> Result<(), Failure> {
        let client = match self.patience.limit() {
            Some(Duration::ZERO) => builder.connect().await?,
            Some(_) | None => builder.build()?,
        };
        let locked = lock(&client, &self.name, ttl, self.patience.limit()).await;
        let guard = locked.map_err(|failure| match failure.code {
            BUSY => named(&self.name, Failure { code: self.conflict_exit_code, ..failure }),
            _ => named(&self.name, failure),
        })?;
        let left = guard.remaining();
        let lease = guard.leave_to_expire();
        let text = match self.format {
            Format::Text => format!("{lease}\n"),
            Format::Sh => for_shell(&lease),
            Format::Json => format!("{}\n", for_programs(&lease, left)),
        };
        if let Err(error) = io::stdout().write_all(text.as_bytes()) {
            // Nobody has it, so nobody could give it back.
            let _ = client.release_lease(&lease).await;
            return Err(Failure::new(IO, format!("cannot write: {error}")));
        }
        Ok(())
    }
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

    fn parts(&self) -> Result<(LeaseHandover, ClientBuilder), Failure> {
        let text = self.lease.clone().or_else(|| env::var("QUORATE_LEASE").ok());
        let missing =
            || Failure::usage("no lease is given: write it as an argument, or set QUORATE_LEASE");
        let lease = text.ok_or_else(missing)?.trim().parse::<LeaseHandover>();
        let lease = lease.map_err(|error| Failure::usage(error.to_string()))?;
        let settings = self.place.settings()?;
        settings.warn(&self.voice);
        Ok((lease, settings.builder()?))
    }
}

fn for_shell(lease: &LeaseHandover) -> String {
    let fence = lease.fence().map(|fence| fence.to_string()).unwrap_or_default();
    let variables = [
        ("QUORATE_LEASE", lease.to_string()),
        ("QUORATE_LOCK", lease.name().to_owned()),
        ("QUORATE_FENCE", fence),
    ];
    let line = |(name, value): (&str, String)| format!("export {name}={};\n", quoted(&value));
    variables.into_iter().map(line).collect()
}

/// Safe in every shell: nothing has a meaning between these quotes but the quote itself.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn for_programs(lease: &LeaseHandover, left: Duration) -> serde_json::Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "schema_version": 1,
        "lease": lease.to_string(),
        "name": lease.name(),
        "fence": lease.fence().map(quorate::fence::Fence::get),
        "ttl_ms": millis(lease.ttl()),
        "valid_for_ms": millis(left),
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(SOFTWARE, error.to_string()))?;
    runtime.block_on(work)
}
