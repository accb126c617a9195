//! Servers known to be dead (requirements.md L19): a later start on the same host and port is another server.

use std::collections::BTreeMap;

use cadastre_types::ServerName;

/// Host and port pairs remembered at most (INV-9); more servers than any cluster has. Beyond it the first by name is forgotten, which
/// costs one refused connection.
const SERVERS_MAX: usize = 10_000;

/// By host and port, the newest start known to be dead; older ones are dead with it.
#[derive(Debug, Default)]
pub(super) struct DeadServers(BTreeMap<(String, u16), u64>);

impl DeadServers {
    pub(super) fn insert(&mut self, server: &ServerName) {
        let start_code = self
            .0
            .entry((server.host.clone(), server.port))
            .or_default();
        *start_code = server.start_code.max(*start_code);
        if self.0.len() > SERVERS_MAX {
            self.0.pop_first();
        }
    }

    pub(super) fn contains(&self, server: &ServerName) -> bool {
        // Almost always empty: no key is made for nothing.
        !self.0.is_empty()
            && self
                .0
                .get(&(server.host.clone(), server.port))
                .is_some_and(|dead| server.start_code <= *dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_start_is_another_server() {
        let server = |start_code| ServerName {
            host: "h".to_owned(),
            port: 1,
            start_code,
        };
        let mut dead = DeadServers::default();
        assert!(!dead.contains(&server(1)));
        dead.insert(&server(5));
        dead.insert(&server(3));
        assert!(dead.contains(&server(3)) && dead.contains(&server(5)));
        assert!(!dead.contains(&server(6)));
    }
}
