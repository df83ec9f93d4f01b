//! A lock that is lost: when that is told, to whom, and what becomes of the work.

mod deadlines;
mod majority;
mod watchers;
mod work;
