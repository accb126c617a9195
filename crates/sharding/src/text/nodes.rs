//! The nodes of rings, rendezvous and Maglev as a text names them: spans, weights, options. Knows nothing of names.

use super::raw::{At, Fault, RawAlgorithm, RawOption};
use crate::{
    function::ring,
    rule::{Nodes, NodesAlgorithm},
};

/// Virtual nodes of a ring that does not say: within a sixth of even at 16 nodes (B4).
const VIRTUAL_NODES: u32 = 128;

pub(super) fn nodes_of(
    algorithm: RawAlgorithm,
    raw: &[At<(u64, u64, u64)>],
    options: &[At<(RawOption, u64)>],
) -> Result<Nodes, Fault> {
    let (mut virtual_nodes, mut entries, mut seed, mut bounded) = (None, None, None, None);
    for option in options {
        let (which, value) = option.it;
        let target = match (which, algorithm) {
            (RawOption::Virtual, RawAlgorithm::Ring) => &mut virtual_nodes,
            (RawOption::Entries, RawAlgorithm::Maglev) => &mut entries,
            (RawOption::Seed, _) => &mut seed,
            (RawOption::Bounded, RawAlgorithm::Ring) => &mut bounded,
            _ => {
                return Err(Fault::new(
                    option.at,
                    "this kind of nodes has no such option",
                ));
            }
        };
        if target.replace(value).is_some() {
            return Err(Fault::new(option.at, "the option stands there twice"));
        }
    }
    let mut nodes = Vec::new();
    for node in raw {
        let (first, last, weight) = node.it;
        let small = |it: u64| {
            u32::try_from(it).map_err(|_| Fault::new(node.at, "the number does not fit 32 bits"))
        };
        let (first, last, weight) = (small(first)?, small(last)?, small(weight)?);
        let count = nodes.len() as u64 + u64::from(last.saturating_sub(first));
        if first > last || count >= crate::function::nodes::NODES_MAX as u64 {
            return Err(Fault::new(node.at, "the nodes descend, or are too many"));
        }
        nodes.extend((first..=last).map(|it| (it, weight)));
    }
    nodes.sort_unstable();
    let at = raw.first().map_or(0, |it| it.at);
    let virtual_nodes = u32::try_from(virtual_nodes.unwrap_or(VIRTUAL_NODES.into()))
        .map_err(|_| Fault::new(at, format!("more than {} points", ring::POINTS_MAX)))?;
    Ok(Nodes {
        algorithm: match algorithm {
            RawAlgorithm::Ring => match bounded {
                None => NodesAlgorithm::Ring { virtual_nodes },
                Some(percent) => NodesAlgorithm::BoundedRing {
                    virtual_nodes,
                    above_mean_percent: u32::try_from(percent)
                        .map_err(|_| Fault::new(at, "a bound of more than 32 bits"))?,
                },
            },
            RawAlgorithm::Rendezvous => NodesAlgorithm::Rendezvous,
            RawAlgorithm::Maglev => NodesAlgorithm::Maglev {
                entries: entries.unwrap_or(crate::function::maglev::SIZE_DEFAULT),
            },
        },
        nodes,
        seed: seed.unwrap_or(0),
    })
}
