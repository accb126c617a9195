//! Paths of znodes: what is one, and its parts.

/// Whether this is a path: starts with `/`, no empty, `.` or `..` part, no control characters (ZooKeeper's rules).
pub(super) fn valid(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    let part_ok = |part: &str| !part.is_empty() && part != "." && part != "..";
    let character_ok = |c: char| {
        let private = ('\u{e000}'..='\u{f8ff}').contains(&c);
        let special = ('\u{fff0}'..='\u{ffff}').contains(&c);
        !c.is_control() && !private && !special
    };
    rest.split('/').all(part_ok) && rest.chars().all(character_ok)
}

/// Parent and name; `None` for `/`. The path must be valid.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    if name.is_empty() {
        return None;
    }
    Some((if parent.is_empty() { "/" } else { parent }, name))
}

/// The path itself and all above it, up to `/`.
pub(super) fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| split(path).map(|(parent, _)| parent))
}
