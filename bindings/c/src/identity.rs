//! The identity of this side, and the peers that it trusts.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use festina::security::{self, Fingerprint, SecurityError};

use crate::boundary::{guard_text, text, zero_terminated};
use crate::status::{Status, free, hand_over, required};

/// A certificate chain and its private key.
#[derive(Debug)]
pub struct Identity(pub(crate) security::Identity);

/// Which peers are trusted.
#[derive(Debug)]
pub struct Trust(pub(crate) security::Trust);

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

/// Writes the fingerprint of the own certificate.
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

/// Trusts fingerprints.
#[unsafe(no_mangle)]
pub extern "C" fn festina_trust_fingerprints(
    fingerprints: *const c_char,
    trust: Option<&mut MaybeUninit<Box<Trust>>>,
) -> Status {
    hand_over("trust", trust, || {
        let words = required("fingerprints", text("the fingerprints", fingerprints)?)?.split_whitespace();
        let fingerprints: Vec<Fingerprint> = words.map(str::parse).collect::<Result<_, SecurityError>>()?;
        if fingerprints.is_empty() {
            return Err(SecurityError::Fingerprint.into());
        }
        Ok(Trust(security::Trust::fingerprints(fingerprints)))
    })
}

/// Frees a trust.
#[unsafe(no_mangle)]
pub extern "C" fn festina_trust_free(trust: Option<Box<Trust>>) -> Status {
    free(trust)
}
