//! What the loop has to know of a protocol's methods: their names and marks (P13). Knows no messages.

/// What it means to do a method twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mark {
    /// The same as once.
    Idempotent,
    /// The server sees that it is the same call and answers as before (B.7).
    AtMostOnce,
    /// Something else than once.
    Neither,
}

/// How a read may be answered by a server that is not the active one (D).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The server waits until it has what the client has seen.
    pub coordinated: bool,
    /// Only the active one answers truly.
    pub active_only: bool,
    /// May write the access time.
    pub touches_access_time: bool,
}

/// A method of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// As it is called on the wire.
    pub name: &'static str,
    /// What it means to do it twice.
    pub mark: Mark,
    /// `None` if it changes something.
    pub read: Option<Read>,
}

impl Method {
    /// Changes something; twice is as good as once.
    pub const fn idempotent(name: &'static str) -> Self {
        Self {
            name,
            mark: Mark::Idempotent,
            read: None,
        }
    }

    /// Changes something; the server recognises a repeated call.
    pub const fn at_most_once(name: &'static str) -> Self {
        Self {
            name,
            mark: Mark::AtMostOnce,
            read: None,
        }
    }

    /// Changes something, and again when it is repeated.
    pub const fn unmarked(name: &'static str) -> Self {
        Self {
            name,
            mark: Mark::Neither,
            read: None,
        }
    }

    /// Changes nothing. Each letter of `how`: `c` coordinated, `a` active only, `t` touches the access time.
    pub const fn read(name: &'static str, how: &str) -> Self {
        let how = how.as_bytes();
        let (mut coordinated, mut active_only, mut touches_access_time) = (false, false, false);
        let mut at = 0;
        while at < how.len() {
            match how[at] {
                b'c' => coordinated = true,
                b'a' => active_only = true,
                b't' => touches_access_time = true,
                _ => panic!("a read is described by the letters c, a and t"),
            }
            at += 1;
        }
        Self {
            name,
            mark: Mark::Idempotent,
            read: Some(Read {
                coordinated,
                active_only,
                touches_access_time,
            }),
        }
    }

    /// Whether an observer may answer it.
    pub fn may_be_observed(&self) -> bool {
        self.read.is_some_and(|read| !read.active_only)
    }
}

/// A protocol: what a connection is for.
#[derive(Debug, PartialEq, Eq)]
pub struct Protocol {
    /// As servers name it.
    pub name: &'static str,
    /// The Java interface that configuration keys (`rpc.engine.<interface>`) name it by.
    pub interface: &'static str,
    /// Its version.
    pub version: u64,
    /// Every method.
    pub methods: &'static [Method],
}

impl Protocol {
    /// The method of this name. In a constant, a missing one stops the compiler.
    ///
    /// # Panics
    /// If there is none.
    pub const fn method(&self, name: &str) -> &'static Method {
        let mut at = 0;
        while at < self.methods.len() {
            if same(self.methods[at].name.as_bytes(), name.as_bytes()) {
                return &self.methods[at];
            }
            at += 1;
        }
        panic!("the protocol has no such method");
    }

    /// The same for a name that may be anything.
    pub fn find(&self, name: &str) -> Option<&'static Method> {
        self.methods.iter().find(|method| method.name == name)
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}
