//! One folder over boots, and against the core's store.
