//! What `ebb` says, as its JSON has it.

use ebbtide_analysis::VerdictKind;
use serde_json::Value;

/// What `ebb` answered in a run.
pub struct Said {
    pub iops: f64,
    /// Bytes that were read or written.
    pub bytes: f64,
    pub named: Vec<VerdictKind>,
    pub sentence: String,
    /// Each verdict with its figures, the first one first.
    pub figures: Vec<String>,
    /// `ruled_out` of its answer.
    ruled_out: Value,
}

/// The evidence of a verdict, or of one that was ruled out.
fn figures(of: &Value) -> String {
    let figure = |one: &Value| {
        let what = one["what"].as_str().unwrap_or_default();
        format!("; {what}: {:.3} ({})", one["value"], one["reference"])
    };
    of["evidence"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(figure).collect()
}

impl Said {
    /// Why this was not named, with the figures.
    pub fn why_not(&self, kind: VerdictKind) -> Option<String> {
        let found = self.ruled_out.as_array()?.iter().find(|one| one["kind"] == kind.name())?;
        Some(format!("{}: {}{}", kind.name(), found["why"].as_str()?, figures(found)))
    }
}

/// What a document of `ebb bench` or `ebb run` says.
pub fn understood(document: &Value) -> Option<Said> {
    let job = &document["jobs"][0];
    let (iops, bytes, said) = if job.is_object() {
        let both = |key: &str| Some(job["read"][key].as_f64()? + job["write"][key].as_f64()?);
        (both("iops")?, both("io_bytes")?, &job["ebbtide"])
    } else {
        let rows = document["results"].as_array()?;
        let row = rows.iter().find(|row| row["metric"] == "iops")?;
        (row["median"].as_f64()?, 0.0, row)
    };
    let verdicts = said["verdicts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kind = |verdict: &Value| serde_json::from_value(verdict["kind"].clone()).ok();
    let sentence = verdicts.first().and_then(|verdict| verdict["sentence"].as_str()).unwrap_or_default();
    let named = verdicts.iter().filter_map(kind).collect();
    let told = |verdict: &Value| {
        let kind = verdict["kind"].as_str().unwrap_or_default();
        format!("{kind}: explains {} at {}{}", verdict["explains"], verdict["confidence"], figures(verdict))
    };
    Some(Said {
        iops,
        bytes,
        named,
        sentence: sentence.to_owned(),
        figures: verdicts.iter().map(told).collect(),
        ruled_out: said["ruled_out"].clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_documents_are_understood() {
        let way = |iops: f64| serde_json::json!({ "iops": iops, "io_bytes": iops * 4096.0 });
        let bench = serde_json::json!({ "jobs": [{
            "read": way(10.0), "write": way(5.0),
            "ebbtide": { "verdicts": [{ "kind": "rate-limit", "sentence": "so" }, { "kind": "cpu" }] },
        }] });
        let said = understood(&bench).expect("is one");
        assert_eq!((said.iops, said.bytes), (15.0, 15.0 * 4096.0));
        assert_eq!(said.named, [VerdictKind::RateLimit, VerdictKind::Cpu]);
        assert_eq!(said.sentence, "so");
        let run = serde_json::json!({ "results": [
            { "metric": "throughput", "median": 1.0 },
            { "metric": "iops", "median": 7.0, "verdicts": [{ "kind": "member", "sentence": "v1" }] },
        ] });
        let said = understood(&run).expect("is one");
        assert_eq!((said.iops, said.named), (7.0, vec![VerdictKind::Member]));
        assert!(understood(&serde_json::json!({})).is_none());
    }
}
