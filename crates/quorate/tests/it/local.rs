//! Locks among the processes of one machine, by a folder they share.

pub(crate) mod outside;
