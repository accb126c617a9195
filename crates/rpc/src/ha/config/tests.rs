//! Hadoop's configuration files, good and bad.

use proptest::prelude::*;

use super::*;

fn file(properties: &[(&str, &str)]) -> String {
    let mut xml = "<?xml version=\"1.0\"?>\n<configuration>\n".to_owned();
    for (name, value) in properties {
        xml += &format!("<property><name>{name}</name><value>{value}</value></property>\n");
    }
    xml + "</configuration>\n"
}

fn conf(properties: &[(&str, &str)]) -> Conf {
    let mut conf = Conf::default();
    conf.read("hdfs-site.xml", &file(properties)).unwrap();
    conf
}

#[test]
fn later_files_win_but_not_over_final_values() {
    let mut conf = Conf::default();
    let core = "<configuration>
        <property><name>a</name><value> 1 </value><final>true</final><source>x</source></property>
        <property><name>b</name><value>1</value><description>d</description></property>
        <property name=\"c\" value=\"1\"/>
        <property><name>d</name></property>
        <!-- nothing -->
        </configuration>";
    conf.read("core-site.xml", core).unwrap();
    conf.read("hdfs-site.xml", &file(&[("a", "2"), ("b", "2")]))
        .unwrap();
    let get = |key| conf.get(key).unwrap();
    assert_eq!(get("a").as_deref(), Some("1"));
    assert_eq!(get("b").as_deref(), Some("2"));
    assert_eq!(get("c").as_deref(), Some("1"));
    assert_eq!(get("d"), None);
    assert_eq!(conf.origin("b"), "b in hdfs-site.xml");
    assert_eq!(
        conf.warnings(),
        ["a in hdfs-site.xml does not count: it is final in core-site.xml"]
    );
}

#[test]
fn what_is_no_configuration_is_refused_by_file() {
    for (xml, says) in [
        ("<configuration>", "site.xml: "),
        ("<other/>", "<other> in place of <configuration>"),
        ("<configuration><x/></configuration>", "<x> in place of"),
        (
            "<configuration>\n<property><value>1</value></property></configuration>",
            "line 2 has no name",
        ),
        (
            "<configuration xmlns:xi='u'><xi:include href='f'/></configuration>",
            "xi:include",
        ),
        (
            "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><configuration/>",
            "site.xml: ",
        ),
    ] {
        let error = Conf::default().read("site.xml", xml).unwrap_err();
        assert!(error.message().contains(says), "{error}");
        assert!(error.message().starts_with("site.xml: "), "{error}");
    }
}

#[test]
fn values_refer_to_others() {
    let conf = conf(&[
        ("base", "/data"),
        ("dir", "${base}/x${unknown}"),
        ("deep", "${dir}:${base}"),
        ("self", "a${self}"),
        ("one", "${two}"),
        ("two", "${one}"),
        ("open", "${base"),
    ]);
    let get = |key| conf.get(key).map(Option::unwrap);
    assert_eq!(get("dir").unwrap(), "/data/x${unknown}");
    assert_eq!(get("deep").unwrap(), "/data/x${unknown}:/data");
    assert_eq!(get("open").unwrap(), "${base");
    for key in ["self", "one"] {
        let error = get(key).unwrap_err();
        let text = format!("{key} in hdfs-site.xml");
        assert!(error.message().contains(&text), "{error}");
    }
}

#[test]
fn kinds_of_values() {
    let conf = conf(&[
        ("n", "17"),
        ("x", "0x10"),
        ("t", "true"),
        ("l", " a, b,,c "),
        ("big", "4294967296"),
        ("bad", "seven"),
        ("neg", "-1"),
        ("time", "10s"),
        ("ms", "250"),
    ]);
    assert_eq!(conf.number("n"), Ok(Some(17)));
    assert_eq!(conf.number("x"), Ok(Some(16)));
    assert_eq!(conf.number("none"), Ok(None));
    assert_eq!(conf.flag("t"), Ok(Some(true)));
    assert_eq!(conf.list("l").unwrap(), ["a", "b", "c"]);
    assert!(conf.list("none").unwrap().is_empty());
    assert_eq!(conf.time("time"), Ok(Some(Some(Duration::from_secs(10)))));
    assert_eq!(conf.time("ms"), Ok(Some(Some(Duration::from_millis(250)))));
    assert_eq!(conf.time("neg"), Ok(Some(None)));
    for error in [
        conf.number("bad").unwrap_err(),
        conf.number("neg").unwrap_err(),
        conf.small("big").unwrap_err(),
        conf.flag("bad").unwrap_err(),
        conf.time("bad").unwrap_err(),
    ] {
        assert!(error.message().contains(" in hdfs-site.xml"), "{error}");
    }
    let suffixes: Vec<&str> = conf.suffixes("b").collect();
    assert_eq!(suffixes, ["ad", "ig"]);
}

#[test]
fn units_of_time() {
    let ms = |text| parse_time(text).map(|time| time.unwrap().as_millis());
    assert_eq!(ms("1500us"), Some(1));
    assert_eq!(ms("2m"), Some(120_000));
    assert_eq!(ms("1h"), Some(3_600_000));
    assert_eq!(ms("1d"), Some(86_400_000));
    assert_eq!(ms("5 s"), Some(5000));
    for bad in ["", "s", "1w", "99999999999999d", "1.5s"] {
        assert_eq!(parse_time(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".{0,200}", value in "[${}a-c]{0,40}") {
        // A refusal is as good as an answer here.
        let _ = Conf::default().read("f", &text);
        let mut conf = Conf::default();
        conf.set("a", &value, "f");
        conf.set("b", &value, "f");
        let _ = conf.get("a");
        let _ = parse_time(&value);
    }
}
