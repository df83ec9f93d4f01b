//! What a review found, one test for each finding. The first line of each says what went wrong.

mod callers;
mod endings;
mod leases;
mod servers;
mod strangers;
