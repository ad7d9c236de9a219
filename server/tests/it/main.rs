//! The program as a user runs it, and the files that are generated from its table of settings.

mod command_line;
mod generated;
mod program;
mod serving;
