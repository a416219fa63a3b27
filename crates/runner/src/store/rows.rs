//! Sessions and trials as rows of the store.

use super::encoding;
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::{Ending, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::UnixTime;
use rusqlite::{Connection, Row, named_params, params};

/// One line of `ebb list`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    pub id: String,
    /// Wall clock at the start, nanoseconds since the epoch.
    pub started_unix: UnixTime,
    /// Name of the experiment.
    pub experiment: String,
    /// Backend, as its lower-case name.
    pub backend: String,
    pub trials: u32,
    pub failed: u32,
    pub ending: Ending,
    /// The answer in one line, as it read when the session ended.
    pub headline: Option<String>,
}

impl Summary {
    /// What can be said of a row that cannot be read.
    pub(super) fn damaged(row: &Row<'_>, error: &rusqlite::Error) -> Summary {
        let text = |column: &str| row.get::<_, String>(column).unwrap_or_else(|_| "?".to_owned());
        let why = format!("damaged in the store: {error}");
        Summary {
            id: text("id"),
            started_unix: UnixTime(row.get::<_, i64>("started_unix").unwrap_or_default().cast_unsigned()),
            experiment: text("experiment_name"),
            backend: text("backend"),
            trials: row.get("trials").unwrap_or_default(),
            failed: row.get("failed").unwrap_or_default(),
            ending: Ending::Failed(why.clone()),
            headline: Some(why),
        }
    }
}

pub(super) fn insert_session(
    connection: &Connection,
    session: &Session,
    plan: &serde_json::Value,
) -> rusqlite::Result<()> {
    let meta = &session.meta;
    let changed = connection.execute(
        "INSERT INTO sessions (id, experiment_name, backend, started_unix, ending, meta,
             experiment, experiment_text, plan)
         VALUES (:id, :name, :backend, :started, :ending, :meta, :experiment, :text, :plan)",
        named_params! {
            ":id": meta.id,
            ":name": session.experiment.name,
            ":backend": encoding::name(&meta.backend)?,
            ":started": meta.started_unix.0.cast_signed(),
            ":ending": encoding::json(&meta.ending)?,
            ":meta": encoding::json(meta)?,
            ":experiment": encoding::json(&session.experiment)?,
            ":text": session.experiment_text,
            ":plan": encoding::json(plan)?,
        },
    );
    changed.map(drop)
}

pub(super) fn update_session(
    connection: &Connection,
    meta: &SessionMeta,
    headline: Option<&str>,
) -> rusqlite::Result<()> {
    let changed = connection.execute(
        "UPDATE sessions SET ending = ?2, meta = ?3, headline = ?4 WHERE id = ?1",
        params![meta.id, encoding::json(&meta.ending)?, encoding::json(meta)?, headline],
    );
    changed.map(drop)
}

pub(super) fn insert_trial(connection: &Connection, id: &str, record: &TrialRecord) -> rusqlite::Result<()> {
    let Trial { index, round, design, workload, role, seed } = record.trial;
    let (samples, failure) = match PackedTrial::pack(record)?.outcome {
        Ok(samples) => (Some(samples), None),
        Err(why) => (None, Some(why)),
    };
    let changed = connection.execute(
        "INSERT INTO trials (session, idx, round, design, workload, role, seed, samples, failure)
         VALUES (:session, :index, :round, :design, :workload, :role, :seed, :samples, :failure)",
        named_params! {
            ":session": id,
            ":index": index,
            ":round": round,
            ":design": design,
            ":workload": workload,
            ":role": encoding::name(&role)?,
            ":seed": seed.cast_signed(),
            ":samples": samples,
            ":failure": failure,
        },
    );
    changed.map(drop)
}

pub(super) fn summary_of(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary {
        id: row.get("id")?,
        started_unix: UnixTime(row.get::<_, i64>("started_unix")?.cast_unsigned()),
        experiment: row.get("experiment_name")?,
        backend: row.get("backend")?,
        trials: row.get("trials")?,
        failed: row.get("failed")?,
        ending: encoding::parse(&row.get::<_, String>("ending")?)?,
        headline: row.get("headline")?,
    })
}

pub(super) fn session_of(row: &Row<'_>) -> rusqlite::Result<Session> {
    let json = |column: &str| row.get::<_, String>(column);
    Ok(Session {
        meta: encoding::parse(&json("meta")?)?,
        experiment: encoding::parse(&json("experiment")?)?,
        experiment_text: row.get("experiment_text")?,
        trials: Vec::new(),
    })
}

pub(super) fn trial_of(row: &Row<'_>) -> rusqlite::Result<TrialRecord> {
    packed_of(row)?.unpack()
}

/// A trial as it is stored.
#[derive(Debug, Clone)]
pub(super) struct PackedTrial {
    trial: Trial,
    /// Its samples, or why it failed.
    outcome: Result<Vec<u8>, String>,
}

impl PackedTrial {
    pub(super) fn pack(record: &TrialRecord) -> rusqlite::Result<PackedTrial> {
        let outcome = match &record.outcome {
            Outcome::Samples(samples) => Ok(encoding::pack(samples)?),
            Outcome::Failed(why) => Err(why.clone()),
        };
        Ok(PackedTrial { trial: record.trial, outcome })
    }

    /// Index of its design.
    pub(super) fn design(&self) -> usize {
        self.trial.design
    }

    pub(super) fn unpack(self) -> rusqlite::Result<TrialRecord> {
        let outcome = match self.outcome {
            Ok(packed) => Outcome::Samples(Box::new(encoding::unpack(&packed)?)),
            Err(why) => Outcome::Failed(why),
        };
        Ok(TrialRecord { trial: self.trial, outcome })
    }
}

pub(super) fn packed_of(row: &Row<'_>) -> rusqlite::Result<PackedTrial> {
    let outcome = match row.get::<_, Option<Vec<u8>>>("samples")? {
        Some(packed) => Ok(packed),
        None => Err(row.get::<_, Option<String>>("failure")?.unwrap_or_default()),
    };
    Ok(PackedTrial {
        trial: Trial {
            index: row.get("idx")?,
            round: row.get("round")?,
            design: row.get("design")?,
            workload: row.get("workload")?,
            role: encoding::from_name(&row.get::<_, String>("role")?)?,
            seed: row.get::<_, i64>("seed")?.cast_unsigned(),
        },
        outcome,
    })
}
