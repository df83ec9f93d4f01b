//! The restart guard on real servers: a node that may have forgotten does not vote.

#[macro_use]
mod stage;

mod changes;
mod classic;
mod clocks;
mod countdown;
mod damage;
mod durable;
mod forgetting;
mod founding;
mod handing_on;
mod load;
mod looking;
mod refusals;
mod seed_example;
mod views;
