//! `kill -9` at random moments, and damage at the end of the log: nothing acknowledged is lost in silence, and no offset ever
//! carries two contents.

mod ledger;
mod rounds;
mod tail_damage;
mod traffic;
