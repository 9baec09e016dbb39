//! The core from outside: two endpoints and a link in virtual time.

mod hostile;
mod pair;
mod random_walk;
mod rfc9260;
