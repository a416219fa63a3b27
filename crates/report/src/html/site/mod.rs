//! Pages of `ebb serve`: those of reports and comparisons, with ways to the other pages, and what only a server shows: the list of
//! sessions, volumes as they were last measured, a volume's weeks.

mod dates;
mod sessions;
mod volume;
mod volumes;

pub use sessions::{Listed, SessionsPage};
pub use volume::{ToldChange, ToldEvent, VolumePage};
pub use volumes::{VolumeLine, VolumesPage};

use super::navigation::{PageContext, SESSIONS, VOLUMES};
use super::{Frame, STYLE, Section, answer, bar, beside, of_report, page};
use crate::{Beside, Report};
use maud::{Markup, html};

/// What the pages have in `style` elements, and nothing else.
pub const STYLES: [&str; 1] = [STYLE];
/// What the pages have in `script` elements that run, and nothing else.
pub const SCRIPTS: [&str; 1] = [super::SCRIPT];

/// The report of a stored session, with the site's frame.
pub fn session(report: &Report) -> String {
    of_report(report, Some(PageContext::default()))
}

/// Sessions beside one another.
pub fn comparison(compared: &Beside) -> String {
    beside::of_beside(compared, Some(PageContext::default()))
}

/// The sessions of the store.
pub fn sessions(shown: &SessionsPage) -> String {
    sessions::html(shown)
}

/// The volumes that are monitored.
pub fn volumes(shown: &VolumesPage) -> String {
    volumes::html(shown)
}

/// The page of one volume: its values over weeks, its changes and events.
pub fn volume(shown: &VolumePage) -> String {
    volume::html(shown)
}

/// A page that says something and shows nothing.
pub fn message(title: &str, said: &str) -> String {
    let header =
        html! { header { (bar(&html! { span.name { "ebb serve" } })) (answer(&[title.to_owned()])) } };
    let section = Section::new("said", "What to do", |said: &String| Some(html! { p { (said) } }));
    simple(&said.to_owned(), &[section], title, &header, PageContext::default())
}

fn simple<M>(model: &M, sections: &[Section<M>], title: &str, header: &Markup, site: PageContext) -> String {
    let footer = html! { "ebb serve" };
    page((model, None, None), sections, &Frame { title, header, footer: &footer, site: Some(site) })
}

/// An address with its query, which is encoded (RFC 3986, 2.1).
fn address(path: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// `text` as a part of an address.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Where the page of the session `id` is.
fn of_session(id: &str) -> String {
    format!("/session/{}", encoded(id))
}
