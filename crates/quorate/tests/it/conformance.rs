//! The same promises on every engine.
