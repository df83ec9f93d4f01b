//! The restart guard on real servers: a node that may have forgotten does not vote.

mod forgetting;
mod founding;
mod handing_on;
mod load;
mod stage;
