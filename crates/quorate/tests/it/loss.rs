//! A lost lock: when the loss is reported, to which callers, and what happens to the work.

mod deadlines;
mod majority;
mod reports;
mod watchers;
mod work;
