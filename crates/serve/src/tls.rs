//! TLS 1.2 and 1.3 by rustls.

use crate::ServeError;
use crate::secret::secret;
use ebbtide_door::read;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a file of certificates or a key at most.
const MOST: u64 = 1 << 20;
const CERTIFICATE: &str = "the certificate";
const KEY: &str = "the key";

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct Tls(pub(crate) Arc<ServerConfig>);

impl Tls {
    /// From PEM files: the certificate, followed by those that it is signed with, and its private key, which others may not read.
    ///
    /// # Errors
    /// When a file cannot be read, does not hold what it was named as, or the key is not the certificate's.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, ServeError> {
        let wrong = |what, path: &Path, why: String| ServeError::Wrong { what, path: path.to_owned(), why };
        let pem = read::bytes(certificate, MOST).map_err(|why| ServeError::Unreadable {
            what: CERTIFICATE,
            path: certificate.to_owned(),
            why: why.to_string(),
        })?;
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain =
            chain.map_err(|error| wrong(CERTIFICATE, certificate, format!("it is no PEM file: {error}")))?;
        if chain.is_empty() {
            let why = "no certificate is in it; a PEM file has `-----BEGIN CERTIFICATE-----`";
            return Err(wrong(CERTIFICATE, certificate, why.to_owned()));
        }
        // Debian keeps keys for a group of their own (ssl-cert): that is the administrator's choice.
        let pem = secret(KEY, key, 0o007, MOST)?;
        let private = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|error| wrong(KEY, key, format!("no private key in PEM without a password: {error}")))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, private));
        let mut config = config.map_err(|error| {
            wrong(CERTIFICATE, certificate, format!("it cannot be used with the key: {error}"))
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config)))
    }
}
