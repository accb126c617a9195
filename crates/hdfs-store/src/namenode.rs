//! The NameNode as this crate needs it: typed calls, and waiting where waiting is the answer. Fail-over is beneath, in the proxy.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Clock;
use cadastre_rpc::ha::Caller;
use cadastre_rpc::hadoop::{ClientProtocol, ClientProtocolClient};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::pb;

use crate::error::{Refusal, refusal};

/// How long it is waited for what DataNodes have to report: the end of a start's safe mode, a last block.
const PATIENCE: Duration = Duration::from_secs(600);

/// First and longest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Permissions of files and folders before the NameNode's own rules (ACLs) apply.
const FILE_MODE: u32 = 0o640;
const FOLDER_MODE: u32 = 0o750;

/// Pauses that double.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Self(PAUSE_MIN)
    }

    pub(crate) async fn pause(&mut self, clock: &impl Clock) {
        clock.sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}

/// A file that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenFile {
    pub(crate) path: String,
    pub(crate) id: u64,
}

/// Calls to the active NameNode.
pub(crate) struct NameNode<C> {
    calls: ClientProtocolClient,
    clock: C,
}

impl<C: Clock> NameNode<C> {
    pub(crate) fn new(caller: Arc<dyn Caller>, clock: C) -> Self {
        Self {
            calls: ClientProtocolClient::new(caller),
            clock,
        }
    }

    /// Repeats what was refused for a reason that passes by itself. A refused call was not carried out, so the next one may be another call.
    async fn patiently<T, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let until = self.clock.mono() + PATIENCE;
        let mut pauses = Pauses::new();
        loop {
            let passes = |refused| matches!(refused, Refusal::SafeMode | Refusal::NotReplicatedYet);
            match call().await {
                Err(error) if refusal(&error).is_some_and(passes) && self.clock.mono() < until => {
                    tracing::debug!(%error, "waiting until the NameNode can do it");
                    pauses.pause(&self.clock).await;
                }
                outcome => return outcome,
            }
        }
    }

    pub(crate) async fn defaults(&self) -> Result<pb::FsServerDefaultsProto> {
        let answer = self
            .calls
            .get_server_defaults(pb::GetServerDefaultsRequestProto {})
            .await?;
        Ok(answer.server_defaults)
    }

    /// What a path is; `None` if it is not there.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<pb::HdfsFileStatusProto>> {
        let request = pb::GetFileInfoRequestProto {
            src: path.to_owned(),
        };
        Ok(self.calls.get_file_info(request).await?.fs)
    }

    /// The same as the active NameNode knows it now, also where reads go to observers: they answer from before what this client has not
    /// seen answered itself.
    pub(crate) async fn stat_now(&self, path: &str) -> Result<Option<pb::HdfsFileStatusProto>> {
        match self.calls.msync(pb::MsyncRequestProto {}).await {
            Ok(_) => {}
            // There are no observers then either.
            Err(error) if refusal(&error) == Some(Refusal::NoSuchMethod) => {}
            Err(error) => return Err(error),
        }
        self.stat(path).await
    }

    /// The same with where its blocks are.
    pub(crate) async fn locate(&self, path: &str) -> Result<Option<pb::HdfsFileStatusProto>> {
        let request = pb::GetLocatedFileInfoRequestProto {
            src: Some(path.to_owned()),
            need_block_token: Some(true),
        };
        Ok(self.calls.get_located_file_info(request).await?.fs)
    }

    /// Names in a folder behind one of them, in the order of their bytes, and whether there are more; `None` if there is no folder.
    pub(crate) async fn list(
        &self,
        folder: &str,
        after: &Bytes,
    ) -> Result<Option<(Vec<pb::HdfsFileStatusProto>, bool)>> {
        let request = pb::GetListingRequestProto {
            src: folder.to_owned(),
            start_after: after.clone(),
            need_location: false,
        };
        let listing = self.calls.get_listing(request).await?.dir_list;
        Ok(listing.map(|listing| {
            let more = listing.remaining_entries > 0;
            (listing.partial_listing, more)
        }))
    }

    /// Makes a folder and those above it. There before is made.
    pub(crate) async fn make_folder(&self, path: &str) -> Result<()> {
        let answer = self.patiently(|| {
            let mode = pb::FsPermissionProto { perm: FOLDER_MODE };
            self.calls.mkdirs(pb::MkdirsRequestProto {
                src: path.to_owned(),
                masked: mode,
                create_parent: true,
                unmasked: Some(mode),
            })
        });
        if answer.await?.result {
            return Ok(());
        }
        Err(Error::new(
            Code::Io,
            format!("the folder {path} could not be made"),
        ))
    }

    /// Makes a file that must not be there.
    pub(crate) async fn create(
        &self,
        path: &str,
        client: &str,
        (replication, block_bytes): (u32, u64),
    ) -> Result<OpenFile> {
        let answer = self.patiently(|| {
            let mode = pb::FsPermissionProto { perm: FILE_MODE };
            // Replicated even in a folder of erasure coded files, which are not read here.
            let flags =
                pb::CreateFlagProto::Create as u32 | pb::CreateFlagProto::ShouldReplicate as u32;
            self.calls.create(pb::CreateRequestProto {
                src: path.to_owned(),
                masked: mode,
                client_name: client.to_owned(),
                create_flag: flags,
                create_parent: false,
                replication,
                block_size: block_bytes,
                unmasked: Some(mode),
                ..Default::default()
            })
        });
        let status = answer.await?.fs.ok_or_else(|| {
            Error::unsupported("a NameNode that does not tell the id of a file it made")
        })?;
        if status.file_encryption_info.is_some() {
            return Err(Error::unsupported(format!(
                "an encryption zone ({path} lies in one)"
            )));
        }
        let id = status.file_id();
        if id == 0 {
            return Err(Error::unsupported("a NameNode without file ids"));
        }
        Ok(OpenFile {
            path: path.to_owned(),
            id,
        })
    }

    /// The next block of a file.
    pub(crate) async fn add_block(
        &self,
        file: &OpenFile,
        client: &str,
        previous: Option<&pb::ExtendedBlockProto>,
        exclude: &[pb::DatanodeInfoProto],
    ) -> Result<pb::LocatedBlockProto> {
        let answer = self.patiently(|| {
            self.calls.add_block(pb::AddBlockRequestProto {
                src: file.path.clone(),
                client_name: client.to_owned(),
                previous: previous.cloned(),
                exclude_nodes: exclude.to_vec(),
                file_id: Some(file.id),
                ..Default::default()
            })
        });
        Ok(answer.await?.block)
    }

    /// Gives a block back that could not be written.
    pub(crate) async fn abandon(
        &self,
        file: &OpenFile,
        client: &str,
        block: &pb::ExtendedBlockProto,
    ) -> Result<()> {
        let answer = self.patiently(|| {
            self.calls.abandon_block(pb::AbandonBlockRequestProto {
                b: block.clone(),
                src: file.path.clone(),
                holder: client.to_owned(),
                file_id: Some(file.id),
            })
        });
        answer.await.map(drop)
    }

    /// Closes a file, once enough DataNodes have reported its last block.
    pub(crate) async fn complete(
        &self,
        file: &OpenFile,
        client: &str,
        last: Option<&pb::ExtendedBlockProto>,
    ) -> Result<()> {
        let until = self.clock.mono() + PATIENCE;
        let mut pauses = Pauses::new();
        loop {
            let answer = self.patiently(|| {
                self.calls.complete(pb::CompleteRequestProto {
                    src: file.path.clone(),
                    client_name: client.to_owned(),
                    last: last.cloned(),
                    file_id: Some(file.id),
                })
            });
            if answer.await?.result {
                return Ok(());
            }
            if self.clock.mono() >= until {
                return Err(Error::new(
                    Code::TimeoutIo,
                    format!(
                        "{}: its last block was on too few DataNodes for {} s",
                        file.path,
                        PATIENCE.as_secs()
                    ),
                ));
            }
            pauses.pause(&self.clock).await;
        }
    }

    /// Renames. The answer says nothing sure about a rename that may have been done: see `place`.
    pub(crate) async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        let answer = self.patiently(|| {
            self.calls.rename2(pb::Rename2RequestProto {
                src: from.to_owned(),
                dst: to.to_owned(),
                overwrite_dest: overwrite,
                move_to_trash: None,
            })
        });
        answer.await.map(drop)
    }

    /// Removes a file, or a folder that is empty. Whether it was there.
    pub(crate) async fn remove(&self, path: &str) -> Result<bool> {
        let answer = self.patiently(|| {
            self.calls.delete(pb::DeleteRequestProto {
                src: path.to_owned(),
                recursive: false,
            })
        });
        Ok(answer.await?.result)
    }

    /// Keeps the files that a client writes its own.
    pub(crate) async fn renew_lease(&self, client: &str) -> Result<()> {
        let answer = self.patiently(|| {
            self.calls.renew_lease(pb::RenewLeaseRequestProto {
                client_name: client.to_owned(),
                namespaces: Vec::new(),
            })
        });
        answer.await.map(drop)
    }
}
