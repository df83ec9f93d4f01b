//! The methods of a blocking type that call the same method of its async counterpart.

/// Writes the methods that all guards have. `it` is a guard, and the expression its async guard.
/// The path is that of the async counterpart, for links.
macro_rules! delegate_hold {
    ($guard:ident, $path:literal, |$it:ident| $async:expr) => {
        impl $guard {
            #[doc = concat!("See [`", $path, "::remaining`].")]
            #[must_use]
            pub fn remaining(&self) -> std::time::Duration {
                let $it = self;
                $async.remaining()
            }

            #[doc = concat!("See [`", $path, "::check`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", $path, "::check`].")]
            pub fn check(&self) -> Result<(), crate::error::Lost> {
                let $it = self;
                $async.check()
            }

            #[doc = concat!("See [`", $path, "::is_at_risk`].")]
            #[must_use]
            pub fn is_at_risk(&self) -> bool {
                let $it = self;
                $async.is_at_risk()
            }

            #[doc = concat!("See [`", $path, "::loss_token`].")]
            #[must_use]
            pub fn loss_token(&self) -> crate::LossToken {
                let $it = self;
                $async.loss_token()
            }

            #[doc = concat!("Blocks until this hold is lost. See [`", $path, "::lost`].")]
            #[must_use]
            pub fn wait_until_lost(&self) -> crate::error::Lost {
                let $it = self;
                $crate::blocking::wait($async.lost())
            }

            #[doc = concat!("See [`", $path, "::verify`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", $path, "::verify`].")]
            pub fn verify(&self) -> Result<(), crate::error::VerifyError> {
                let $it = self;
                $crate::blocking::wait($async.verify())
            }

            #[doc = concat!("See [`", $path, "::extend`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", $path, "::extend`].")]
            pub fn extend(
                &self,
                ttl: std::time::Duration,
            ) -> Result<(), crate::error::ExtendError> {
                let $it = self;
                $crate::blocking::wait($async.extend(ttl))
            }

            #[doc = concat!("See [`", $path, "::release`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", $path, "::release`].")]
            pub fn release(self) -> Result<(), crate::error::ReleaseError> {
                let $it = self;
                $crate::blocking::wait($async.release())
            }
        }
    };
}

/// Writes the methods that all guards of one lock have.
macro_rules! delegate_lock {
    ($guard:ident, $path:literal, |$it:ident| $async:expr) => {
        impl $guard {
            #[doc = concat!("See [`", $path, "::name`].")]
            #[must_use]
            pub fn name(&self) -> &str {
                let $it = self;
                $async.name()
            }

            #[doc = concat!("See [`", $path, "::owner_id`].")]
            #[must_use]
            pub fn owner_id(&self) -> crate::OwnerId {
                let $it = self;
                $async.owner_id()
            }

            #[doc = concat!("See [`", $path, "::leave_to_expire`].")]
            pub fn leave_to_expire(self) {
                let $it = self;
                $async.leave_to_expire();
            }

            #[doc = concat!("See [`", $path, "::detach`].")]
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", $path, "::detach`].")]
            pub fn detach(self) -> Result<crate::DetachedLease, crate::error::LeaseError> {
                let $it = self;
                $crate::blocking::wait($async.detach())
            }
        }
    };
}

/// Writes the method of the guards of one lock whose holder has a fence.
macro_rules! delegate_fence {
    ($guard:ident, $path:literal, |$it:ident| $async:expr) => {
        impl $guard {
            #[doc = concat!("See [`", $path, "::fence`].")]
            #[must_use]
            pub fn fence(&self) -> Option<crate::fence::Fence> {
                let $it = self;
                $async.fence()
            }
        }
    };
}

/// Writes the conversion of a guard into the guard that it wraps.
macro_rules! delegate_into_guard {
    ($guard:ident($inner:ident), $path:literal) => {
        impl $guard {
            #[doc = concat!("See [`", $path, "::into_guard`].")]
            pub fn into_guard(self) -> $inner {
                self.0
            }
        }

        impl From<$guard> for $inner {
            fn from(guard: $guard) -> Self {
                guard.into_guard()
            }
        }
    };
}

/// Writes the settings that all locks have.
macro_rules! delegate_settings {
    ($lock:ident, $path:literal) => {
        impl $lock {
            #[doc = concat!("See [`", $path, "::ttl`].")]
            #[must_use]
            pub fn ttl(self, ttl: std::time::Duration) -> Self {
                Self(self.0.ttl(ttl))
            }

            #[doc = concat!("See [`", $path, "::who`].")]
            #[must_use]
            pub fn who(self, who: impl AsRef<str>) -> Self {
                Self(self.0.who(who))
            }

            #[doc = concat!("See [`", $path, "::no_renew`].")]
            #[must_use]
            pub fn no_renew(self) -> Self {
                Self(self.0.no_renew())
            }

            #[doc = concat!("See [`", $path, "::max_hold`].")]
            #[must_use]
            pub fn max_hold(self, max_hold: std::time::Duration) -> Self {
                Self(self.0.max_hold(max_hold))
            }
        }
    };
}

pub(super) use {
    delegate_fence, delegate_hold, delegate_into_guard, delegate_lock, delegate_settings,
};
