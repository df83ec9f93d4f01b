//! One link to one server: order, reconnects, attach, errors.
