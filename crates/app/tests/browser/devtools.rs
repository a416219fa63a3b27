//! Chromium driven over its DevTools pipe: JSON messages that end in a zero byte, no socket and no port.
//! <https://chromedevtools.github.io/devtools-protocol/>

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long one answer may take; a loaded machine is slow to start a browser.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running browser with one page.
pub struct Browser {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    errors: Option<thread::JoinHandle<String>>,
    next_id: u64,
    session: Option<String>,
    /// Everything that the page reported by itself and that was not taken yet.
    pub events: Vec<Value>,
}

impl Browser {
    /// Starts chromium with an empty profile in `profile`.
    pub fn start(profile: &Path) -> Self {
        // Chromium talks on descriptors 3 and 4; the shell only moves standard input and output there.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", "chromium"])
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("chromium is needed; `cargo xtask setup` installs it");
        let (tell, from) = channel();
        let out = child.stdout.take().expect("stdout is a pipe");
        thread::spawn(move || {
            let mut reader = BufReader::new(out);
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message)
                    && tell.send(value).is_err()
                {
                    return;
                }
                message.clear();
            }
        });
        let mut err = child.stderr.take().expect("stderr is a pipe");
        let errors = thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let to = child.stdin.take();
        let mut browser =
            Browser { child, to, from, errors: Some(errors), next_id: 0, session: None, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// One message from the browser; panics with what the browser printed when there is none in time.
    fn receive(&mut self, waiting_for: &str) -> Value {
        match self.from.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(_) => {
                let _ = self.child.kill();
                let said = self.errors.take().and_then(|t| t.join().ok()).unwrap_or_default();
                panic!("chromium did not answer {waiting_for}; it printed:\n{said}")
            }
        }
    }

    /// Calls a method and waits for its result; what else arrives is kept in `events`.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        if let Some(to) = &mut self.to {
            // A browser that has gone shows as a missing answer, with what it printed.
            let _ = to.write_all(&bytes).and_then(|()| to.flush());
        }
        loop {
            let message = self.receive(method);
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Opens `url` and waits until it is loaded.
    pub fn open(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }));
        let start = Instant::now();
        while !self.events.iter().any(|e| e["method"] == "Page.loadEventFired") {
            assert!(start.elapsed() < PATIENCE, "{url} did not load");
            let event = self.receive("the load event");
            self.events.push(event);
        }
    }

    /// The value of a JavaScript expression (awaited when it is a promise); panics when it throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(result["exceptionDetails"].is_null(), "{}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until a JavaScript expression is true, over pages that come and go.
    pub fn until(&mut self, expression: &str) {
        let start = Instant::now();
        loop {
            let asked = json!({ "expression": expression, "returnByValue": true });
            let result = self.call("Runtime.evaluate", asked);
            if result["result"]["value"] == true {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "never true: {expression}: {result}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The whole page as a PNG file.
    pub fn screenshot(&mut self, path: &Path) {
        let shot =
            self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }));
        let bytes = base64(shot["data"].as_str().unwrap_or_default());
        std::fs::write(path, bytes).expect("the screenshot can be written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closing its input ends chromium with all its processes.
        self.to.take();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes base64 (RFC 4648); other characters are skipped.
fn base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for c in text.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
