//! Rules of this repository that no compiler knows.

mod arrows;
mod documents;
mod readme;
mod sans_io;
mod sources;
