//! The methods of guards that wrap a [`Guard`](super::guard::Guard) or a
//! [`GuardAll`](super::guard_all::GuardAll).

/// Writes the methods that all these guards have. The examples acquire the guard by the expression
/// `lock.acquire.await?`.
macro_rules! delegate_hold {
    ($guard:ident($inner:ident): $lock:literal, $acquire:literal) => {
        impl $guard {
            #[doc = concat!("The same hold as a [`", stringify!($inner), "`], for code that")]
            #[doc = concat!("accepts any [`", stringify!($inner), "`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            #[doc = concat!("let guard: quorate::", stringify!($inner), " = guard.into_guard();")]
            /// guard.check()?;
            /// # Ok(()) }
            /// ```
            pub fn into_guard(self) -> $inner {
                self.0
            }

            /// How long this hold is valid if it is not renewed.
            #[doc = concat!("See [`", stringify!($inner), "::remaining`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// assert!(!guard.remaining().is_zero());
            /// # Ok(()) }
            /// ```
            #[must_use]
            pub fn remaining(&self) -> std::time::Duration {
                self.0.remaining()
            }

            /// Checks that this hold is still valid, without asking the nodes.
            #[doc = concat!("See [`", stringify!($inner), "::check`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($inner), "::check`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// guard.check()?; // before each step that relies on it
            /// # Ok(()) }
            /// ```
            pub fn check(&self) -> Result<(), crate::error::Lost> {
                self.0.check()
            }

            /// True if the last renewal was not confirmed, or a clock jumped.
            #[doc = concat!("See [`", stringify!($inner), "::is_at_risk`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// assert!(!guard.is_at_risk());
            /// # Ok(()) }
            /// ```
            #[must_use]
            pub fn is_at_risk(&self) -> bool {
                self.0.is_at_risk()
            }

            /// Completes when this hold is lost.
            #[doc = concat!("See [`", stringify!($inner), "::lost`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            /// # use std::time::Duration;
            #[doc = concat!("let lock = ", $lock, ".max_hold(Duration::from_millis(20));")]
            #[doc = concat!("let guard = lock.", $acquire, ".await?;")]
            /// eprintln!("{}", guard.lost().await);
            /// assert!(guard.check().is_err());
            /// # Ok(()) }
            /// ```
            pub fn lost(&self) -> impl Future<Output = crate::error::Lost> + Send + Sync + use<> {
                self.0.lost()
            }

            /// A flag that is raised when this hold is lost.
            #[doc = concat!("See [`", stringify!($inner), "::loss_token`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// assert!(!guard.loss_token().is_lost());
            /// # Ok(()) }
            /// ```
            #[must_use]
            pub fn loss_token(&self) -> crate::LossToken {
                self.0.loss_token()
            }

            /// Runs `work` until it is done, or drops it at its next await when this hold is lost.
            #[doc = concat!("See [`", stringify!($inner), "::run`].")]
            ///
            /// # Cancel safety
            ///
            #[doc = concat!("As [`", stringify!($inner), "::run`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($inner), "::run`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// assert_eq!(guard.run(async { 40 + 2 }).await?, 42);
            /// # Ok(()) }
            /// ```
            pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, crate::error::Lost> {
                self.0.run(work).await
            }

            /// Asks the nodes whether a majority still stores this hold.
            #[doc = concat!("See [`", stringify!($inner), "::verify`].")]
            ///
            /// # Cancel safety
            ///
            /// Dropping the future changes nothing.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($inner), "::verify`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// guard.verify().await?;
            /// # Ok(()) }
            /// ```
            pub async fn verify(&self) -> Result<(), crate::error::VerifyError> {
                self.0.verify().await
            }

            /// Extends this hold to `ttl` from now.
            #[doc = concat!("See [`", stringify!($inner), "::extend`].")]
            ///
            /// # Cancel safety
            ///
            #[doc = concat!("As [`", stringify!($inner), "::extend`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($inner), "::extend`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            /// # use std::time::Duration;
            #[doc = concat!("let guard = ", $lock, ".no_renew().", $acquire, ".await?;")]
            /// guard.extend(Duration::from_secs(20)).await?;
            /// assert!(guard.remaining() > Duration::from_secs(15));
            /// # Ok(()) }
            /// ```
            pub async fn extend(
                &self,
                ttl: std::time::Duration,
            ) -> Result<(), crate::error::ExtendError> {
                self.0.extend(ttl).await
            }

            /// Releases this hold on all nodes and reports whether it was still valid.
            #[doc = concat!("See [`", stringify!($inner), "::release`].")]
            ///
            /// # Cancel safety
            ///
            /// Dropping the future does not stop the release: it continues in the background.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($inner), "::release`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// guard.release().await?;
            /// # Ok(()) }
            /// ```
            pub async fn release(self) -> Result<(), crate::error::ReleaseError> {
                self.0.release().await
            }
        }

        impl From<$guard> for $inner {
            fn from(guard: $guard) -> Self {
                guard.into_guard()
            }
        }
    };
}

/// Writes the methods of a guard that wraps the guard of one lock.
macro_rules! delegate_lock {
    ($guard:ident(Guard): $lock:literal, $acquire:literal) => {
        impl $guard {
            /// The name of the lock. See [`Guard::name`].
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// println!("holding {}", guard.name());
            /// # Ok(()) }
            /// ```
            #[must_use]
            pub fn name(&self) -> &str {
                self.0.name()
            }

            /// The id of this hold. See [`Guard::owner_id`].
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// let other = client.mutex("orders:42").lock().await?;
            /// assert_ne!(guard.owner_id(), other.owner_id());
            /// # Ok(()) }
            /// ```
            #[must_use]
            pub fn owner_id(&self) -> crate::OwnerId {
                self.0.owner_id()
            }

            /// Gives up the guard and lets the lease expire. See [`Guard::leave_to_expire`].
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// let name = guard.name().to_owned();
            /// guard.leave_to_expire();
            /// assert!(client.inspect(name).await?.is_held(), "until the ttl has passed");
            /// # Ok(()) }
            /// ```
            pub fn leave_to_expire(self) {
                self.0.leave_to_expire();
            }

            /// Leaves this hold to another process. See [`Guard::detach`].
            ///
            /// # Cancel safety
            ///
            /// As [`Guard::detach`].
            ///
            /// # Errors
            ///
            /// As [`Guard::detach`].
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let guard = ", $lock, ".", $acquire, ".await?;")]
            /// let lease = guard.detach().await?;
            /// client.adopt(&lease).await?.release().await?;
            /// # Ok(()) }
            /// ```
            pub async fn detach(self) -> Result<crate::DetachedLease, crate::error::LeaseError> {
                self.0.detach().await
            }
        }
    };
}

/// Writes what a guard of one lock has if its holder has a fence.
macro_rules! delegate_fence {
    ($guard:ident(Guard): $lock:literal, $acquire:literal) => {
        impl $guard {
            /// The fence of this holder. `None` in classic mode. See [`Guard::fence`].
            ///
            /// # Examples
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = quorate::Client::memory();
            #[doc = concat!("let lock = ", $lock, ";")]
            #[doc = concat!("let first = lock.", $acquire, ".await?.fence(); // and released")]
            #[doc = concat!("assert!(lock.", $acquire, ".await?.fence() > first);")]
            /// # Ok(()) }
            /// ```
            #[must_use]
            pub fn fence(&self) -> Option<crate::fence::Fence> {
                self.0.fence()
            }
        }

        impl AsRef<Guard> for $guard {
            fn as_ref(&self) -> &Guard {
                &self.0
            }
        }
    };
}

pub(super) use {delegate_fence, delegate_hold, delegate_lock};
