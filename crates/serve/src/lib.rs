//! The web server of `ebb serve`: who may ask, what a request may be, how long it may take, and what every answer tells a browser.
//!
//! What may live here: sockets, HTTP/1.1 as far as pages need it (GET and HEAD, a request a connection), and what keeps
//! other web pages, other hosts and slow clients out. What may not: what is shown ([`Handler`] is given), the store, the command line.
//! Nothing here opens a file that a request names.
//!
//! | threat | what stops it |
//! | --- | --- |
//! | another host | loopback or a UNIX socket: [`Server::new`] refuses the rest |
//! | a name that leads to this host's loopback (DNS rebinding) | the Host header: [`guard`] |
//! | a page of another origin that asks | Origin and Sec-Fetch-Site: [`guard`]; Cross-Origin-Resource-Policy |
//! | markup in what is shown | a Content-Security-Policy of hashes: [`Policy`] |
//! | requests that are long, slow or many | [`Limits`] |

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod error;
mod guard;
mod request;
mod response;
mod server;
mod stream;

pub use address::{Address, AddressError};
pub use error::ServeError;
pub use request::Request;
pub use response::{Policy, Response};
pub use server::{Handler, Limits, Options, Server};
