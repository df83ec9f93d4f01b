//! Quarantine on real servers: a node that may have lost data does not vote.

#[macro_use]
mod fixture;

mod changes;
mod classic;
mod clocks;
mod countdown;
mod damage;
mod durable;
mod forgetting;
mod founding;
mod hand_off;
mod load;
mod read_only;
mod refusals;
mod seed_example;
mod views;
