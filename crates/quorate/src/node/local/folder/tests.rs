//! Who may use which folder.
