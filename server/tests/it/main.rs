//! The program as a user runs it.
