//! What a client has seen of a namespace, so that an observer never shows it something older (hadoop-ha-rpc.md C.7).

use std::sync::Mutex;

use bytes::Bytes;
use cadastre_types::Result;
use cadastre_wire::hadoop::merge_router_state;

/// Largest state of a router that is kept, bytes: one entry for each nameservice behind it.
const ROUTER_STATE_MAX: usize = 64 * 1024;

/// One client's view; shared by all its proxies to one nameservice.
#[derive(Debug, Default)]
pub struct Alignment {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default, Clone)]
struct Seen {
    state_id: Option<i64>,
    router: Option<Bytes>,
}

impl Alignment {
    /// What to send along with a request.
    pub fn to_send(&self) -> (Option<i64>, Option<Bytes>) {
        let seen = self.seen.lock().expect("nothing panics while it is held");
        (seen.state_id, seen.router.clone())
    }

    /// Takes what came with a successful answer. The states of a router count in place of the plain one.
    ///
    /// # Errors
    /// If the router's state cannot be read.
    pub fn answered(&self, state_id: Option<i64>, router: Option<Bytes>) -> Result<()> {
        let mut seen = self.seen.lock().expect("nothing panics while it is held");
        match router.filter(|state| !state.is_empty()) {
            Some(state) if state.len() <= ROUTER_STATE_MAX => {
                let before = seen.router.clone().unwrap_or_default();
                seen.router = Some(merge_router_state(before, state)?);
            }
            Some(state) => {
                return Err(cadastre_types::Error::corrupt(format!(
                    "a router's state of {} bytes",
                    state.len()
                )));
            }
            None => seen.state_id = seen.state_id.max(state_id),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forward() {
        let alignment = Alignment::default();
        assert_eq!(alignment.to_send(), (None, None));
        alignment.answered(None, None).unwrap();
        assert_eq!(alignment.to_send(), (None, None));
        alignment.answered(Some(-5), None).unwrap();
        alignment.answered(Some(7), None).unwrap();
        alignment.answered(Some(3), None).unwrap();
        assert_eq!(alignment.to_send(), (Some(7), None));
        // {a: 5}, with a plain state that does not count.
        let state = Bytes::from_static(b"\x0a\x05\x0a\x01a\x10\x05");
        alignment.answered(Some(99), Some(state.clone())).unwrap();
        assert_eq!(alignment.to_send(), (Some(7), Some(state)));
        let bad = Bytes::from_static(b"\x0a\x05");
        assert!(alignment.answered(None, Some(bad)).is_err());
        let large = Bytes::from(vec![0; ROUTER_STATE_MAX + 1]);
        assert!(alignment.answered(None, Some(large)).is_err());
    }
}
