//! The certificate of workers, derived from the shared token.
//!
//! The token determines an Ed25519 key, which is the same on every host. A worker presents a certificate of that key;
//! the coordinator generates the same one and trusts no other. So a trusted worker has the token, and nothing has to
//! be installed.

use std::num::NonZeroU32;

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use ring::pbkdf2;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

use crate::token::Token;

/// The name in the certificates of all workers, regardless of their hosts.
const NAME: &str = "dlio-worker";

/// The bytes before the 32 bytes of an Ed25519 key in PKCS #8: see RFC 8410.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Number of hash rounds per guess at the token: 30 ms of one core.
const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).expect("some rounds");

/// Certificate and key, in PEM.
struct Pair {
    certificate: String,
    key: String,
}

fn pair(token: &Token) -> Result<Pair, String> {
    let mut seed = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, b"dlio cluster key", token.text().as_bytes(), &mut seed);
    let key = [&PKCS8[..], &seed].concat();
    let made = KeyPair::from_pkcs8_der_and_sign_algo(&key.into(), &PKCS_ED25519).and_then(|key| {
        let certificate = CertificateParams::new(vec![NAME.into()])?.self_signed(&key)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    });
    made.map_err(|error| format!("cannot create a certificate from the token: {error}"))
}

/// Returns the TLS configuration by which a worker proves that it has the token.
pub fn of_worker(token: &Token) -> Result<ServerTlsConfig, String> {
    let pair = pair(token)?;
    Ok(ServerTlsConfig::new().identity(Identity::from_pem(pair.certificate, pair.key)))
}

/// Returns the TLS configuration by which a coordinator recognizes its workers.
pub fn for_coordinator(token: &Token) -> Result<ClientTlsConfig, String> {
    let pair = pair(token)?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pair.certificate)).domain_name(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_gives_the_same_key_everywhere() {
        let token = |text: &str| Token::new(text).unwrap();
        let key = |text: &str| pair(&token(text)).unwrap().key;
        let (one, other) = ("0123456789abcdef01234567", "0123456789abcdef01234568");
        assert_eq!(key(one), key(one));
        assert_ne!(key(one), key(other));
    }
}
