//! The manual: what to know before you rely on a lock. These modules have no items.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The chapters in short:
//! let client = quorate::Client::memory();
//! let guard = client.mutex("orders:42").lock().await?;
//! guard.check()?; // before each step that must not overlap
//! guard.run(async { /* work that is dropped when the lock is lost */ }).await?;
//! guard.release().await?; // an error: another owner may have held the lock
//! # Ok(()) }
//! ```

pub mod _01_do_you_need_a_lock;
pub mod _02_holding_a_lock;
pub mod _03_when_things_fail;
pub mod _04_defaults;
