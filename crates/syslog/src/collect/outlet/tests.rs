//! A peer that fails in the middle of a batch, and one that is not there.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::mpsc::channel;

use bytes::Bytes;

use super::*;
use crate::collect::pipe;
use crate::line::Severity;

/// More than the buffers of both sockets take.
const LINE_BYTES: usize = 200_000;
const LINES: usize = 100;

fn outlet(to: SocketAddr, stops: &Arc<AtomicBool>) -> Outlet {
    Outlet::forward(to, None, Format::Raw, Arc::new(|_: &str| {}), Arc::clone(stops)).expect("no TLS")
}

fn line(number: usize, bytes: usize) -> Record {
    let (source, line) = (Bytes::from_static(b"here"), Bytes::from(format!("{number:08}{}", "x".repeat(bytes))));
    Record { sequence: 1, received_us: 1, marks: 0, severity: Severity::new(3), source, line }
}

/// The numbers of the whole lines in these frames.
fn numbers(mut frames: &[u8]) -> Vec<usize> {
    let mut numbers = Vec::new();
    while let Some(space) = frames.iter().position(|&byte| byte == b' ') {
        let length: usize = std::str::from_utf8(&frames[..space]).expect("text").parse().expect("a frame begins");
        let Some(line) = frames.get(space + 1..space + 1 + length) else { break };
        numbers.push(std::str::from_utf8(&line[..8]).expect("text").parse().expect("a number"));
        frames = &frames[space + 1 + length..];
    }
    numbers
}

#[test]
fn no_line_is_twice_after_a_peer_closed_in_the_middle_of_a_batch() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stops = Arc::new(AtomicBool::new(false));
    let mut outlet = outlet(listener.local_addr().expect("an address"), &stops);
    let batch: Vec<_> = (0..LINES).map(|number| line(number, LINE_BYTES)).collect();
    outlet.hold(&batch);
    outlet.take_held().release();
    outlet.hold(&[line(LINES, 0)]);
    outlet.take_held().release();
    drop(outlet);
    let mut first = vec![0; LINES * LINE_BYTES / 2];
    let (mut peer, _) = listener.accept().expect("it connects");
    peer.read_exact(&mut first).expect("it sends");
    drop(peer);
    let mut second = Vec::new();
    let (mut peer, _) = listener.accept().expect("it connects again");
    peer.read_to_end(&mut second).expect("it sends the rest");
    let all = [numbers(&first), numbers(&second)].concat();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "a line is twice");
    assert_eq!(all.last(), Some(&LINES));
}

#[test]
fn a_peer_that_reads_nothing_holds_up_no_commit_and_its_losses_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut outlet = outlet(listener.local_addr().expect("an address"), &Arc::default());
    let batch: Vec<_> = (0..12).map(|number| line(number, LINE_BYTES)).collect();
    // Almost three times the bound. The peer accepts a connection in its queue and reads nothing.
    let commits = 80;
    assert!(commits * batch.len() * LINE_BYTES > 2 * pipe::PIPE_BYTES_MAX);
    let (ended, end) = channel();
    std::thread::spawn(move || {
        for _ in 0..commits {
            outlet.hold(&batch);
            outlet.take_held().release();
        }
        ended.send(outlet.dropped()).expect("the test waits");
    });
    // With a peer that holds up commits, this takes as long as the test runs.
    let dropped = end.recv_timeout(Duration::from_secs(60)).expect("it does not wait for the peer");
    let all = 80 * 12;
    assert!(dropped >= all / 2 && dropped < all, "{dropped} of {all}");
}

#[test]
fn why_a_peer_takes_nothing_is_a_sentence() {
    for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
        assert_eq!(cause(&io::Error::from(kind)), "it took or sent nothing for 5s");
    }
    let distrust = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
    let cause = cause(&io::Error::new(io::ErrorKind::InvalidData, distrust));
    assert_eq!(cause, "the certificate is not trusted: it has expired; renew it");
}
