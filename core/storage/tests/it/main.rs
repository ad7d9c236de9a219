//! All hosts against the contract, on real files and in memory.

mod disk;
mod full;
mod killed;
mod memory;
