//! Giving a finished file its name: the one moment at which an object comes to be, and the one whose outcome must never be guessed.
//!
//! A file's id stays over a rename and is never given twice, so the id at the target tells whether our rename was carried out, whatever became
//! of its answer. [`judge`] is that rule, pure.

use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::pb;

use crate::error::{Refusal, refusal};
use crate::namenode::{OpenFile, Pauses};
use crate::names::parent;
use crate::store::Shared;

/// How long an unknown outcome is looked into. NameNodes that are all gone longer than this are somebody's emergency, and the caller
/// is told that the outcome is unknown.
const DOUBT_MAX: std::time::Duration = std::time::Duration::from_secs(3600);

/// Times that a missing folder is made before it is believed that somebody keeps removing it.
const FOLDERS_MAX: u32 = 8;

/// What may be at the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing: put if absent.
    Create,
    /// Anything.
    Overwrite,
}

/// How it went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// The file has the name, or had it until somebody overwrote it.
    Done,
    /// Something else has it.
    Exists,
}

/// What a rename that did not simply succeed has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Done,
    Exists,
    /// It was not carried out, and may be tried again.
    Again,
    /// The same, and its folder has to be made before.
    Folder,
    /// It was carried out, and something has happened to the target since; or somebody else removed the file. Nobody can tell.
    Unknown,
    /// The NameNode's own refusal.
    Refused,
}

/// What was seen after a rename that did not simply succeed: the target first, then the file itself.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Whose file has the name.
    target_is_ours: bool,
    target_is_there: bool,
    /// Whether our file still has its first name.
    source_is_there: bool,
}

fn judge(mode: Mode, refused: Option<Refusal>, seen: Seen) -> Verdict {
    if seen.target_is_ours {
        return Verdict::Done;
    }
    if seen.source_is_there {
        return match refused {
            Some(Refusal::Exists) if mode == Mode::Create => Verdict::Exists,
            // Of the folder, since the file is there.
            Some(Refusal::Missing) => Verdict::Folder,
            Some(Refusal::SafeMode) | None => match (mode, seen.target_is_there) {
                // The rename can only be refused; no need to ask.
                (Mode::Create, true) => Verdict::Exists,
                _ => Verdict::Again,
            },
            Some(_) => Verdict::Refused,
        };
    }
    match mode {
        // Renamed, and overwritten or removed by others since.
        Mode::Overwrite => Verdict::Done,
        Mode::Create => Verdict::Unknown,
    }
}

/// Renames a closed file to its name.
pub(crate) async fn place<E: Env>(
    shared: &Shared<E>,
    file: &OpenFile,
    target: &str,
    mode: Mode,
) -> Result<Placed> {
    shared.ensure_folder(parent(target)).await?;
    let clock = shared.env.clock();
    let until = clock.mono() + DOUBT_MAX;
    let mut pauses = Pauses::new();
    let mut folders = 0;
    loop {
        let renamed = shared
            .namenode
            .rename(&file.path, target, mode == Mode::Overwrite)
            .await;
        let Err(error) = renamed else {
            return Ok(Placed::Done);
        };
        let seen = look(shared, file, target, until, &error).await?;
        match judge(mode, refusal(&error), seen) {
            Verdict::Done => {
                metrics::counter!("cadastre_hdfs_renames_found_done").increment(1);
                tracing::info!(target, %error, "the rename was done although its answer did not say so");
                return Ok(Placed::Done);
            }
            Verdict::Exists => return Ok(Placed::Exists),
            Verdict::Folder if folders < FOLDERS_MAX => {
                folders += 1;
                shared.forget_folder(parent(target));
                shared.ensure_folder(parent(target)).await?;
            }
            Verdict::Again if clock.mono() < until => pauses.pause(clock).await,
            Verdict::Unknown => return Err(unknown(file, target, &error)),
            Verdict::Refused | Verdict::Folder | Verdict::Again => return Err(error),
        }
    }
}

/// Looks until a NameNode answers.
async fn look<E: Env>(
    shared: &Shared<E>,
    file: &OpenFile,
    target: &str,
    until: std::time::Duration,
    why: &Error,
) -> Result<Seen> {
    let clock = shared.env.clock();
    let mut pauses = Pauses::new();
    loop {
        match look_once(shared, file, target).await {
            Ok(seen) => return Ok(seen),
            Err(error) if clock.mono() < until => {
                tracing::warn!(target, %why, %error, "looking whether a rename was done");
                pauses.pause(clock).await;
            }
            Err(_) => return Err(unknown(file, target, why)),
        }
    }
}

async fn look_once<E: Env>(shared: &Shared<E>, file: &OpenFile, target: &str) -> Result<Seen> {
    let is_ours = |status: &pb::HdfsFileStatusProto| status.file_id() == file.id;
    // The target first: a rename that is carried out between the two looks leaves neither name, and is looked at again.
    for _ in 0..2 {
        let at_target = shared.namenode.stat_now(target).await?;
        let target_is_ours = at_target.as_ref().is_some_and(is_ours);
        let source_is_there = !target_is_ours
            && (shared.namenode.stat(&file.path).await?.as_ref()).is_some_and(is_ours);
        if target_is_ours || source_is_there {
            return Ok(Seen {
                target_is_ours,
                target_is_there: at_target.is_some(),
                source_is_there,
            });
        }
    }
    Ok(Seen {
        target_is_ours: false,
        target_is_there: shared.namenode.stat_now(target).await?.is_some(),
        source_is_there: false,
    })
}

fn unknown(file: &OpenFile, target: &str, why: &Error) -> Error {
    Error::new(
        Code::OutcomeUnknown,
        format!("whether {} became {target} is unknown: {why}", file.path),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ours: bool, there: bool, source: bool) -> Seen {
        Seen {
            target_is_ours: ours,
            target_is_there: there,
            source_is_there: source,
        }
    }

    const REFUSALS: [Option<Refusal>; 7] = [
        None,
        Some(Refusal::Missing),
        Some(Refusal::Exists),
        Some(Refusal::SafeMode),
        Some(Refusal::NotEmpty),
        Some(Refusal::Denied),
        Some(Refusal::Other),
    ];

    #[test]
    fn who_has_the_name_has_won_whatever_was_said() {
        for refused in REFUSALS {
            for mode in [Mode::Create, Mode::Overwrite] {
                assert_eq!(judge(mode, refused, seen(true, true, false)), Verdict::Done);
            }
        }
    }

    #[test]
    fn put_if_absent_is_never_done_without_the_name() {
        for refused in REFUSALS {
            for (there, source) in [(false, false), (false, true), (true, false), (true, true)] {
                let verdict = judge(Mode::Create, refused, seen(false, there, source));
                assert_ne!(verdict, Verdict::Done, "{refused:?} {there} {source}");
                if !source {
                    assert_eq!(verdict, Verdict::Unknown);
                }
            }
        }
        let create = |refused, there| judge(Mode::Create, refused, seen(false, there, true));
        assert_eq!(create(None, false), Verdict::Again);
        assert_eq!(create(None, true), Verdict::Exists);
        assert_eq!(create(Some(Refusal::Exists), true), Verdict::Exists);
        assert_eq!(create(Some(Refusal::Missing), false), Verdict::Folder);
        assert_eq!(create(Some(Refusal::Denied), false), Verdict::Refused);
    }

    #[test]
    fn what_was_overwritten_since_is_done() {
        for there in [false, true] {
            let overwrite = |source| judge(Mode::Overwrite, None, seen(false, there, source));
            assert_eq!(overwrite(false), Verdict::Done);
            assert_eq!(overwrite(true), Verdict::Again);
        }
    }
}
