//! Bundles of roots: which of many certificates is damaged.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use webpki::anchor_from_trusted_cert;

use super::SecurityError;
use super::certificates::of_webpki;

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Reads the certificates of a PEM text.
///
/// # Errors
/// There is none, or one is malformed. The error has its number and its line.
pub(super) fn roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let mut roots = Vec::new();
    for (line, section) in sections(pem) {
        let damaged = |problem: String| damaged(roots.len() + 1, Some(line), &problem);
        let root = CertificateDer::from_pem_slice(section).map_err(|error| damaged(explain(&error)))?;
        check(&root).map_err(damaged)?;
        roots.push(root);
    }
    if roots.is_empty() {
        return Err(SecurityError::Certificate("there is no certificate".to_owned()));
    }
    Ok(roots)
}

/// The texts that begin like a certificate, up to the next one, with the numbers of their first lines.
fn sections(pem: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = pem.split_inclusive(|byte| *byte == b'\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end - line.len(), line))
    });
    let mut begins = lines.enumerate().filter(|(_, (_, line))| line.starts_with(BEGIN)).peekable();
    core::iter::from_fn(move || {
        let (number, (start, _)) = begins.next()?;
        let end = begins.peek().map_or(pem.len(), |(_, (start, _))| *start);
        Some((number + 1, pem.get(start..end)?))
    })
}

pub(super) fn explain(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "its line -----END CERTIFICATE----- is missing".to_owned(),
        pem::Error::NoItemsFound => "there is no certificate".to_owned(),
        pem::Error::Base64Decode(_) => "its text is no base64".to_owned(),
        other => other.to_string(),
    }
}

/// Checks that a certificate can be a root.
///
/// # Errors
/// The reason why not, as the end of a sentence.
pub(super) fn check(root: &CertificateDer<'_>) -> Result<(), String> {
    anchor_from_trusted_cert(root).map(|_| ()).map_err(|error| of_webpki(&error))
}

/// The error about a root, by its number in the bundle and the line at which it begins.
pub(super) fn damaged(number: usize, line: Option<usize>, problem: &str) -> SecurityError {
    let at = line.map(|line| format!(", which begins in line {line}")).unwrap_or_default();
    SecurityError::Certificate(format!("root {number} of the bundle{at}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::{Identity, Trust};

    fn text(name: &str) -> String {
        let identity = Identity::self_signed(name).unwrap();
        let pem = identity.to_pem();
        pem[..pem.find("-----BEGIN PRIVATE").unwrap()].to_owned()
    }

    /// Replaces the second line of the third certificate.
    fn with_line(good: &str, line: &str) -> (String, usize) {
        let mut lines: Vec<_> = good.lines().collect();
        let begins = (0..lines.len()).filter(|at| lines[*at].contains("BEGIN")).collect::<Vec<_>>();
        let at = begins[2] + 1;
        lines[at] = line;
        (lines.join("\n"), at)
    }

    #[test]
    fn a_damaged_root_is_named_by_its_number_its_line_and_its_fault() {
        let bundle: String = ["one", "two", "three", "four"].map(|name| format!("# {name}\n{}\n", text(name))).concat();
        assert!(Trust::roots_from_pem(bundle.as_bytes()).is_ok());
        let other_kind = Identity::self_signed("key").unwrap().to_pem() + &bundle;
        assert_eq!(roots(other_kind.as_bytes()).unwrap().len(), 5, "keys in between are no roots");
        for (line, fault) in [
            ("MIIB=%=", "its text is no base64"),
            ("-----BEGIN NOTHING-----", "its line -----END CERTIFICATE----- is missing"),
            ("AAAA", "no well-formed X.509 certificate"),
        ] {
            let (damaged, at) = with_line(&bundle, line);
            let error = Trust::roots_from_pem(damaged.as_bytes()).unwrap_err().to_string();
            let start = format!("cannot use the certificate: root 3 of the bundle, which begins in line {at}: ");
            assert!(error.starts_with(&start) && error.contains(fault), "{line}: {error}");
        }
        let cut = &bundle[..bundle.rfind("-----END").unwrap()];
        let error = Trust::roots_from_pem(cut.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("root 4 of the bundle, which begins in line "), "{error}");
    }
}
