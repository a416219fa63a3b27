//! Why nothing is served, with what to do.

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ServeError {
    /// Other hosts could read everything.
    #[error(
        "{address} can be reached from other hosts, and what is served is for this one: listen on a loopback address such as 127.0.0.1:7340, and \
         reach it by `ssh -L` or through a web server that asks who it is (docs/reference/serve.md)"
    )]
    Exposed { address: String },
    /// The place is taken, or not of this host.
    #[error("cannot listen on {address}: {source}; {remedy}")]
    Listen { address: String, source: std::io::Error, remedy: &'static str },
    /// An error of the system while the server ran.
    #[error("the server cannot go on: {0}")]
    System(#[from] std::io::Error),
}
