//! The store while NameNodes and DataNodes die.

use crate::basics::Test;

/// In order.
pub(crate) const ALL: &[(&str, Test)] = &[];
