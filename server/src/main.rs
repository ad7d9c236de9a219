//! The program `whippet`; everything is in the library of the same name.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    whippet::cli::run()
}
