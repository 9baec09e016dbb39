//! The identity of this side, and the peers that it trusts.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use festina::blocking::bindings::ForkGuard;
use festina::security::{self, Fingerprint, SecurityError};

use crate::boundary::{guard_text, text, zero_terminated};
use crate::status::{Failure, Status, behind, free, guard, guard_value, hand_over, required};

/// A private key, with a certificate chain or as a raw public key.
#[derive(Debug)]
pub struct Identity(pub(crate) security::Identity);

/// Which peers are trusted.
#[derive(Debug)]
pub struct Trust(pub(crate) security::Trust);

/// Sessions that a client resumes.
pub type Sessions = ForkGuard<security::Sessions>;

/// Creates a key and a self-signed certificate.
#[unsafe(no_mangle)]
pub extern "C" fn festina_identity_self_signed(
    name: *const c_char,
    identity: Option<&mut MaybeUninit<Box<Identity>>>,
) -> Status {
    hand_over("identity", identity, || {
        let name = required("name", text("the name", name)?)?;
        Ok(Identity(security::Identity::self_signed(name)?))
    })
}

/// Reads a certificate chain and its private key from PEM.
#[unsafe(no_mangle)]
pub extern "C" fn festina_identity_from_pem(
    chain_pem: *const c_char,
    key_pem: *const c_char,
    identity: Option<&mut MaybeUninit<Box<Identity>>>,
) -> Status {
    hand_over("identity", identity, || {
        let chain = required("chain_pem", zero_terminated(chain_pem))?;
        let key = required("key_pem", zero_terminated(key_pem))?;
        Ok(Identity(security::Identity::from_pem(chain, key)?))
    })
}

/// Creates a key that is shown without a certificate.
#[unsafe(no_mangle)]
pub extern "C" fn festina_identity_raw_key(identity: Option<&mut MaybeUninit<Box<Identity>>>) -> Status {
    hand_over("identity", identity, || Ok(Identity(security::Identity::raw_key()?)))
}

/// Reads a private key from PEM, to be shown without a certificate.
#[unsafe(no_mangle)]
pub extern "C" fn festina_identity_raw_key_from_pem(
    key_pem: *const c_char,
    identity: Option<&mut MaybeUninit<Box<Identity>>>,
) -> Status {
    hand_over("identity", identity, || {
        let key = required("key_pem", zero_terminated(key_pem))?;
        Ok(Identity(security::Identity::raw_key_from_pem(key)?))
    })
}

/// Writes the fingerprint of the own certificate or raw public key.
#[unsafe(no_mangle)]
pub extern "C" fn festina_identity_fingerprint(
    identity: Option<&Identity>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || Ok(required("identity", identity)?.0.fingerprint().to_string()))
}

/// Writes the chain and the private key as PEM.
#[unsafe(no_mangle)]
pub extern "C" fn festina_identity_pem(identity: Option<&Identity>, buffer: *mut c_char, capacity: usize) -> usize {
    guard_text(buffer, capacity, || Ok(required("identity", identity)?.0.to_pem()))
}

/// Frees an identity.
#[unsafe(no_mangle)]
pub extern "C" fn festina_identity_free(identity: Option<Box<Identity>>) -> Status {
    free(identity)
}

/// Trusts the certificate authorities of the operating system.
#[unsafe(no_mangle)]
pub extern "C" fn festina_trust_platform_roots(trust: Option<&mut MaybeUninit<Box<Trust>>>) -> Status {
    hand_over("trust", trust, || Ok(Trust(security::Trust::platform_roots())))
}

/// Trusts certificate authorities given as PEM.
#[unsafe(no_mangle)]
pub extern "C" fn festina_trust_roots_from_pem(
    roots_pem: *const c_char,
    trust: Option<&mut MaybeUninit<Box<Trust>>>,
) -> Status {
    hand_over("trust", trust, || {
        let roots = required("roots_pem", zero_terminated(roots_pem))?;
        Ok(Trust(security::Trust::roots_from_pem(roots)?))
    })
}

/// Trust by fingerprints as text.
fn by_fingerprint(fingerprints: *const c_char) -> Result<security::Trust, Failure> {
    let words = required("fingerprints", text("the fingerprints", fingerprints)?)?.split_whitespace();
    let fingerprints: Vec<Fingerprint> = words.map(str::parse).collect::<Result<_, SecurityError>>()?;
    if fingerprints.is_empty() {
        return Err(SecurityError::Fingerprint.into());
    }
    Ok(security::Trust::fingerprints(fingerprints))
}

/// Trusts certificates with these fingerprints.
#[unsafe(no_mangle)]
pub extern "C" fn festina_trust_fingerprints(
    fingerprints: *const c_char,
    trust: Option<&mut MaybeUninit<Box<Trust>>>,
) -> Status {
    hand_over("trust", trust, || Ok(Trust(by_fingerprint(fingerprints)?)))
}

/// Trusts raw public keys with these fingerprints.
#[unsafe(no_mangle)]
pub extern "C" fn festina_trust_raw_keys(
    fingerprints: *const c_char,
    trust: Option<&mut MaybeUninit<Box<Trust>>>,
) -> Status {
    hand_over("trust", trust, || Ok(Trust(by_fingerprint(fingerprints)?.of_raw_keys())))
}

/// Frees a trust.
#[unsafe(no_mangle)]
pub extern "C" fn festina_trust_free(trust: Option<Box<Trust>>) -> Status {
    free(trust)
}

/// Creates an empty store of sessions.
#[unsafe(no_mangle)]
pub extern "C" fn festina_sessions_new(
    servers_max: usize,
    sessions: Option<&mut MaybeUninit<Box<Sessions>>>,
) -> Status {
    hand_over("sessions", sessions, || Ok(ForkGuard::new(security::Sessions::new(servers_max))))
}

/// Forgets all sessions.
#[unsafe(no_mangle)]
pub extern "C" fn festina_sessions_clear(sessions: Option<&Sessions>) -> Status {
    guard(|| {
        behind("sessions", sessions)?.clear();
        Ok(())
    })
}

/// Forgets the sessions with one server. Returns whether there were any.
#[unsafe(no_mangle)]
pub extern "C" fn festina_sessions_forget(sessions: Option<&Sessions>, server: *const c_char) -> i32 {
    guard_value(0, || {
        let sessions = behind("sessions", sessions)?;
        Ok(sessions.forget(required("server", text("the server", server)?)?).into())
    })
}

/// Frees the program's handle of sessions.
#[unsafe(no_mangle)]
pub extern "C" fn festina_sessions_free(sessions: Option<Box<Sessions>>) -> Status {
    free(sessions)
}
