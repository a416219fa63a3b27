//! One report model, rendered as terminal text, HTML, JSON and CSV.
