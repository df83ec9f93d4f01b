//! A simulator and an exhaustive model of Quorate.

pub mod model;
