//! What is read of Hadoop's configuration files, as a function of their bytes. The fuzz target `hadoop_conf` in `/fuzz` and the ordinary test run
//! both call it; it panics when a promise is broken.

use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::{Settings, connections};
use cadastre_types::Result;

/// The nameservice that is asked for.
const NAMESERVICE: &str = "ns";

/// Between two files.
const SEPARATOR: u8 = 0;

/// Any bytes as one configuration file after the other: refused with the file's name, or every value can be asked for as everything, and the
/// nameservice's settings are there or refused.
pub(crate) fn hadoop_conf(data: &[u8]) {
    let mut conf = Conf::default();
    for (number, bytes) in data.split(|byte| *byte == SEPARATOR).enumerate() {
        // Whoever reads files refuses what is no UTF-8.
        let Ok(xml) = std::str::from_utf8(bytes) else {
            continue;
        };
        let file = format!("file{number}.xml");
        if let Err(error) = conf.read(&file, xml) {
            assert!(error.message().contains(&file), "{error}");
        }
    }
    let keys: Vec<String> = conf.suffixes("").map(str::to_owned).collect();
    for key in &keys {
        named(key, conf.get(key));
        named(key, conf.list(key));
        named(key, conf.flag(key));
        named(key, conf.number(key));
        named(key, conf.small(key));
        named(key, conf.time(key));
        assert!(conf.origin(key).contains(key.as_str()));
    }
    if let Ok(Some(settings)) = Settings::of(&conf, NAMESERVICE) {
        assert_eq!(settings.nameservice.name, NAMESERVICE);
        settings.policies();
    }
    // What does not count is said in a line, whatever it is.
    let _ = connections(&mut conf);
    assert!(conf.warnings().iter().all(|line| !line.is_empty()));
}

/// An error names the key.
fn named<T>(key: &str, got: Result<T>) {
    if let Err(error) = got {
        assert!(error.message().contains(key), "{key}: {error}");
    }
}
