//! What a review of the default mode found, one test for each finding. The first line of each says
//! what went wrong.

mod access;
mod leases;
mod limits;
mod memory;
mod scripts;
