//! Logs of iostat, as text and as JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = ebbtide_formats::iostat::parse(text);
});
