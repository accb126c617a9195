//! A table that comes and goes while the server crashes: creations, state changes and deletions are procedures that must be
//! finished by the next start (C21), whatever the crash left of them.
//!
//! Nothing is assumed of a call that failed; the table is brought to the next state by trying until the master says that it is
//! there. A state that cannot be reached any more shows as a run that does not end.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::oneshot;

use cadastre_client::{Admin, Client, new_get};
use cadastre_env::{Clock, Env};
use cadastre_types::{
    Cell, Code, Error, FamilyDescriptor, LATEST_TIMESTAMP, TableDescriptor, TableName,
};

use crate::cluster::workload::Worker;
use crate::env::SimEnv;
use crate::hub::locked;

/// Pause between two tries.
const AGAIN: Duration = Duration::from_millis(30);

/// What brings a table to the next state.
#[derive(Debug, Clone, Copy)]
enum Step {
    Create,
    Write,
    Disable,
    Enable,
    Delete,
}

/// One life of the table.
const LIFE: [Step; 7] = [
    Step::Create,
    Step::Write,
    Step::Disable,
    Step::Enable,
    Step::Write,
    Step::Disable,
    Step::Delete,
];

/// The task that does it.
pub(super) struct Churn {
    env: SimEnv,
    admin: Admin<SimEnv>,
    client: Client<SimEnv>,
    table: TableName,
}

impl Churn {
    /// Begins on the worker's node; the answer comes when the faults are over and the table is gone for good.
    pub(super) fn begin(worker: &Worker) -> impl Future<Output = ()> + use<> {
        let churn = Self {
            env: worker.env.clone(),
            admin: worker.client.admin(),
            client: worker.client.clone(),
            table: TableName::parse("churn").expect("a good name"),
        };
        let shared = worker.shared.clone();
        let (tell, told) = oneshot::channel();
        worker.env.spawn("churn", async move {
            while !locked(&shared).calm {
                for step in LIFE {
                    if let Err(violation) = churn.reach(step).await {
                        locked(&shared).violation.get_or_insert(violation);
                    }
                }
            }
            // Refused only if the node has ended.
            let _ = tell.send(());
        });
        async move {
            if told.await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Tries until the step is done.
    async fn reach(&self, step: Step) -> Result<(), String> {
        loop {
            let done = self.attempt(step).await;
            match done {
                Ok(()) => break,
                Err(error) if is_done_before(step, error.code()) => break,
                Err(error) => self.env.note(format_args!("churn {step:?}: {error}")),
            }
            self.env.clock().sleep(AGAIN).await;
        }
        self.env.note(format_args!("churn {step:?} done"));
        if matches!(step, Step::Write) {
            return self.check_written().await;
        }
        Ok(())
    }

    async fn attempt(&self, step: Step) -> Result<(), Error> {
        match step {
            Step::Create => {
                let table = TableDescriptor::new(self.table.clone())
                    .with_family(FamilyDescriptor::new(&b"f"[..]));
                let splits = vec![Bytes::from_static(b"m")];
                self.admin.create_table(&table, splits).await
            }
            Step::Write => {
                for row in ["a", "z"] {
                    let cell = Cell::put(
                        Bytes::from_static(row.as_bytes()),
                        Bytes::from_static(b"f"),
                        Bytes::new(),
                        LATEST_TIMESTAMP,
                        Bytes::from_static(b"value"),
                    );
                    self.client.put(&self.table, vec![cell]).await?;
                }
                Ok(())
            }
            Step::Disable => self.admin.disable_table(&self.table).await,
            Step::Enable => self.admin.enable_table(&self.table).await,
            Step::Delete => self.admin.delete_table(&self.table).await,
        }
    }

    async fn check_written(&self) -> Result<(), String> {
        for row in ["a", "z"] {
            let get = new_get(Bytes::from_static(row.as_bytes()));
            let seen = loop {
                match self.client.get(&self.table, &get).await {
                    Ok(seen) => break seen,
                    Err(error) => self.env.note(format_args!("churn get: {error}")),
                }
                self.env.clock().sleep(AGAIN).await;
            };
            if seen.value(b"f", b"").map(|value| &value[..]) != Some(b"value") {
                return Err(format!(
                    "row {row} of a table that comes and goes shows {seen:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Whether an error says that an earlier try, of unknown outcome, has done the step.
fn is_done_before(step: Step, code: Code) -> bool {
    matches!(
        (step, code),
        (Step::Create, Code::TableExists)
            | (Step::Disable, Code::TableNotEnabled)
            | (Step::Enable, Code::TableNotDisabled)
            | (Step::Delete, Code::TableNotFound)
    )
}
