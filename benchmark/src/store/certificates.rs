//! The certificates that a store is verified by: those of the web, of this system, and of a file.
//!
//! A server may show a certificate that is itself in the file, such as the one that `openssl req -x509` makes. Such a
//! certificate is its own authority, which the rules of the web refuse for a server. By adding it to the file the user
//! vouches for the server, so it is valid for its names and within its dates.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Returns the TLS configuration that verifies servers. The system's certificates are read if `asks_system`.
pub fn known_servers(bundle: Option<&Path>, asks_system: bool) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if asks_system {
        // Certificates that cannot be read there are ignored, as in any other program.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let mut named = Vec::new();
    if let Some(bundle) = bundle {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", bundle.display());
        for certificate in CertificateDer::pem_file_iter(bundle).map_err(|error| failed(&error))? {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate.clone()).map_err(|error| failed(&error))?;
            named.push(certificate);
        }
        if named.is_empty() {
            return Err(failed(&"it contains no certificate (-----BEGIN CERTIFICATE-----)"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let web = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier = Arc::new(Verifier { web, named });
    Ok(Arc::new(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// Applies the rules of the web, and additionally accepts the certificates of a file themselves.
#[derive(Debug)]
struct Verifier {
    web: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.web.verify_server_cert(shown, between, name, ocsp, now);
        if judged.is_err() && self.named.iter().any(|named| named == shown) {
            return itself(shown, name, now);
        }
        judged
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.web.supported_verify_schemes()
    }
}

/// Verifies a certificate that is in the file, by its name and its dates.
fn itself(shown: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<ServerCertVerified, Error> {
    let wrong = |error| Err(Error::InvalidCertificate(error));
    let Some(facts) = CertificateFields::of(shown) else { return wrong(CertificateError::BadEncoding) };
    if now.as_secs() < facts.from {
        return wrong(CertificateError::NotValidYet);
    }
    if now.as_secs() > facts.to {
        return wrong(CertificateError::Expired);
    }
    if facts.common_name.is_some_and(|common| common.eq_ignore_ascii_case(name.to_str().as_bytes())) {
        return Ok(ServerCertVerified::assertion());
    }
    rustls::client::verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
    Ok(ServerCertVerified::assertion())
}

/// The fields of a certificate.
struct CertificateFields<'a> {
    /// Seconds since 1970.
    from: u64,
    to: u64,
    common_name: Option<&'a [u8]>,
}

/// The object identifier of a common name, 2.5.4.3, in its encoding.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];

impl CertificateFields<'_> {
    fn of<'a>(certificate: &'a CertificateDer<'_>) -> Option<CertificateFields<'a>> {
        let (_, whole, _) = element(certificate)?;
        let (_, mut fields, _) = element(whole)?;
        let mut next = || {
            let (kind, body, rest) = element(fields)?;
            fields = rest;
            Some((kind, body))
        };
        // The version is absent in version 1; serial number, algorithm and issuer follow.
        if next()?.0 == 0xa0 {
            next()?;
        }
        next()?;
        next()?;
        let (_, dates) = next()?;
        let (_, subject) = next()?;
        let (kind, from, rest) = element(dates)?;
        let (last_kind, to, _) = element(rest)?;
        let common_name = subject.windows(COMMON_NAME.len()).position(|some| some == COMMON_NAME);
        let common_name = common_name.and_then(|at| element(&subject[at + COMMON_NAME.len()..])).map(|found| found.1);
        Some(CertificateFields { from: seconds(kind, from)?, to: seconds(last_kind, to)?, common_name })
    }
}

/// Returns the first element of DER: its kind, its body, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (body, rest) = rest.split_at_checked(length)?;
    Some((*kind, body, rest))
}

/// Parses a date of a certificate: `YYMMDDhhmmssZ`, or with a four-digit year.
fn seconds(kind: u8, text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"Z")?;
    let number = |some: &[u8]| {
        some.iter().try_fold(0u64, |all, digit| {
            Some(all * 10 + u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?))
        })
    };
    let (year, rest) = match (kind, digits.len()) {
        (0x17, 12) => {
            let year = number(&digits[..2])?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (0x18, 14) => (number(&digits[..4])?, &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| number(&rest[at..at + 2]).unwrap_or(99));
    // Days since 1970, with years that start in March.
    let (shifted, in_year) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * in_year + 2) / 5 + day;
    let since = days.checked_sub(719_469)?;
    Some(since * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Returns the remedy for a handshake that failed permanently; `None` if another attempt may succeed.
pub fn remedy(error: &io::Error) -> Option<String> {
    use CertificateError as Wrong;
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let bundle = "++workload.storage.storage_options.ca_bundle=FILE (or AWS_CA_BUNDLE)";
    Some(match error {
        Error::InvalidCertificate(Wrong::UnknownIssuer) => {
            format!("set the file of its authority, or of the certificate itself: {bundle}")
        }
        Error::InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) => {
            "use a name of the certificate in endpoint_url (openssl's -addext subjectAltName=DNS:NAME,IP:ADDRESS \
             creates a certificate with that name)"
                .into()
        }
        Error::InvalidCertificate(Wrong::Expired | Wrong::ExpiredContext { .. }) => {
            "renew the store's certificate, or correct this host's clock".into()
        }
        Error::InvalidCertificate(Wrong::NotValidYet | Wrong::NotValidYetContext { .. }) => {
            "correct this host's clock: the certificate is not valid yet".into()
        }
        Error::InvalidCertificate(Wrong::Other(_)) => {
            format!("the certificate belongs to an authority, not a server; to accept it anyway, set {bundle}")
        }
        Error::InvalidCertificate(_) => "fix the store's certificate".into(),
        Error::InvalidMessage(_) => {
            "this port does not use TLS: write endpoint_url with http://, or use the TLS port".into()
        }
        Error::PeerIncompatible(_) => "enable TLS 1.2 or 1.3 in the store".into(),
        Error::AlertReceived(_) => "check the store's log: it rejected the handshake".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        assert_eq!(seconds(0x17, b"700101000000Z"), Some(0));
        assert_eq!(seconds(0x17, b"240229235959Z"), Some(1_709_251_199));
        assert_eq!(seconds(0x18, b"21000301000000Z"), Some(4_107_542_400));
        assert_eq!(seconds(0x17, b"7001010000Z"), None);
    }
}
