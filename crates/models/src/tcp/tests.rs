//! Both ends over a pipe in virtual time.

mod pipe;

mod basics;
mod linux;
mod recovery;
mod tail;
mod walks;
