//! Servers that die, stop, or go silent while locks are taken.
