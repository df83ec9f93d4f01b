//! The restart guard on real servers: a node that may have forgotten does not vote.

mod changes;
mod founding;
mod stage;
